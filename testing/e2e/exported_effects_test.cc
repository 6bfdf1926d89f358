// SPDX-License-Identifier: Apache-2.0

// Runs checks and prints of exported models, from the archive to the device. testdata/make_checked.py
// exports this function:
//
//   print "before the layer"; seen += 1; y = fc(x)
//   assert sum |y| < 1000, "the layer has diverged"
//   print "after layer 1", max y; assert seen < 3
//   return mean(y * y), y
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

#include "aot/compile.h"
#include "aot/frontend/pt2/model.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/autograd/engine.h"
#include "runtime/function.h"
#include "runtime/session.h"
#include "runtime/tools/inspect.h"
#include "testing/tolerance.h"

namespace cotan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kRows = 5;  // the archive has 4
constexpr char kAfter[] = "after layer 1: {largest}";

// The archive as exported, and in functional form, in which tokens order the prints. The exporter omits
// the second check of the functional form.
class ExportedEffectsTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const auto model = aot::pt2::Model::Load(std::string("aot/frontend/pt2/testdata/") + GetParam());
    ASSERT_TRUE(model.ok()) << model.status();
    aot::CompileOptions options;
    options.loss.output = 0;
    options.optimizer = aot::OptimizerConfig{aot::SgdOptions{.lr = 0.125}};
    const auto compiled = aot::CompilePt2(*model, *model->ExampleInputs(), options);
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    program_ = *Program::LoadBytes(compiled->bytes());
    const EffectHandlers effects = EffectHandlers().Set(EffectKind::kPrint, [this](const EffectEvent& event) {
      printed_.emplace_back(event.message);
      if (event.name == "largest") largest_ = *event.value.Item<float>();
      return absl::OkStatus();
    });
    auto session = Session::Create(program_, {.kernels = &CpuKernels(), .threads = 1, .effects = effects});
    ASSERT_TRUE(session.ok()) << session.status();
    session_.emplace(*std::move(session));
  }

  static Tensor Input(float value) { return *Tensor::From<float>(std::vector<float>(3 * kRows, value), {kRows, 3}); }
  std::vector<float> State(const char* name) { return *session_->State(name)->ToVector<float>(); }
  bool is_functional() const { return std::string(GetParam()) == "checked_functional.pt2"; }

  std::shared_ptr<const Program> program_;
  std::optional<Session> session_;
  std::vector<std::string> printed_;
  float largest_ = 0;
};

TEST_P(ExportedEffectsTest, HappenInTheirOrderForwardAndNotAgainBackward) {
  auto forward = Function::Create(*session_, "forward");
  ASSERT_TRUE(forward.ok()) << forward.status();
  const auto results = forward->Call({Variable(Input(1))});
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_EQ(results->size(), 2u);  // no token among them
  EXPECT_THAT(printed_, ElementsAre("before the layer", kAfter));
  EXPECT_FLOAT_EQ(largest_, 0.5f);
  EXPECT_THAT(State("seen"), ElementsAre(1));

  const at::Tensor x = torch::ones({kRows, 3});
  const at::Tensor weight = (torch::arange(6, torch::kFloat).view({2, 3}) / 4 - 0.5).requires_grad_(true);
  const at::Tensor y = torch::nn::functional::linear(x, weight, torch::tensor({0.5f, -1.0f}));
  const at::Tensor loss = (y * y).mean();
  loss.backward();
  const auto near = [](const Tensor& actual, const at::Tensor& expected) {
    const std::vector<float> wanted(expected.const_data_ptr<float>(),
                                    expected.const_data_ptr<float>() + expected.numel());
    return testing::ErrorInEps<float>(*actual.ToVector<float>(), wanted) <= testing::kMatmul;
  };
  const Variable& run_loss = std::get<Variable>((*results)[0]);
  EXPECT_TRUE(near(run_loss.tensor(), loss.detach()));
  const absl::Status ran = autograd::Backward({run_loss}, {*Tensor::Scalar(1.0f)}, session_->ops());
  ASSERT_TRUE(ran.ok()) << ran;
  EXPECT_EQ(printed_.size(), 2u);
  EXPECT_TRUE(near(session_->Parameter("fc.weight")->grad().tensor(), weight.grad()));
}

TEST_P(ExportedEffectsTest, AFailedCheckIsAnErrorWithItsText) {
  const std::vector<float> weight = State("fc.weight");
  for (const char* method : {"forward", "train_step"}) {
    printed_.clear();
    const absl::Status failed = session_->Run(method, {Input(1e6f)}).status();
    EXPECT_EQ(failed.code(), absl::StatusCode::kInvalidArgument) << method;
    EXPECT_THAT(std::string(failed.message()), HasSubstr("failed: the layer has diverged")) << method;
    EXPECT_THAT(printed_, ElementsAre("before the layer")) << method;
  }
  EXPECT_EQ(State("fc.weight"), weight);
  EXPECT_THAT(State("seen"), ElementsAre(0));
}

TEST_P(ExportedEffectsTest, HappenOnceInATrainStep) {
  const std::vector<float> weight = State("fc.weight");
  ASSERT_TRUE(session_->Run("train_step", {Input(1)}).ok());
  ASSERT_TRUE(session_->Run("train_step", {Input(1)}).ok());
  EXPECT_THAT(printed_, ElementsAre("before the layer", kAfter, "before the layer", kAfter));
  EXPECT_NE(State("fc.weight"), weight);
  const absl::Status third = session_->Run("train_step", {Input(1)}).status();
  if (is_functional()) {
    EXPECT_TRUE(third.ok()) << third;
  } else {
    EXPECT_THAT(std::string(third.message()), HasSubstr("Expected Tensor with single nonzero value"));
    EXPECT_THAT(State("seen"), ElementsAre(2));
  }
}

TEST_P(ExportedEffectsTest, AreNamedByInspectAndNeedAHandler) {
  EXPECT_THAT(tools::InspectText(*program_, /*with_program=*/true), HasSubstr("effects, in order: print 'print', "));
  const absl::Status status = Session::Create(program_, {.kernels = &CpuKernels(), .threads = 1}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("'print'"));
}

TEST_P(ExportedEffectsTest, RangesOfSizesAreChecked) {
  const absl::Status one = session_->Run("forward", {*Tensor::From<float>({1, 2, 3}, {1, 3})}).status();
  EXPECT_EQ(one.code(), absl::StatusCode::kOutOfRange) << one;
}

INSTANTIATE_TEST_SUITE_P(Archives, ExportedEffectsTest, ::testing::Values("checked.pt2", "checked_functional.pt2"),
                         [](const auto& info) { return info.index == 0 ? "Training" : "Functional"; });

}  // namespace
}  // namespace cotan
