// SPDX-License-Identifier: Apache-2.0

#include "runtime/compiled_autograd/capture_run.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/autograd/function_node.h"
#include "runtime/autograd/grad_mode.h"
#include "runtime/autograd/multi_grad_hook.h"
#include "runtime/autograd/saved_tensor_hooks.h"
#include "runtime/compiled_autograd/compiled_autograd.h"
#include "runtime/testing/loaded_function.h"

namespace cotan {
namespace {

using testing::At;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Leaf;
using testing::LoadedFunction;
using testing::Square;
using testing::TripledSquare;
using testing::TwoParts;
using testing::Values;
using testing::Vector;

class CaptureRunTest : public ::testing::Test {
 protected:
  CaptureRunTest() { EXPECT_TRUE(CompiledAutograd::Reset().ok()); }
  ~CaptureRunTest() override { EXPECT_TRUE(CompiledAutograd::Reset().ok()); }
};

// Returns x with a node that calls `run` in the backward.
Variable Calls(const Variable& x, std::function<absl::Status()> run) {
  const auto backward = [run](autograd::BackwardContext&,
                              absl::Span<Tensor> incoming) -> absl::StatusOr<autograd::Gradients> {
    if (absl::Status status = run(); !status.ok()) return status;
    return autograd::Gradients{incoming[0]};
  };
  return (*autograd::ApplyFunction("Calls", {x}, {x.tensor()}, backward))[0];
}

TEST_F(CaptureRunTest, StepsAreSegmentsAndCallsInTheEnginesOrder) {
  LoadedFunction program(Square());
  const Variable x = Leaf({2, 3});
  const auto once = program.Call({x});
  const Variable called = Calls(At(once, 0), [] { return absl::OkStatus(); });
  const auto twice = program.Call({called});
  CompiledAutograd scope({.trace = true});
  ASSERT_TRUE(program.Backward(At(twice, 0), {1, 1}).ok());
  EXPECT_THAT(CompiledAutograd::Trace(), ElementsAre("segment of 1 nodes", "call Calls", "segment of 2 nodes"));
  EXPECT_THAT(Values(x.grad()), ElementsAre(32, 108));
}

TEST_F(CaptureRunTest, CallbacksRunAtTheEndOfEachHit) {
  LoadedFunction program(Square());
  CompiledAutograd scope;
  std::string log;
  for (int round = 0; round < 3; ++round) {
    const Variable x = Leaf({2, 3});
    const auto once = program.Call({x});
    const Variable called = Calls(At(once, 0), [&] {
      return autograd::QueueCallback([&log, x] {
        log += x.grad().defined() ? "end " : "early ";
        return absl::OkStatus();
      });
    });
    ASSERT_TRUE(program.Backward(called, {1, 1}).ok());
  }
  EXPECT_EQ(log, "end end end ");
  EXPECT_EQ(CompiledAutograd::Stats().captures, 1);
}

TEST_F(CaptureRunTest, ABackwardInsideOfABackwardIsWalked) {
  LoadedFunction program(Square());
  LoadedFunction other(Square());
  const Variable y = Leaf({5, 5});
  CompiledAutograd scope;
  bool was_running = false;
  absl::Status reset;
  for (int round = 0; round < 2; ++round) {
    const Variable x = Leaf({2, 3});
    const auto once = program.Call({x});
    const Variable called = Calls(At(once, 0), [&]() -> absl::Status {
      was_running = CompiledAutograd::IsRunning();
      reset = CompiledAutograd::Reset();
      const GradModeGuard with_grad(true);
      const auto inner = other.Call({y});
      return other.Backward(At(inner, 0), {1, 1});
    });
    ASSERT_TRUE(program.Backward(called, {1, 1}).ok());
    EXPECT_THAT(Values(x.grad()), ElementsAre(4, 6));
  }
  EXPECT_THAT(Values(y.grad()), ElementsAre(20, 20));
  EXPECT_TRUE(was_running);
  EXPECT_THAT(reset.message(), HasSubstr("a captured backward is running"));
  EXPECT_EQ(CompiledAutograd::Stats().backwards, 2);
  EXPECT_EQ(CompiledAutograd::Stats().captures, 1);
}

TEST_F(CaptureRunTest, AnErrorOfANodeIsReturnedAndTheNextBackwardWorks) {
  LoadedFunction program(Square());
  CompiledAutograd scope;
  for (const bool fails : {true, false}) {
    const Variable x = Leaf({2, 3});
    const auto once = program.Call({x});
    const Variable called = Calls(At(once, 0), [&] { return fails ? absl::AbortedError("stop") : absl::OkStatus(); });
    const absl::Status status = program.Backward(called, {1, 1});
    EXPECT_EQ(status.ok(), !fails);
    EXPECT_EQ(status.message(), fails ? "in the backward of Calls: stop" : "");
    EXPECT_EQ(x.grad().defined(), !fails);
  }
}

TEST_F(CaptureRunTest, AModifiedSavedValueIsRefusedAsByTheWalk) {
  LoadedFunction program(Square());
  std::string messages[2];
  for (const bool captured : {false, true}) {
    Variable x = Leaf({2, 3});
    const auto once = program.Call({x});
    x.BumpVersion();
    CompiledAutograd scope;
    if (!captured) {
      ASSERT_TRUE(scope.Close().ok());
    }
    messages[captured] = std::string(program.Backward(At(once, 0), {1, 1}).message());
  }
  EXPECT_THAT(messages[1], HasSubstr("modified by an inplace operation"));
  EXPECT_EQ(messages[0], messages[1]);
}

TEST_F(CaptureRunTest, AGradThatSharesMemoryIsWalkedAndTheLogSaysSo) {
  LoadedFunction program(Square());
  Variable x = Leaf({2, 3});
  ASSERT_TRUE(x.SetGrad(Variable(Vector({1, 1}))).ok());
  const auto once = program.Call({x});
  CompiledAutograd scope;
  ASSERT_TRUE(autograd::Backward({At(once, 0)}, {x.grad().tensor()}, program.session.ops()).ok());
  EXPECT_THAT(Values(x.grad()), ElementsAre(5, 7));
  ASSERT_EQ(CompiledAutograd::Messages().size(), 1);
  EXPECT_THAT(CompiledAutograd::Messages()[0], HasSubstr("walked 2 nodes"));
  EXPECT_THAT(CompiledAutograd::Messages()[0], HasSubstr("shares memory"));
  EXPECT_EQ(CompiledAutograd::Stats().hits, 0);
}

TEST_F(CaptureRunTest, OpsOfGradientsThatNobodyAsksForAreLeftOut) {
  LoadedFunction program(TwoParts());
  const Variable x = Leaf({1, 2});
  const Variable y = Leaf({3, 4});
  const auto results = program.Call({x, y});
  CompiledAutograd scope;
  ASSERT_TRUE(autograd::Backward({At(results, 0), At(results, 1)}, {Vector({1, 1}), Vector({1, 1})},
                                 program.session.ops(), {.inputs = {{x}}})
                  .ok());
  EXPECT_THAT(Values(x.grad()), ElementsAre(2, 2));
  EXPECT_FALSE(y.grad().defined());
  EXPECT_THAT(CompiledAutograd::Text(), HasSubstr("constant 2"));
  EXPECT_THAT(CompiledAutograd::Text(), ::testing::Not(HasSubstr("constant 3")));
}

TEST_F(CaptureRunTest, OpsAreNamedAfterTheirNodeAndItsProgram) {
  LoadedFunction program(Square());
  const Variable x = Leaf({2, 3});
  const auto once = program.Call({x});
  const auto twice = program.Call({At(once, 0)});
  CompiledAutograd scope;
  ASSERT_TRUE(program.Backward(At(twice, 0), {1, 1}).ok());
  const std::string name = absl::StrCat("artifact.", (*At(once, 0).grad_fn())->name());
  const std::string& text = CompiledAutograd::Text();
  EXPECT_LT(text.find(absl::StrCat("0.", name)), text.find(absl::StrCat("1.", name)));
  EXPECT_NE(text.find(absl::StrCat("1.", name)), std::string::npos);
}

// An optimizer in the backward: at most one gradient is alive.
TEST_F(CaptureRunTest, PostAccumulateHooksFreeEachGradientAtOnce) {
  LoadedFunction program(TwoParts());
  std::vector<Variable> leaves = {Leaf({1, 2}), Leaf({3, 4})};
  int alive = 0;
  int most = 0;
  for (Variable& leaf : leaves) {
    const auto update = [&](Variable& updated) -> absl::Status {
      alive = 0;
      for (const Variable& other : leaves) alive += other.grad().defined() ? 1 : 0;
      most = std::max(most, alive);
      float* const data = updated.tensor().data<float>();
      for (int i = 0; i < 2; ++i) data[i] -= updated.grad().tensor().data<float>()[i];
      updated.BumpVersion();
      updated.ClearGrad();
      return absl::OkStatus();
    };
    ASSERT_TRUE(leaf.AddPostAccumulateHook(update).ok());
  }
  CompiledAutograd scope;
  for (int round = 0; round < 2; ++round) {
    const auto results = program.Call(leaves);
    ASSERT_TRUE(
        autograd::Backward({At(results, 0), At(results, 1)}, {Vector({1, 1}), Vector({1, 1})}, program.session.ops())
            .ok());
  }
  EXPECT_EQ(most, 1);
  EXPECT_THAT(Values(leaves[0]), ElementsAre(-3, -2));
  EXPECT_THAT(Values(leaves[1]), ElementsAre(-3, -2));
  EXPECT_EQ(CompiledAutograd::Stats().captures, 1);
}

TEST_F(CaptureRunTest, AKeptGradientIsNotTheOneOfTheLeaf) {
  LoadedFunction program(Square());
  const Variable x = Leaf({2, 3});
  Tensor kept;
  ASSERT_TRUE(Variable(x)
                  .AddHook([&](const Tensor& gradient) -> absl::StatusOr<Tensor> {
                    kept = gradient;
                    const Tensor keep;
                    return keep;
                  })
                  .ok());
  CompiledAutograd scope;
  const auto once = program.Call({x});
  ASSERT_TRUE(program.Backward(At(once, 0), {1, 1}).ok());
  EXPECT_NE(x.grad().tensor().address(), kept.address());
  EXPECT_EQ(*kept.ToVector<float>(), Values(x.grad()));
}

TEST_F(CaptureRunTest, MultiGradHooksRunOncePerBackward) {
  LoadedFunction program(TwoParts());
  const std::vector<Variable> leaves = {Leaf({1, 2}), Leaf({3, 4})};
  int runs = 0;
  ASSERT_TRUE(autograd::AddMultiGradHook(leaves, autograd::MultiGradMode::kAll, [&](const autograd::Gradients& g) {
                runs += g[0].defined() && g[1].defined() ? 1 : 100;
                return absl::OkStatus();
              }).ok());
  CompiledAutograd scope;
  for (int round = 0; round < 3; ++round) {
    const auto results = program.Call(leaves);
    ASSERT_TRUE(
        autograd::Backward({At(results, 0), At(results, 1)}, {Vector({1, 1}), Vector({1, 1})}, program.session.ops())
            .ok());
  }
  EXPECT_EQ(runs, 3);
  EXPECT_THAT(Values(leaves[1].grad()), ElementsAre(9, 9));
}

TEST_F(CaptureRunTest, SavedValuesAreUnpackedDirectlyBeforeTheirNode) {
  LoadedFunction program(Square());
  for (const bool captured : {false, true}) {
    std::string log;
    int packed = 0;
    const autograd::SavedTensorHooks hooks = {
        .pack = [&](const Tensor& value) -> absl::StatusOr<autograd::PackedData> {
          ++packed;
          return std::make_shared<Tensor>(*value.Clone());
        },
        .unpack = [&](const autograd::PackedData& data) -> absl::StatusOr<Tensor> {
          const auto& value = *static_cast<const Tensor*>(data.get());
          absl::StrAppend(&log, "unpack ", (*value.ToVector<float>())[0], " ");
          return value;
        }};
    const Variable x = Leaf({2, 3});
    Variable called;
    std::vector<FunctionResult> twice;
    {
      const autograd::SavedTensorHooksScope scope(hooks);
      const auto once = program.Call({x});
      called = Calls(At(once, 0), [&] {
        log += "call ";
        return absl::OkStatus();
      });
      twice = program.Call({called});
    }
    EXPECT_EQ(packed, 2);
    CompiledAutograd scope;
    if (!captured) {
      ASSERT_TRUE(scope.Close().ok());
    }
    ASSERT_TRUE(program.Backward(At(twice, 0), {1, 1}).ok());
    EXPECT_EQ(log, "unpack 4 call unpack 2 ") << captured;
    EXPECT_THAT(Values(x.grad()), ElementsAre(32, 108));
  }
  EXPECT_EQ(CompiledAutograd::Stats().captures, 1);
  EXPECT_EQ(CompiledAutograd::Stats().walked_segments, 0);
}

TEST_F(CaptureRunTest, DonatedMemoryCountsAsInTheWalk) {
  for (const bool captured : {false, true}) {
    LoadedFunction program(TripledSquare());
    const Variable x = Leaf({1, 2});
    const auto results = program.Call({x});
    CompiledAutograd scope;
    if (!captured) {
      ASSERT_TRUE(scope.Close().ok());
    }
    for (const bool retains : {true, false}) {
      ASSERT_TRUE(program.Backward(At(results, 0), {1, 1}, retains).ok());
      EXPECT_EQ(program.f.stats().backwards_in_donated_memory, retains ? 0 : 1) << captured;
    }
    EXPECT_EQ(program.f.stats().backwards, 2) << captured;
    EXPECT_THAT(Values(x.grad()), ElementsAre(36, 72)) << captured;  // 2 * 18 x
  }
  EXPECT_EQ(CompiledAutograd::Stats().backwards, 2);
  EXPECT_EQ(CompiledAutograd::Stats().walked_segments, 0);
}

// Returns a copy of x with a node, and a reference to the memory of the copy.
std::pair<Variable, std::weak_ptr<Storage>> Observed(const Variable& x, std::function<void()> run) {
  const auto backward = [run](autograd::BackwardContext&,
                              absl::Span<Tensor> incoming) -> absl::StatusOr<autograd::Gradients> {
    run();
    return autograd::Gradients{incoming[0]};
  };
  const Tensor copy = *x.tensor().Clone();
  return {(*autograd::ApplyFunction("Observed", {x}, {copy}, backward))[0], copy.storage()};
}

TEST_F(CaptureRunTest, SavedValuesAreFreeWhenTheNextNodeIsCalled) {
  LoadedFunction program(Square());
  CompiledAutograd scope;
  for (int round = 0; round < 3; ++round) {
    const Variable x = Leaf({2, 3});
    std::weak_ptr<Storage> saved;
    bool was_free = false;
    std::vector<FunctionResult> results;
    {
      auto [argument, memory] = Observed(x, [&] { was_free = saved.expired(); });
      saved = memory;
      results = program.Call({argument});
    }
    EXPECT_FALSE(saved.expired());
    ASSERT_TRUE(program.Backward(At(results, 0), {1, 1}).ok());
    EXPECT_TRUE(was_free) << round;
    EXPECT_THAT(Values(x.grad()), ElementsAre(4, 6));
  }
  EXPECT_EQ(CompiledAutograd::Stats().captures, 1);
}

TEST_F(CaptureRunTest, AfterABackwardOnlyTheLeafHoldsItsGradient) {
  LoadedFunction program(Square());
  CompiledAutograd scope;
  const Variable x = Leaf({2, 3});
  for (int round = 1; round <= 3; ++round) {
    const auto results = program.Call({x});
    ASSERT_TRUE(program.Backward(At(results, 0), {1, 1}).ok());
    EXPECT_THAT(Values(x.grad()), ElementsAre(4 * round, 6 * round));
    EXPECT_EQ(x.grad().tensor().storage().use_count(), 1) << round;
  }
  EXPECT_EQ(CompiledAutograd::Stats().captures, 2);  // without and with a gradient
}

TEST_F(CaptureRunTest, TheGradientOfALeafWithStridesIsRowMajor) {
  CompiledAutograd scope;
  TensorOps ops(testing::TestKernels());
  const Tensor whole = *Tensor::Zeros(DType::kFloat32, {4, 4});
  Variable x =
      *Variable::Leaf(*Tensor::InStorage(whole.storage(), DType::kFloat32, {.sizes = {2, 2}, .strides = {8, 2}}));
  const auto seven = [](autograd::BackwardContext&, absl::Span<Tensor>) -> absl::StatusOr<autograd::Gradients> {
    return autograd::Gradients{*Tensor::From<float>({7, 7, 7, 7}, {2, 2})};
  };
  const Variable y = (*autograd::ApplyFunction("Seven", {x}, {*x.tensor().Clone()}, seven))[0];
  Tensor kept;
  ASSERT_TRUE(x.AddHook([&kept](const Tensor& gradient) -> absl::StatusOr<Tensor> {
                 kept = gradient;
                 return Tensor();
               }).ok());
  ASSERT_TRUE(autograd::Backward({y}, {*ops.Ones(DType::kFloat32, {2, 2})}, ops).ok());
  EXPECT_THAT(Values(x.grad()), ElementsAre(7, 7, 7, 7));
  EXPECT_THAT(x.grad().tensor().layout().strides, ElementsAre(2, 1));
  EXPECT_NE(x.grad().tensor().storage(), kept.storage());
  EXPECT_EQ(CompiledAutograd::Stats().captures, 1);
}

}  // namespace
}  // namespace cotan
