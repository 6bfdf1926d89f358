// SPDX-License-Identifier: Apache-2.0

// Trains models whose sizes depend on data beside LibTorch eager: a detection head, whose boxes above a score go
// through a network of their own, and a router, whose experts take the tokens that prefer them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "aot/compile.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/execution/program.h"
#include "runtime/session.h"
#include "runtime/tools/verify.h"
#include "serialization/schema/continuation.h"
#include "testing/e2e/compiled_trainer.h"
#include "testing/e2e/philox_dropout.h"
#include "testing/tolerance.h"

namespace cotan::testing {
namespace {

using ::testing::HasSubstr;
using Tensors = std::vector<at::Tensor>;

constexpr uint64_t kSeed = 5;
constexpr int64_t kMaximum = 20;
constexpr double kLearningRate = 0.05;

// Scores anchors, keeps those with a positive score, and refines their boxes.
struct Detector : torch::nn::Module {
  Detector()
      : body(register_module("body", torch::nn::Linear(6, 16))),
        norm(register_module("norm", torch::nn::BatchNorm1d(16))),
        hidden(register_module("hidden", torch::nn::Linear(16, 24))),
        dropout(register_module("dropout", torch::nn::Dropout(0.25))),
        boxes(register_module("boxes", torch::nn::Linear(24, 4))) {
    to(torch::kDouble);
  }

  Tensors forward(const at::Tensor& x, const at::Tensor& bias) {
    const at::Tensor features = torch::relu(norm(body(x)));
    // The score needs the features, and its sign is that of the first input, so that a test chooses the count.
    const at::Tensor found = features.detach().sum(1) * 0 + x.select(1, 0) + bias > 0;
    const at::Tensor refined = boxes(dropout(torch::relu(hidden(features.index({found})))));
    return {refined, found};
  }

  torch::nn::Linear body;
  torch::nn::BatchNorm1d norm;
  torch::nn::Linear hidden;
  torch::nn::Dropout dropout;
  torch::nn::Linear boxes;
};

// The loss of the boxes that were found.
at::Tensor DetectionLoss(const Tensors& outputs, const Tensors& targets) {
  const at::Tensor wanted = targets[0].index({outputs[1]});
  return (outputs[0] - wanted).pow(2).sum() / static_cast<double>(outputs[1].size(0));
}

// Sends each token to the expert with the largest share, and puts the results in the places of the tokens.
struct Router : torch::nn::Module {
  Router() : gate(register_module("gate", torch::nn::Linear(5, 3))) {
    for (int e = 0; e < 3; ++e) {
      experts.push_back(register_module(absl::StrCat("expert", e), torch::nn::Linear(5, 5)));
    }
    to(torch::kDouble);
  }

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor shares = gate(x).softmax(1);
    const at::Tensor best = shares.argmax(1);
    at::Tensor result = torch::zeros_like(x);
    for (int64_t e = 0; e < 3; ++e) {
      const at::Tensor mine = best.eq(e);
      const at::Tensor computed = torch::tanh(experts[static_cast<size_t>(e)](x.index({mine})));
      result.index_put_({mine}, computed * shares.select(1, e).index({mine}).unsqueeze(1));
    }
    return result;
  }

  torch::nn::Linear gate;
  std::vector<torch::nn::Linear> experts;
};

at::Tensor SquaredError(const Tensors& outputs, const Tensors& targets) {
  return (outputs[0] - targets[0]).pow(2).mean();
}

aot::CompileOptions OptionsFor(const aot::LossFunction& loss, const at::Tensor& target) {
  aot::CompileOptions options;
  options.loss.function = loss;
  options.loss.targets = {target};
  options.optimizer = aot::OptimizerConfig{aot::SgdOptions{.lr = kLearningRate, .momentum = 0.9}};
  options.module.seed = kSeed;
  options.tracing.data_dependent_sizes.range = aot::SizeRange{.min = 0, .max = kMaximum};
  return options;
}

absl::StatusOr<Session> Open(const aot::CompiledModel& model, const std::string& name) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/", name, ".cotan");
  const absl::Status saved = model.Save(path);
  if (!saved.ok()) return saved;
  absl::StatusOr<std::shared_ptr<const Program>> program = Program::Load(path);
  if (!program.ok()) return program.status();
  return Session::Create(*program, {.kernels = &CpuKernels(), .threads = 1});
}

absl::StatusOr<Tensors> CallMethod(Session& session, absl::string_view method, const Tensors& inputs) {
  std::vector<Tensor> arguments;
  for (const at::Tensor& input : inputs) {
    absl::StatusOr<Tensor> argument = ToCotan(input);
    if (!argument.ok()) return argument.status();
    arguments.push_back(*std::move(argument));
  }
  absl::StatusOr<std::vector<Tensor>> results = session.Run(method, arguments);
  if (!results.ok()) return results.status();
  Tensors tensors;
  for (const Tensor& result : *results) tensors.push_back(*ToTorch(result));
  return tensors;
}

double ErrorOf(const at::Tensor& actual, const at::Tensor& expected) {
  const at::Tensor a = actual.detach().contiguous(), e = expected.detach().contiguous();
  return ErrorInEps<double>({a.const_data_ptr<double>(), static_cast<size_t>(a.numel())},
                            {e.const_data_ptr<double>(), static_cast<size_t>(e.numel())}, /*floor=*/1e-2);
}

void ExpectStates(const Session& session, const torch::nn::Module& eager) {
  for (const auto& parameter : eager.named_parameters()) {
    EXPECT_LE(ErrorOf(*ToTorch(*session.State(parameter.key())), parameter.value()), kModelGradient) << parameter.key();
  }
  for (const auto& buffer : eager.named_buffers()) {
    const at::Tensor actual = *ToTorch(*session.State(buffer.key()));
    if (!buffer.value().is_floating_point()) {
      EXPECT_TRUE(at::equal(actual, buffer.value())) << buffer.key();
    } else {
      EXPECT_LE(ErrorOf(actual, buffer.value()), kModelGradient) << buffer.key();
    }
  }
}

class DetectorTest : public ::testing::Test {
 protected:
  static constexpr int64_t kAnchors = 32;

  DetectorTest() {
    torch::manual_seed(kSeed);
    eager_ = std::make_shared<Detector>();
    optimizer_ = std::make_unique<torch::optim::SGD>(eager_->parameters(),
                                                     torch::optim::SGDOptions(kLearningRate).momentum(0.9));
    torch::manual_seed(kSeed + 1);
    const at::Tensor target = torch::randn({kAnchors, 4}, torch::kDouble);
    aot::CompileOptions options = OptionsFor(DetectionLoss, target);
    absl::StatusOr<aot::CompiledModel> model =
        aot::CompileModule([] { return std::make_shared<Detector>(); }, InputsWith(6), options);
    EXPECT_TRUE(model.ok()) << model.status();
    absl::StatusOr<Session> session = Open(*model, "detector");
    EXPECT_TRUE(session.ok()) << session.status();
    session_ = std::make_unique<Session>(*std::move(session));
    EXPECT_TRUE(session_->SetRng({.seed = 1, .offset = 0}).ok());
  }

  // Returns inputs with which `count` anchors are found.
  static Tensors InputsWith(int64_t count) {
    at::Tensor x = torch::randn({kAnchors, 6}, torch::kDouble);
    const at::Tensor found = torch::randperm(kAnchors).lt(count);
    const at::Tensor first = x.select(1, 0).abs() + 0.1;
    x.select(1, 0).copy_(torch::where(found, first, -first));
    return {x, torch::zeros({}, torch::kDouble)};
  }

  at::Tensor EagerStep(const Tensors& inputs, const at::Tensor& target) {
    optimizer_->zero_grad();
    const Tensors outputs = eager_->forward(inputs[0], inputs[1]);
    const at::Tensor loss = DetectionLoss(outputs, {target});
    loss.backward();
    optimizer_->step();
    return loss.detach();
  }

  std::shared_ptr<Detector> eager_;
  std::unique_ptr<torch::optim::SGD> optimizer_;
  std::unique_ptr<Session> session_;
  PhiloxDropout dropout_;
};

TEST_F(DetectorTest, TrainsAsEagerDoes) {
  dropout_.Seek(1, 0);
  for (const int64_t count : {7, 0, 1, 12, 20, 7, 2, 3}) {
    SCOPED_TRACE(count);
    Tensors arguments = InputsWith(count);
    const at::Tensor target = torch::randn({kAnchors, 4}, torch::kDouble);
    const at::Tensor loss = EagerStep(arguments, target);
    arguments.push_back(target);
    const absl::StatusOr<Tensors> results = CallMethod(*session_, "train_step", arguments);
    ASSERT_TRUE(results.ok()) << results.status();
    EXPECT_EQ((*results)[0].sizes(), at::IntArrayRef({count, 4}));
    EXPECT_LE(ErrorOf(results->back(), loss), kModelGradient);
    ExpectStates(*session_, *eager_);
  }
}

TEST_F(DetectorTest, ACallWithTooManyBoxesChangesNoState) {
  const Tensors too_many = InputsWith(kMaximum + 1);
  const at::Tensor target = torch::zeros({kAnchors, 4}, torch::kDouble);
  const absl::Status status = CallMethod(*session_, "train_step", {too_many[0], too_many[1], target}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(status.message(), HasSubstr(absl::StrCat("has ", kMaximum + 1, " elements, and 0 to ", kMaximum)));
  EXPECT_EQ(session_->Rng()->offset, 0);
  ExpectStates(*session_, *eager_);
}

TEST_F(DetectorTest, ForwardAndBackwardAreEagers) {
  dropout_.Seek(1, 0);
  for (const int64_t count : {5, 0, 20}) {
    SCOPED_TRACE(count);
    const Tensors inputs = InputsWith(count);
    ASSERT_TRUE(session_->SetRng({.seed = 1, .offset = 0}).ok());
    dropout_.Seek(1, 0);
    optimizer_->zero_grad();
    const Tensors expected = eager_->forward(inputs[0], inputs[1]);
    const at::Tensor tangent = torch::randn_like(expected[0]);
    expected[0].backward(tangent);
    const absl::StatusOr<Tensors> results = CallMethod(*session_, "forward", inputs);
    ASSERT_TRUE(results.ok()) << results.status();
    ASSERT_EQ((*results)[0].sizes(), expected[0].sizes());
    if (count > 0) {
      EXPECT_LE(ErrorOf((*results)[0], expected[0]), kModelGradient);
    }
    const absl::StatusOr<Tensors> gradients = CallMethod(*session_, "backward", {tangent});
    ASSERT_TRUE(gradients.ok()) << gradients.status();
    for (const auto& parameter : eager_->named_parameters()) {
      EXPECT_LE(ErrorOf(*ToTorch(*session_->Gradient(parameter.key())), parameter.value().grad()), kModelGradient)
          << parameter.key();
    }
  }
}

TEST_F(DetectorTest, TheRecordedRunsAreRepeated) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/detector.cotan");
  std::ostringstream out;
  const absl::StatusOr<std::shared_ptr<const Program>> program = Program::Load(path, RecordedRuns::kMap);
  ASSERT_TRUE(program.ok()) << program.status();
  const absl::StatusOr<tools::VerifyResult> verified = tools::Verify(*program, {.kernels = &CpuKernels()}, out);
  ASSERT_TRUE(verified.ok()) << verified.status();
  EXPECT_GT(verified->passed, 0);
  EXPECT_EQ(verified->failed, 0) << out.str();
}

TEST_F(DetectorTest, SizingMethodsAreNotCalledByThemselves) {
  const Program& program = session_->program();
  const absl::StatusOr<int> step = program.FindMethod("train_step");
  ASSERT_TRUE(step.ok());
  EXPECT_EQ(SizingMethodsOf(program.artifact(), program.method(*step)).size(), 1);
  EXPECT_EQ(CallMethod(*session_, "train_step.sizes", InputsWith(3)).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(session_->FindMethod("none").status().message(), ::testing::Not(HasSubstr("sizes")));
}

TEST_F(DetectorTest, ACallOfKnownSizesMakesNoPlan) {
  const at::Tensor target = torch::zeros({kAnchors, 4}, torch::kDouble);
  for (const int64_t count : {4, 6}) {
    const Tensors inputs = InputsWith(count);
    ASSERT_TRUE(CallMethod(*session_, "train_step", {inputs[0], inputs[1], target}).ok());
  }
  const int plans = session_->num_plans_made();
  for (const int64_t count : {6, 4, 4, 6}) {
    const Tensors inputs = InputsWith(count);
    ASSERT_TRUE(CallMethod(*session_, "train_step", {inputs[0], inputs[1], target}).ok());
  }
  EXPECT_EQ(session_->num_plans_made(), plans);
}

TEST(RouterTest, TrainsAsEagerDoes) {
  torch::manual_seed(kSeed);
  const auto eager = std::make_shared<Router>();
  torch::optim::SGD optimizer(eager->parameters(), torch::optim::SGDOptions(kLearningRate).momentum(0.9));
  torch::manual_seed(kSeed + 1);
  aot::CompileOptions options = OptionsFor(SquaredError, torch::randn({kMaximum, 5}, torch::kDouble));
  const absl::StatusOr<aot::CompiledModel> model = aot::CompileModule(
      [] { return std::make_shared<Router>(); }, {torch::randn({kMaximum, 5}, torch::kDouble)}, options);
  ASSERT_TRUE(model.ok()) << model.status();
  absl::StatusOr<Session> session = Open(*model, "router");
  ASSERT_TRUE(session.ok()) << session.status();
  for (int step = 0; step < 12; ++step) {
    SCOPED_TRACE(step);
    at::Tensor x = torch::randn({kMaximum, 5}, torch::kDouble);
    if (step % 4 == 3) x = x.slice(0, 0, 1).expand({kMaximum, 5}).clone();  // one expert takes all, others none
    const at::Tensor target = torch::randn({kMaximum, 5}, torch::kDouble);
    optimizer.zero_grad();
    const at::Tensor output = eager->forward(x);
    const at::Tensor loss = SquaredError({output}, {target});
    loss.backward();
    optimizer.step();
    const absl::StatusOr<Tensors> results = CallMethod(*session, "train_step", {x, target});
    ASSERT_TRUE(results.ok()) << results.status();
    EXPECT_LE(ErrorOf((*results)[0], output), kModelGradient);
    EXPECT_LE(ErrorOf(results->back(), loss), kModelGradient);
    ExpectStates(*session, *eager);
  }
}

}  // namespace
}  // namespace cotan::testing
