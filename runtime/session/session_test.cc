// SPDX-License-Identifier: Apache-2.0

#include "runtime/session/session.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "base/philox.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/session/session_access.h"
#include "runtime/testing/limited_device.h"
#include "runtime/testing/program_builder.h"

namespace cotan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::LinearRegression;
using testing::MethodBuilder;
using testing::ProgramBuilder;
using testing::TestKernels;

Session MakeSession(std::shared_ptr<const Program> program, SessionOptions options = {}) {
  options.kernels = &TestKernels();
  if (options.threads == 0) options.threads = 1;
  absl::StatusOr<Session> session = Session::Create(std::move(program), options);
  EXPECT_TRUE(session.ok()) << session.status();
  return *std::move(session);
}

Tensor F32(const std::vector<float>& values, const DimVector& sizes) { return *Tensor::From<float>(values, sizes); }

std::vector<float> Floats(const absl::StatusOr<Tensor>& tensor) {
  EXPECT_TRUE(tensor.ok()) << tensor.status();
  return tensor.ok() ? *tensor->ToVector<float>() : std::vector<float>();
}

// Computes LinearRegression() with plain loops.
struct Oracle {
  std::vector<float> weight = {0.1f, -0.2f, 0.3f, 0.4f, 0.5f, -0.6f};
  std::vector<float> bias = {0.25f, -0.25f};
  std::vector<float> momentum = std::vector<float>(6);
  float lr = 0.125f;
  uint64_t seed = 0;
  uint64_t offset = 0;

  std::vector<float> Predict(const std::vector<float>& input) const {
    std::vector<float> prediction(input.size() / 3 * 2);
    for (size_t i = 0; i < prediction.size(); ++i) {
      prediction[i] = bias[i % 2];
      for (size_t k = 0; k < 3; ++k) prediction[i] += input[i / 2 * 3 + k] * weight[i % 2 * 3 + k];
    }
    return prediction;
  }

  float Step(const std::vector<float>& input, const std::vector<float>& target) {
    std::vector<float> tangent = Predict(input);
    const float batch = static_cast<float>(tangent.size() / 2);
    float loss = 0;
    std::vector<float> weight_gradient(6);
    std::vector<float> bias_gradient(2);
    for (size_t i = 0; i < tangent.size(); ++i) {
      tangent[i] -= target[i];
      loss += tangent[i] * tangent[i] / (2 * batch);
      tangent[i] /= batch;
      for (size_t k = 0; k < 3; ++k) weight_gradient[i % 2 * 3 + k] += tangent[i] * input[i / 2 * 3 + k];
      bias_gradient[i % 2] += tangent[i];
    }
    for (size_t i = 0; i < 6; ++i) {
      momentum[i] = momentum[i] * 0.5f + weight_gradient[i];
      weight[i] -= lr * momentum[i];
    }
    const PhiloxBlock draws = Philox(seed, offset + 1);
    for (size_t i = 0; i < 2; ++i) bias[i] -= lr * (bias_gradient[i] + UniformFloat(draws.lane[i]) * 1e-3f);
    offset += 2;
    return loss;
  }
};

MATCHER_P(Near, expected, "") {
  if (arg.size() != expected.size()) return false;
  for (size_t i = 0; i < arg.size(); ++i) {
    if (!(std::abs(arg[i] - expected[i]) <= 1e-5f)) return false;
  }
  return true;
}

const std::vector<float> kInput = {1, 2, 3, -1, 0.5f, 2, 0, 1, -2, 3, 1, 1};
const std::vector<float> kTarget = {1, 0, -1, 2, 0.5f, 1, 2, -2};

TEST(SessionTest, TrainingStepsUpdateStatesAsPlainLoopsDo) {
  Session session = MakeSession(LinearRegression().Load());
  Oracle oracle;
  for (int step = 0; step < 5; ++step) {
    const auto results = session.Run("train_step", {F32(kInput, {4, 3}), F32(kTarget, {4, 2})});
    ASSERT_TRUE(results.ok()) << results.status();
    EXPECT_NEAR(*(*results)[0].Item<float>(), oracle.Step(kInput, kTarget), 1e-5);
    EXPECT_THAT(Floats(session.State("weight")), Near(oracle.weight));
    EXPECT_THAT(Floats(session.State("bias")), Near(oracle.bias));
    EXPECT_THAT(Floats(session.State("optimizer.weight.momentum")), Near(oracle.momentum));
    EXPECT_EQ(*session.Rng(), (RngState{.seed = 0, .offset = 2 * (step + 1)}));
  }
  EXPECT_EQ(*session.State("step")->Item<int64_t>(), 5);
}

TEST(SessionTest, StateUpdatesHappenInPlace) {
  Session session = MakeSession(LinearRegression().Load());
  ASSERT_TRUE(session.Run("train_step", {F32(kInput, {4, 3}), F32(kTarget, {4, 2})}).ok());
  const PlanSummary summary = *session.Summary(*session.FindMethod("train_step"));
  EXPECT_EQ(summary.stats.updates_in_place, 5);
  EXPECT_EQ(summary.stats.update_copies, 0);
  EXPECT_EQ(summary.stats.view_copies, 0);
  EXPECT_EQ(summary.stats.outputs_in_place, 1);  // though the loss is a view
  EXPECT_EQ(summary.stats.output_copies, 0);
  EXPECT_GE(summary.stats.inputs_overwritten, 1);
  EXPECT_GE(summary.arena_bytes, summary.peak_bytes);
}

TEST(SessionTest, MethodsShareStates) {
  Session session = MakeSession(LinearRegression().Load());
  Oracle oracle;
  ASSERT_TRUE(session.Run("train_step", {F32(kInput, {4, 3}), F32(kTarget, {4, 2})}).ok());
  oracle.Step(kInput, kTarget);
  const auto results = session.Run("eval", {F32(kInput, {4, 3})});
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_THAT(Floats((*results)[0]), Near(oracle.Predict(kInput)));
}

TEST(SessionTest, SessionsOfOneProgramDoNotShareStates) {
  const std::shared_ptr<const Program> program = LinearRegression().Load();
  Session a = MakeSession(program);
  Session b = MakeSession(program);
  ASSERT_TRUE(a.Run("train_step", {F32(kInput, {4, 3}), F32(kTarget, {4, 2})}).ok());
  EXPECT_THAT(Floats(b.State("weight")), Near(Oracle().weight));
}

TEST(SessionTest, OtherBatchSizesArePlannedAndKept) {
  Session session = MakeSession(LinearRegression().Load(), {.max_plans = 2});
  const MethodHandle eval = *session.FindMethod("eval");
  const auto run = [&](int64_t batch) {
    const std::vector<float> input(static_cast<size_t>(batch) * 3, 0.5f);
    const auto results = session.Run("eval", {F32(input, {batch, 3})});
    ASSERT_TRUE(results.ok()) << results.status();
    EXPECT_THAT(Floats((*results)[0]), Near(Oracle().Predict(input)));
  };
  for (int64_t batch : {4, 7, 4, 4, 7}) run(batch);
  EXPECT_EQ(session.num_plans_made(), 2);
  run(1);  // evicts the plan for 4
  run(7);
  EXPECT_EQ(session.num_plans_made(), 3);
  run(4);
  EXPECT_EQ(session.num_plans_made(), 4);
  EXPECT_GT(session.Summary(eval)->num_steps, 0);
}

TEST(SessionTest, StridedArgumentsAreTaken) {
  Session session = MakeSession(LinearRegression().Load());
  std::vector<float> columns(12);
  for (size_t i = 0; i < 12; ++i) columns[i % 3 * 4 + i / 3] = kInput[i];
  const Tensor storage = F32(columns, {12});
  const Tensor transposed =
      *Tensor::InStorage(storage.storage(), DType::kFloat32, {.sizes = {4, 3}, .strides = {1, 4}, .offset = 0});
  for (int repeat = 0; repeat < 2; ++repeat) {
    const auto results = session.Run("eval", {transposed});
    ASSERT_TRUE(results.ok()) << results.status();
    EXPECT_THAT(Floats((*results)[0]), Near(Oracle().Predict(kInput)));
    // A contiguous argument in between is used without a copy.
    ASSERT_TRUE(session.Run("eval", {F32(kInput, {4, 3})}).ok());
  }
}

TEST(SessionTest, ResultsThatFitAreReused) {
  Session session = MakeSession(LinearRegression().Load());
  const MethodHandle eval = *session.FindMethod("eval");
  const std::vector<Tensor> arguments = {F32(kInput, {4, 3})};
  std::vector<Tensor> results = {*Tensor::Empty(DType::kFloat32, {4, 2})};
  const void* address = results[0].address();
  ASSERT_TRUE(session.Run(eval, arguments, absl::MakeSpan(results)).ok());
  EXPECT_EQ(results[0].address(), address);
  EXPECT_THAT(Floats(results[0]), Near(Oracle().Predict(kInput)));

  results[0] = *Tensor::Empty(DType::kFloat32, {3, 2});
  ASSERT_TRUE(session.Run(eval, arguments, absl::MakeSpan(results)).ok());
  EXPECT_THAT(results[0].sizes(), ElementsAre(4, 2));
}

TEST(SessionTest, ResultsNeverOverwriteArguments) {
  Session session = MakeSession(LinearRegression().Load());
  const Tensor input = F32(kInput, {4, 3});
  std::vector<Tensor> results = {
      *Tensor::InStorage(input.storage(), DType::kFloat32, {.sizes = {4, 2}, .strides = {2, 1}, .offset = 0})};
  ASSERT_TRUE(session.Run(*session.FindMethod("eval"), {input}, absl::MakeSpan(results)).ok());
  EXPECT_THAT(Floats(input), Near(kInput));
  EXPECT_THAT(Floats(results[0]), Near(Oracle().Predict(kInput)));
}

TEST(SessionTest, ResultsNeverOverwriteStates) {
  Session session = MakeSession(LinearRegression().Load());
  std::vector<Tensor> results = {(*session.Parameter("bias")).tensor()};
  const Tensor weight = (*session.Parameter("weight")).tensor();
  results[0] = *Tensor::InStorage(weight.storage(), DType::kFloat32, {.sizes = {1, 2}, .strides = {2, 1}, .offset = 2});
  ASSERT_TRUE(session.Run(*session.FindMethod("eval"), {F32({1, 2, 3}, {1, 3})}, absl::MakeSpan(results)).ok());
  EXPECT_THAT(Floats(session.State("weight")), Near(Oracle().weight));
  EXPECT_THAT(Floats(results[0]), Near(Oracle().Predict({1, 2, 3})));
}

TEST(SessionTest, StatesThatAMethodUpdatesAreNoArguments) {
  Session session = MakeSession(LinearRegression().Load());
  const Tensor weight = (*session.Parameter("weight")).tensor();
  const RngState rng = *session.Rng();
  const auto results = session.Run("train_step", {weight, F32({1, 2, 3, 4}, {2, 2})});
  EXPECT_EQ(results.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(results.status().message(),
              HasSubstr("updates state 'weight', which shares memory with argument 0 'input'"));
  EXPECT_THAT(Floats(session.State("weight")), Near(Oracle().weight));
  EXPECT_EQ(session.Rng()->offset, rng.offset);
  const auto prediction = session.Run("eval", {weight});
  ASSERT_TRUE(prediction.ok()) << "nothing is updated: " << prediction.status();
  EXPECT_THAT(Floats((*prediction)[0]), Near(Oracle().Predict(Oracle().weight)));
  Session other = MakeSession(LinearRegression().Load());
  EXPECT_TRUE(other.Run("train_step", {weight, F32({1, 2, 3, 4}, {2, 2})}).ok()) << "of another session";
}

// rng = y
TEST(SessionTest, RandomGeneratorIsNoArgumentOfAMethodThatMovesItOn) {
  ProgramBuilder builder;
  const uint32_t rng = builder.AddState("rng", serialization::State::RNG, DType::kInt64, {"2"}, 5);
  MethodBuilder f = builder.AddMethod("f");
  f.Update(rng, f.Input("y", DType::kInt64, {"2"}));
  Session session = MakeSession(builder.Load());
  EXPECT_THAT(session.Run("f", {SessionCoreOf(session)->states().tensor(0)}).status().message(),
              HasSubstr("updates state 'rng', which shares memory with argument 0 'y'"));
  ASSERT_TRUE(session.Run("f", {*Tensor::From<int64_t>({1, 2}, {2})}).ok());
  EXPECT_EQ(session.Rng()->offset, 2u);
}

TEST(SessionTest, HandlesOfAnotherProgramAreRefused) {
  Session session = MakeSession(LinearRegression().Load());
  for (const MethodHandle handle : {MethodHandle{}, MethodHandle{100}}) {
    EXPECT_EQ(session.Summary(handle).status().code(), absl::StatusCode::kInvalidArgument) << handle.index;
    EXPECT_EQ(session.StepNames(handle).status().code(), absl::StatusCode::kInvalidArgument) << handle.index;
    EXPECT_EQ(session.Run(handle, {}, {}).code(), absl::StatusCode::kInvalidArgument) << handle.index;
  }
  EXPECT_EQ(session.Summary(*session.FindMethod("eval")).status().code(), absl::StatusCode::kFailedPrecondition);
}

// --- forward and backward ----------------------------------------------------

TEST(SessionTest, BackwardYieldsGradientsByName) {
  Session session = MakeSession(LinearRegression().Load());
  ASSERT_TRUE(session.Run("forward", {F32({1, 2, 3, 4, 5, 6}, {2, 3})}).ok());
  EXPECT_EQ(session.num_plans_made(), 1) << "the backward is planned on first use";
  EXPECT_EQ(session.Gradient("weight").status().code(), absl::StatusCode::kFailedPrecondition);
  const auto results = session.Run("backward", {F32({1, 0, 0, 1}, {2, 2})});
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_EQ(session.num_plans_made(), 2);
  EXPECT_THAT(Floats(session.Gradient("weight")), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(Floats(session.Gradient("bias")), ElementsAre(1, 1));
  EXPECT_THAT(Floats((*results)[2]), Near(Oracle().weight));
  EXPECT_EQ(session.Gradient("nothing").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(session.Gradient("gradient.weight").status().code(), absl::StatusCode::kNotFound);
}

TEST(SessionTest, ArgumentsMayChangeBetweenForwardAndBackward) {
  Session session = MakeSession(LinearRegression().Load());
  const Tensor input = F32({1, 2, 3}, {1, 3});
  ASSERT_TRUE(session.Run("forward", {input}).ok());
  input.data<float>()[0] = 100;
  ASSERT_TRUE(session.Run("backward", {F32({1, 0}, {1, 2})}).ok());
  EXPECT_THAT(Floats(session.Gradient("weight")), ElementsAre(1, 2, 3, 0, 0, 0));
}

TEST(SessionTest, EachForwardServesOneBackward) {
  Session session = MakeSession(LinearRegression().Load());
  const Tensor tangent = F32({1, 0}, {1, 2});
  EXPECT_EQ(session.Run("backward", {tangent}).status().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(session.Run("forward", {F32({1, 2, 3}, {1, 3})}).ok());
  EXPECT_EQ(session.Run("backward", {F32({1, 0, 2, 2}, {2, 2})}).status().code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(session.Run("backward", {tangent}).ok());
  const absl::Status again = session.Run("backward", {tangent}).status();
  EXPECT_EQ(again.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(again.message()), HasSubstr("'forward'"));
}

TEST(SessionTest, ABackwardOverChangedStatesIsRefused) {
  Session session = MakeSession(LinearRegression().Load());
  ASSERT_TRUE(session.Run("forward", {F32({1, 2, 3}, {1, 3})}).ok());
  ASSERT_TRUE(session.SetState("bias", F32({0, 0}, {2})).ok()) << "the backward does not read it";
  ASSERT_TRUE(session.SetState("weight", F32({0, 0, 0, 0, 0, 0}, {2, 3})).ok());
  const absl::Status status = session.Run("backward", {F32({1, 0}, {1, 2})}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("state 'weight'"));
}

// --- states ------------------------------------------------------------------

TEST(SessionTest, HyperparametersTakeEffectAtTheNextStep) {
  Session session = MakeSession(LinearRegression().Load());
  Oracle oracle;
  EXPECT_EQ(*session.Hyperparameter("lr"), 0.125);
  ASSERT_TRUE(session.SetHyperparameter("lr", 0.5).ok());
  oracle.lr = 0.5f;
  ASSERT_TRUE(session.Run("train_step", {F32(kInput, {4, 3}), F32(kTarget, {4, 2})}).ok());
  oracle.Step(kInput, kTarget);
  EXPECT_THAT(Floats(session.State("weight")), Near(oracle.weight));
  const absl::Status status = session.SetHyperparameter("lr", 1, /*group=*/3);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("hyperparameter.lr.0"));
}

TEST(SessionTest, TheSeedDecidesTheDraws) {
  const auto bias_after = [](int64_t seed) {
    Session session = MakeSession(LinearRegression().Load());
    EXPECT_TRUE(session.SetRng({.seed = seed, .offset = 40}).ok());
    EXPECT_TRUE(session.Run("train_step", {F32(kInput, {4, 3}), F32(kTarget, {4, 2})}).ok());
    EXPECT_EQ(session.Rng()->offset, 42);
    return Floats(session.State("bias"));
  };
  EXPECT_EQ(bias_after(1), bias_after(1));
  EXPECT_NE(bias_after(1), bias_after(2));
  Oracle oracle;
  oracle.seed = 1;
  oracle.offset = 40;
  oracle.Step(kInput, kTarget);
  EXPECT_THAT(bias_after(1), Near(oracle.bias));
}

TEST(SessionTest, StatesOfAnotherTypeAreRefused) {
  Session session = MakeSession(LinearRegression().Load());
  const absl::Status status = session.SetState("weight", F32({1, 2, 3}, {3}));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "state 'weight' is f32[2,3], got f32[3]");
  EXPECT_EQ(session.SetState("nothing", F32({}, {0})).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(session.State("nothing").status().code(), absl::StatusCode::kNotFound);
}

// --- errors ------------------------------------------------------------------

struct Refusal {
  std::vector<Tensor> arguments;
  absl::StatusCode code;
  std::string message;
};

TEST(SessionTest, WrongArgumentsAreNamedAndChangeNothing) {
  const Tensor input = F32(kInput, {4, 3});
  const Tensor target = F32(kTarget, {4, 2});
  const Tensor wrong_dtype = *Tensor::Zeros(DType::kFloat64, {4, 2});
  const std::vector<Refusal> refusals = {
      {{}, absl::StatusCode::kInvalidArgument, "method 'train_step' takes 2 arguments (input, target), got 0"},
      {{input, target, target}, absl::StatusCode::kInvalidArgument, "got 3"},
      {{input, Tensor()},
       absl::StatusCode::kInvalidArgument,
       "method 'train_step', argument 1 'target': expected f32[s0,2], got undefined"},
      {{input, wrong_dtype},
       absl::StatusCode::kInvalidArgument,
       "argument 1 'target': expected f32[s0,2], got f64[4,2]"},
      {{input, F32(kTarget, {8})},
       absl::StatusCode::kInvalidArgument,
       "argument 1 'target': expected f32[s0,2], got f32[8]"},
      {{input, F32(kTarget, {2, 4})},
       absl::StatusCode::kInvalidArgument,
       "dimension 0 is 'batch', which is 4 elsewhere, got 2"},
      {{F32(kInput, {3, 4}), F32({1, 2, 3, 4, 5, 6}, {3, 2})},
       absl::StatusCode::kInvalidArgument,
       "argument 0 'input': expected f32[s0,3], got f32[3,4]"},
      {{F32(std::vector<float>(195), {65, 3}), F32(std::vector<float>(130), {65, 2})},
       absl::StatusCode::kOutOfRange,
       "dimension 0 is 'batch' in [1, 64], got 65"},
      {{F32({}, {0, 3}), F32({}, {0, 2})}, absl::StatusCode::kOutOfRange, "got 0"},
  };
  Session session = MakeSession(LinearRegression().Load());
  for (const Refusal& refusal : refusals) {
    const absl::Status status = session.Run("train_step", refusal.arguments).status();
    EXPECT_EQ(status.code(), refusal.code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(refusal.message));
  }
  EXPECT_THAT(Floats(session.State("weight")), Near(Oracle().weight));
  EXPECT_EQ(*session.State("step")->Item<int64_t>(), 0);
}

TEST(SessionTest, UnknownMethodsAreRefusedWithAList) {
  Session session = MakeSession(LinearRegression().Load());
  const absl::Status status = session.Run("train", {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("train_step, eval, forward, backward"));
  std::vector<Tensor> results(1);
  EXPECT_FALSE(session.Run(MethodHandle{}, {}, absl::MakeSpan(results)).ok());
  EXPECT_FALSE(session.Run(MethodHandle{99}, {}, absl::MakeSpan(results)).ok());
}

TEST(SessionTest, OptionsAreChecked) {
  const std::shared_ptr<const Program> program = LinearRegression().Load();
  EXPECT_FALSE(Session::Create(nullptr, {.kernels = &TestKernels()}).ok());
  EXPECT_FALSE(Session::Create(program, {}).ok());
  EXPECT_FALSE(Session::Create(program, {.kernels = &TestKernels(), .threads = -1}).ok());
  EXPECT_FALSE(Session::Create(program, {.kernels = &TestKernels(), .max_plans = 0}).ok());
  EXPECT_GE(Session::Create(program, {.kernels = &TestKernels()}).ok(), true);
}

TEST(SessionTest, SubnormalMomentaAreZerosIfTheSessionFlushesThem) {
  for (const bool flush : {false, true}) {
    Session session = MakeSession(LinearRegression().Load(), {.flush_denormals = flush});
    ASSERT_TRUE(session.SetState("optimizer.weight.momentum", F32(std::vector<float>(6, 1e-38F), {2, 3})).ok());
    const Tensor zeros = F32(std::vector<float>(12), {4, 3});
    ASSERT_TRUE(session.Run("train_step", {zeros, F32(kTarget, {4, 2})}).ok());
    EXPECT_EQ(Floats(session.State("optimizer.weight.momentum")), std::vector<float>(6, flush ? 0 : 5e-39F));
  }
}

class OtherDevice final : public testing::LimitedDevice {
 public:
  DeviceType type() const override { return DeviceType::kCuda; }
};

TEST(SessionTest, OnlyTheHostFlushesSubnormalNumbers) {
  OtherDevice device;
  const auto session = Session::Create(LinearRegression().Load(),
                                       {.kernels = &TestKernels(), .device = &device, .flush_denormals = true});
  EXPECT_EQ(session.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(session.status().message()), HasSubstr("the device is cuda"));
}

TEST(SessionTest, ABackendWithoutAKernelIsNamed) {
  const KernelRegistry empty;
  absl::StatusOr<Session> session = Session::Create(LinearRegression().Load(), {.kernels = &empty, .threads = 1});
  ASSERT_TRUE(session.ok());
  const absl::Status status = session->Run("eval", {F32(kInput, {4, 3})}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("method 'eval', op 1 (matmul)"));
}

}  // namespace
}  // namespace cotan
