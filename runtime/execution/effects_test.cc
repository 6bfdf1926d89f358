// SPDX-License-Identifier: Apache-2.0

#include "runtime/execution/effects.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/session/session.h"
#include "runtime/testing/program_builder.h"

namespace cotan {
namespace {

using serialization::Effect;
using serialization::Op;
using serialization::State;
using ::testing::ElementsAre;
using testing::ExprBuilder;
using ::testing::HasSubstr;
using testing::MethodBuilder;
using testing::ProgramBuilder;
using testing::TestKernels;

void AddEffect(MethodBuilder& m, Effect::Kind kind, absl::string_view name, uint32_t value,
               absl::string_view message = "") {
  Op op;
  op.mutable_effect()->set_kind(kind);
  op.mutable_effect()->set_name(std::string(name));
  op.mutable_effect()->set_message(std::string(message));
  m.AddOp(op, {value}, {});
}

int Twice(ExprBuilder& b) { return b.Add(0, 0); }

EffectHandler Nothing() {
  return [](const EffectEvent&) { return absl::OkStatus(); };
}

// Appends each effect to a list.
EffectHandler AddTo(std::vector<std::string>& events) {
  return [&events](const EffectEvent& event) {
    events.push_back(EffectText(event));
    return absl::OkStatus();
  };
}

TEST(EffectHandlersTest, AHandlerByNameGoesBeforeThatOfTheKind) {
  std::vector<std::string> called;
  const auto handler = [&called](std::string name) {
    return [&called, name](const EffectEvent&) {
      called.push_back(name);
      return absl::OkStatus();
    };
  };
  EffectHandlers handlers;
  handlers.Set(EffectKind::kPrint, handler("any")).Set(EffectKind::kPrint, "loss", handler("loss"));
  const Tensor value = *Tensor::Scalar(1.0f);
  for (const absl::string_view name : {"loss", "other"}) {
    ASSERT_TRUE((*handlers.Find(EffectKind::kPrint, name))({EffectKind::kPrint, name, "", value}).ok());
  }
  EXPECT_THAT(called, ElementsAre("loss", "any"));
  EXPECT_EQ(handlers.Find(EffectKind::kMetric, "loss"), nullptr);
}

TEST(EffectHandlersTest, WhatNobodyHandlesIsNamedWhenTheSessionIsMade) {
  ProgramBuilder program;
  MethodBuilder m = program.AddMethod("run");
  const uint32_t x = m.Input("x", DType::kFloat32, {});
  AddEffect(m, Effect::PRINT, "activation", x);
  AddEffect(m, Effect::METRIC, "loss", x);
  m.Output("y", x);
  SessionOptions options{.kernels = &TestKernels(), .threads = 1};
  options.effects.Set(EffectKind::kPrint, Nothing());
  const auto loaded = program.Load();
  const absl::Status refused = Session::Create(loaded, options).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(refused.message(),
            "no handler for effects of the program: metric 'loss' of method 'run'; set handlers in "
            "SessionOptions.effects (runtime/execution/effects.h)");
  options.effects.Set(EffectKind::kMetric, "loss", Nothing());
  EXPECT_TRUE(Session::Create(loaded, options).ok());
}

TEST(EffectHandlersTest, TextShowsTheFirstElements) {
  const Tensor few = *Tensor::From<int64_t>({1, -2, 3}, {3});
  EXPECT_EQ(EffectText({EffectKind::kMetric, "n", "", few}), "metric 'n': i64[3] = [1, -2, 3]");
  const Tensor many = *Tensor::From<float>(std::vector<float>(12, 0.5f), {3, 4});
  EXPECT_EQ(EffectText({EffectKind::kPrint, "a", "after fc", many}),
            "print 'a' (after fc): f32[3,4] = [0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, ...]");
  EXPECT_EQ(EffectText({EffectKind::kPrint, "none", "", *Tensor::Zeros(DType::kFloat32, {0})}),
            "print 'none': f32[0] = []");
}

TEST(EffectHandlersTest, EffectsHappenInTheOrderOfOpsAndOfStridedViewsToo) {
  ProgramBuilder program;
  MethodBuilder m = program.AddMethod("run");
  const uint32_t x = m.Input("x", DType::kFloat32, {"2", "3"});
  AddEffect(m, Effect::PRINT, "transposed", m.Permute(x, {1, 0}));
  const uint32_t y = m.Pointwise({"2", "3"}, {x}, Twice);
  AddEffect(m, Effect::PRINT, "twice", y);
  AddEffect(m, Effect::PRINT, "x", x);
  m.Output("y", y);
  std::vector<std::string> events;
  SessionOptions options{.kernels = &TestKernels(), .threads = 1};
  options.effects.Set(EffectKind::kPrint, AddTo(events));
  Session session = *Session::Create(program.Load(), options);
  for (int call = 0; call < 2; ++call) {
    ASSERT_TRUE(session.Run("run", {*Tensor::From<float>({1, 2, 3, 4, 5, 6}, {2, 3})}).ok());
  }
  ASSERT_EQ(events.size(), 6u);
  events.resize(3);
  EXPECT_THAT(events, ElementsAre("print 'transposed': f32[3,2] = [1, 4, 2, 5, 3, 6]",
                                  "print 'twice': f32[2,3] = [2, 4, 6, 8, 10, 12]",
                                  "print 'x': f32[2,3] = [1, 2, 3, 4, 5, 6]"));
}

// Doubles the state "s" f32[2], then has an effect on it.
ProgramBuilder DoublesState(Effect::Kind kind) {
  ProgramBuilder program;
  const uint32_t state = program.AddState("s", State::BUFFER, {"2"}, {1, 2});
  MethodBuilder m = program.AddMethod("run");
  const uint32_t condition = m.Input("condition", DType::kBool, {"2"});
  const uint32_t doubled = m.Pointwise({"2"}, {m.Read(state, DType::kFloat32, {"2"})}, Twice);
  AddEffect(m, kind, "check", kind == Effect::ASSERT ? condition : doubled, "of the state");
  m.Update(state, doubled);
  m.Output("out", doubled);
  return program;
}

Tensor Bools(bool a, bool b) { return *Tensor::From<bool>({a, b}, {2}); }

TEST(EffectHandlersTest, AFailedAssertionIsAnErrorAndLeavesStatesAsTheyWere) {
  Session session = *Session::Create(DoublesState(Effect::ASSERT).Load(), {.kernels = &TestKernels(), .threads = 1});
  ASSERT_TRUE(session.Run("run", {Bools(true, true)}).ok());
  const absl::Status failed = session.Run("run", {Bools(true, false)}).status();
  EXPECT_EQ(failed.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(failed.message()),
              HasSubstr("assertion 'check' failed: of the state (element 1 of bool[2] is false)"));
  EXPECT_THAT(*session.State("s")->ToVector<float>(), ElementsAre(2, 4));
}

TEST(EffectHandlersTest, AHandlerMayForgiveAFailedAssertion) {
  std::vector<std::string> events;
  SessionOptions options{.kernels = &TestKernels(), .threads = 1};
  options.effects.Set(EffectKind::kAssert, AddTo(events));
  Session session = *Session::Create(DoublesState(Effect::ASSERT).Load(), options);
  ASSERT_TRUE(session.Run("run", {Bools(true, true)}).ok());
  ASSERT_TRUE(session.Run("run", {Bools(false, true)}).ok());
  EXPECT_THAT(events, ElementsAre("assert 'check' (of the state): bool[2] = [0, 1]"));
  EXPECT_THAT(*session.State("s")->ToVector<float>(), ElementsAre(4, 8));
}

TEST(EffectHandlersTest, AHandlerThatFailsEndsTheCallAndLeavesStatesAsTheyWere) {
  SessionOptions options{.kernels = &TestKernels(), .threads = 1};
  options.effects.Set(EffectKind::kPrint, [](const EffectEvent&) { return absl::AbortedError("enough"); });
  Session session = *Session::Create(DoublesState(Effect::PRINT).Load(), options);
  const absl::Status failed = session.Run("run", {Bools(true, true)}).status();
  EXPECT_EQ(failed.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(failed.message()), HasSubstr("op 1 (effect): enough"));
  EXPECT_THAT(*session.State("s")->ToVector<float>(), ElementsAre(1, 2));
}

// A handler that calls its own session would overwrite the memory of the steps that run.
TEST(EffectHandlersTest, AHandlerMayReadItsSessionButNotChangeIt) {
  const std::string path = ::testing::TempDir() + "/handler.safetensors";
  Session* session = nullptr;
  std::vector<absl::Status> refused;
  SessionOptions options{.kernels = &TestKernels(), .threads = 1, .max_plans = 1};
  options.effects.Set(EffectKind::kPrint, [&](const EffectEvent&) -> absl::Status {
    EXPECT_THAT(*session->State("s")->ToVector<float>(), ElementsAre(1, 2)) << "as before the call";
    EXPECT_TRUE(session->SaveCheckpoint(path).ok());
    refused = {session->Run("run", {Bools(true, true)}).status(),
               session->SetState("s", *Tensor::From<float>({0, 0}, {2})), session->LoadCheckpoint(path)};
    return absl::OkStatus();
  });
  Session own = *Session::Create(DoublesState(Effect::PRINT).Load(), options);
  session = &own;
  ASSERT_TRUE(own.Run("run", {Bools(true, true)}).ok());
  ASSERT_EQ(refused.size(), 3u);
  for (const absl::Status& status : refused) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr("a method of this session has called it"));
  }
  EXPECT_THAT(*own.State("s")->ToVector<float>(), ElementsAre(2, 4));
  EXPECT_TRUE(own.SetState("s", *Tensor::From<float>({1, 2}, {2})).ok()) << "after the call";
  EXPECT_TRUE(own.Run("run", {Bools(true, true)}).ok());
}

TEST(EffectHandlersTest, AHandlerMayCallAnotherSession) {
  const std::shared_ptr<const Program> program = DoublesState(Effect::PRINT).Load();
  SessionOptions options{.kernels = &TestKernels(), .threads = 1};
  options.effects.Set(EffectKind::kPrint, Nothing());
  Session other = *Session::Create(program, options);
  options.effects.Set(EffectKind::kPrint,
                      [&](const EffectEvent&) { return other.Run("run", {Bools(true, true)}).status(); });
  Session session = *Session::Create(program, options);
  for (int call = 0; call < 2; ++call) ASSERT_TRUE(session.Run("run", {Bools(true, true)}).ok());
  EXPECT_THAT(*session.State("s")->ToVector<float>(), ElementsAre(4, 8));
  EXPECT_THAT(*other.State("s")->ToVector<float>(), ElementsAre(4, 8));
}

TEST(EffectHandlersTest, OperandsThatDoNotFitTheKindAreRefused) {
  for (const auto& [kind, message] : {std::make_pair(Effect::ASSERT, "the condition is f32[2], expected bool[2]"),
                                      std::make_pair(Effect::METRIC, "the metric is f32[2], expected one number")}) {
    ProgramBuilder program;
    MethodBuilder m = program.AddMethod("run");
    const uint32_t x = m.Input("x", DType::kFloat32, {"2"});
    AddEffect(m, kind, "e", x);
    m.Output("y", x);
    SessionOptions options{.kernels = &TestKernels(), .threads = 1};
    options.effects.Set(EffectKind::kMetric, Nothing());
    Session session = *Session::Create(program.Load(), options);
    EXPECT_THAT(std::string(session.Run("run", {*Tensor::From<float>({1, 2}, {2})}).status().message()),
                HasSubstr(message));
  }
}

TEST(EffectHandlersTest, DamagedEffectsAreRefusedWhenLoaded) {
  const auto load = [](Effect::Kind kind, absl::string_view name) {
    ProgramBuilder program;
    MethodBuilder m = program.AddMethod("run");
    const uint32_t x = m.Input("x", DType::kFloat32, {"2"});
    AddEffect(m, kind, name, x);
    m.Output("y", x);
    return std::string(Program::LoadBytes(program.Bytes()).status().message());
  };
  EXPECT_THAT(load(Effect::KIND_UNSPECIFIED, "e"), HasSubstr("effect 0 is unknown"));
  EXPECT_THAT(load(Effect::PRINT, ""), HasSubstr("an effect has no name"));
}

}  // namespace
}  // namespace cotan
