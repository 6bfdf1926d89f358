// SPDX-License-Identifier: Apache-2.0

// Compares models compiled under autocast with LibTorch eager under autocast.
#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "aot/compile.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/execution/program.h"
#include "runtime/tools/verify.h"
#include "testing/e2e/compiled_trainer.h"
#include "testing/e2e/eager_trainer.h"
#include "testing/e2e/philox_dropout.h"
#include "testing/models/models.h"
#include "testing/tolerance.h"

namespace cotan::testing {
namespace {

constexpr uint64_t kSeed = 11;

aot::OptimizerConfig PlainSgd() {
  aot::OptimizerConfig config;
  config.options = aot::SgdOptions{.lr = 0.05};
  return config;
}

// Returns |actual - expected| / |expected| over all tensors together.
double RelativeDistance(const std::map<std::string, torch::Tensor>& actual,
                        const std::map<std::string, torch::Tensor>& expected) {
  double difference = 0, size = 0;
  for (const auto& [name, tensor] : expected) {
    const auto found = actual.find(name);
    if (found == actual.end()) return INFINITY;
    difference += (found->second - tensor).to(torch::kDouble).square().sum().item<double>();
    size += tensor.to(torch::kDouble).square().sum().item<double>();
  }
  return std::sqrt(difference / size);
}

// Disables oneDNN for the LSTMs of `model` in its scope, because oneDNN may not support f16; LibTorch
// falls back to its native kernels.
class OwnLstm {
 public:
  explicit OwnLstm(const std::string& model) {
    if (model.find("lstm") != std::string::npos) at::globalContext().setUserEnabledMkldnn(false);
  }
  ~OwnLstm() { at::globalContext().setUserEnabledMkldnn(was_enabled_); }

 private:
  const bool was_enabled_ = at::globalContext().userEnabledMkldnn();
};

class EachModel : public ::testing::TestWithParam<std::string> {
 protected:
  // Draws a batch and compiles the model; false if that failed.
  bool SetUpPair(DType autocast, const aot::OptimizerConfig& optimizer = PlainSgd()) {
    const ModelCase& model = *FindModel(GetParam());
    at::Generator generator = at::detail::createCPUGenerator(kSeed);
    input_ = model.make_input(generator);
    label_ = model.make_label(generator);
    CompiledTrainerOptions options;
    options.seed = kSeed;
    options.optimizer = optimizer;
    options.autocast = autocast;
    auto created = CompiledTrainer::Create(model, input_, label_, options);
    EXPECT_TRUE(created.ok()) << created.status();
    if (!created.ok()) return false;
    compiled_ = *std::move(created);
    eager_ = std::make_unique<EagerTrainer>(model, kSeed, optimizer, autocast);
    dropout_.Seek(0, 0);
    return true;
  }

  torch::Tensor input_, label_;
  std::unique_ptr<CompiledTrainer> compiled_;
  std::unique_ptr<EagerTrainer> eager_;
  PhiloxDropout dropout_;
};

TEST_P(EachModel, TrainsInBFloat16LikeEager) {
  ASSERT_TRUE(SetUpPair(DType::kBFloat16));
  for (int step = 0; step < 3; ++step) {
    const auto loss = compiled_->Step(input_, label_);
    ASSERT_TRUE(loss.ok()) << loss.status();
    const double expected = eager_->Step(input_, label_);
    EXPECT_NEAR(*loss, expected, kAutocast * std::abs(expected)) << "step " << step;
  }
  const auto states = compiled_->States();
  ASSERT_TRUE(states.ok()) << states.status();
  for (const auto& [name, tensor] : *states) EXPECT_NE(tensor.scalar_type(), torch::kBFloat16) << name;
}

TEST_P(EachModel, GradientsStayInF32AndCloseToEager) {
  ASSERT_TRUE(SetUpPair(DType::kBFloat16));
  const auto gradients = compiled_->Gradients(input_, label_);
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  eager_->Accumulate(input_, label_);
  EXPECT_LE(RelativeDistance(*gradients, eager_->Gradients()), kAutocastGradient);
  for (const auto& [name, tensor] : *gradients) EXPECT_EQ(tensor.scalar_type(), torch::kFloat) << name;
}

TEST_P(EachModel, TrainsInFloat16WithAScaledLossLikeEager) {
  aot::OptimizerConfig optimizer = PlainSgd();
  optimizer.loss_scaling = aot::LossScaling{.initial_scale = 256, .growth_interval = 2};
  const OwnLstm own_lstm(GetParam());
  ASSERT_TRUE(SetUpPair(DType::kFloat16, optimizer));
  for (int step = 0; step < 3; ++step) {
    const auto loss = compiled_->Step(input_, label_);
    ASSERT_TRUE(loss.ok()) << loss.status();
    const double expected = eager_->Step(input_, label_);
    EXPECT_NEAR(*loss, expected, kAutocast * std::abs(expected)) << "step " << step;
  }
  const auto states = compiled_->States();
  ASSERT_TRUE(states.ok()) << states.status();
  const auto expected = eager_->States();
  EXPECT_EQ(states->at("loss_scale").item<float>(), expected.at("loss_scale").item<float>());
}

// Recorded results are LibTorch's under autocast, and tolerances those of bf16.
TEST_P(EachModel, RecordedRunsPassOnTheDevice) {
  const ModelCase& model = *FindModel(GetParam());
  at::Generator generator = at::detail::createCPUGenerator(kSeed);
  const torch::Tensor input = model.make_input(generator);
  aot::CompileOptions options;
  options.loss.function = [&model](const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& targets) {
    return model.loss(outputs[0], targets[0]);
  };
  options.loss.targets = {model.make_label(generator)};
  options.optimizer = PlainSgd();
  options.tracing.autocast = DType::kBFloat16;
  options.module.seed = kSeed;
  const auto compiled = aot::CompileModule(model.make_network, {input}, options);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const auto program = Program::LoadBytes(compiled->bytes());
  ASSERT_TRUE(program.ok()) << program.status();
  std::ostringstream lines;
  const auto verified = tools::Verify(*program, {.kernels = &CpuKernels(), .threads = 1}, lines);
  ASSERT_TRUE(verified.ok()) << verified.status();
  EXPECT_GT(verified->passed, 0);
  EXPECT_EQ(verified->failed, 0) << lines.str();
  for (const serialization::Reference& reference : (*program)->artifact().references()) {
    if (reference.method() == "forward") EXPECT_LT(reference.outputs(0).tolerance(), 0.2);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, EachModel, ::testing::ValuesIn(ModelNames()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace cotan::testing
