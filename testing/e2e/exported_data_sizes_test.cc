// SPDX-License-Identifier: Apache-2.0

// Archives of torch.export with symbols that depend on data (u0): their ranges are the declared ones. The first tests
// use data_sizes.pt2 of testdata/make_data_sizes.py, a detection head with a dynamic batch and two such sizes, one of
// the rows of the other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "aot/compile.h"
#include "aot/frontend/pt2/model.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/execution/program.h"
#include "runtime/session.h"
#include "runtime/tools/inspect.h"
#include "testing/e2e/compiled_trainer.h"
#include "testing/tolerance.h"

namespace cotan {
namespace {

using ::testing::HasSubstr;

// What make_data_sizes.py exports, without the range of `rows`.
struct Detector : torch::nn::Module {
  Detector()
      : body(register_module("body", torch::nn::Linear(3, 4))), box(register_module("box", torch::nn::Linear(4, 2))) {}

  // Returns the loss, the boxes and their numbers above 0.25.
  std::vector<at::Tensor> forward(const at::Tensor& x, const at::Tensor& target) {
    const at::Tensor features = torch::tanh(body(x));
    const at::Tensor rows = (x.select(1, 0) > 0).nonzero().squeeze(1);
    const at::Tensor boxes = box(features.index({rows}));
    const at::Tensor kept = boxes.index({boxes > 0.25});
    const at::Tensor loss =
        (boxes - target.index({rows})).pow(2).sum() / static_cast<double>(x.size(0)) + (kept * kept).sum();
    return {loss, boxes, kept};
  }

  torch::nn::Linear body, box;
};

class ExportedDetectorTest : public ::testing::Test {
 protected:
  static constexpr double kLearningRate = 0.125;

  void SetUp() override {
    const auto model = aot::pt2::Model::Load("aot/frontend/pt2/testdata/data_sizes.pt2");
    ASSERT_TRUE(model.ok()) << model.status();
    aot::CompileOptions options;
    options.loss.output = 0;
    options.optimizer = aot::OptimizerConfig{aot::SgdOptions{.lr = kLearningRate}};
    const auto compiled = aot::CompilePt2(*model, *model->ExampleInputs(), options);
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    program_ = *Program::LoadBytes(compiled->bytes());
    session_.emplace(*Session::Create(program_, {.kernels = &CpuKernels(), .threads = 1}));
    const torch::NoGradGuard no_grad;
    for (auto& parameter : eager_.named_parameters()) {
      parameter.value().copy_(*testing::ToTorch(*session_->State(parameter.key())));
    }
  }

  // Returns a batch, `count` rows of which have a positive first column.
  static std::pair<at::Tensor, at::Tensor> Batch(int64_t rows, int64_t count) {
    at::Tensor x = torch::randn({rows, 3});
    const at::Tensor first = x.select(1, 0).abs() + 0.1;
    x.select(1, 0).copy_(torch::where(torch::randperm(rows).lt(count), first, -first));
    return {x, torch::randn({rows, 2})};
  }

  absl::StatusOr<std::vector<at::Tensor>> CallMethod(absl::string_view method, const std::vector<at::Tensor>& inputs) {
    std::vector<Tensor> arguments;
    for (const at::Tensor& input : inputs) arguments.push_back(*testing::ToCotan(input));
    const absl::StatusOr<std::vector<Tensor>> results = session_->Run(method, arguments);
    if (!results.ok()) return results.status();
    std::vector<at::Tensor> tensors;
    for (const Tensor& result : *results) tensors.push_back(*testing::ToTorch(result));
    return tensors;
  }

  static void ExpectNear(const at::Tensor& actual, const at::Tensor& expected) {
    ASSERT_EQ(actual.sizes(), expected.sizes());
    const at::Tensor a = actual.contiguous(), e = expected.detach().contiguous();
    if (e.numel() == 0) return;
    EXPECT_LE(testing::ErrorInEps<float>({a.const_data_ptr<float>(), static_cast<size_t>(a.numel())},
                                         {e.const_data_ptr<float>(), static_cast<size_t>(e.numel())}, /*floor=*/1e-2),
              testing::kModelGradient);
  }

  void ExpectStates() {
    for (const auto& parameter : eager_.named_parameters()) {
      SCOPED_TRACE(parameter.key());
      ExpectNear(*testing::ToTorch(*session_->State(parameter.key())), parameter.value());
    }
  }

  Detector eager_;
  std::shared_ptr<const Program> program_;
  std::optional<Session> session_;
};

TEST_F(ExportedDetectorTest, TrainsAsEagerDoes) {
  torch::manual_seed(7);
  torch::optim::SGD optimizer(eager_.parameters(), torch::optim::SGDOptions(kLearningRate));
  for (const auto& [rows, count] :
       {std::pair<int64_t, int64_t>{5, 3}, {5, 0}, {8, 1}, {32, 4}, {2, 2}, {31, 0}, {3, 1}}) {
    SCOPED_TRACE(absl::StrCat(rows, " rows, ", count, " found"));
    const auto [x, target] = Batch(rows, count);
    optimizer.zero_grad();
    const std::vector<at::Tensor> expected = eager_.forward(x, target);
    expected[0].backward();
    optimizer.step();
    const auto results = CallMethod("train_step", {x, target});
    ASSERT_TRUE(results.ok()) << results.status();
    ASSERT_GE(results->size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) ExpectNear((*results)[i], expected[i]);
    ExpectStates();
  }
}

TEST_F(ExportedDetectorTest, ACallWithMoreRowsThanTheModelDeclaresChangesNoState) {
  torch::manual_seed(8);
  const auto [x, target] = Batch(9, 5);
  const absl::Status status = CallMethod("train_step", {x, target}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(status.message(), HasSubstr("has 5 elements, and 0 to 4"));
  ExpectStates();
}

TEST_F(ExportedDetectorTest, TheSecondSizeIsCountedAfterTheFirst) {
  const std::string text = tools::InspectText(*program_, /*with_program=*/false);
  EXPECT_THAT(text, HasSubstr("sizes from: train_step.sizes, train_step.sizes.1"));
  EXPECT_THAT(text, HasSubstr("in [0, 4]"));
  EXPECT_THAT(text, HasSubstr("in [0, 8]"));  // of the archive's u1
  EXPECT_THAT(text, HasSubstr("in [2, 32]"));
}

TEST(ExportedDataSizesTest, WithoutAMaximumItIsRefusedOrThatOfTheOptions) {
  const auto model = aot::pt2::Model::Load("aot/frontend/pt2/testdata/unbounded_sizes.pt2");
  ASSERT_TRUE(model.ok()) << model.status();
  const std::vector<at::Tensor> examples = *model->ExampleInputs();
  aot::CompileOptions options;
  const absl::Status refused = aot::CompilePt2(*model, examples, options).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnimplemented) << refused;
  EXPECT_THAT(refused.message(), HasSubstr("aten.nonzero.default"));
  EXPECT_THAT(refused.message(), HasSubstr("--max_data_size"));
  options.tracing.data_dependent_sizes.range = aot::SizeRange{.min = 0, .max = 8};
  const auto compiled = aot::CompilePt2(*model, examples, options);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  Session session = *Session::Create(*Program::LoadBytes(compiled->bytes()), {.kernels = &CpuKernels()});
  Detector eager;
  for (const auto& parameter : eager.named_parameters()) {
    ASSERT_TRUE(session.SetState(parameter.key(), *testing::ToCotan(parameter.value().detach())).ok());
  }
  const at::Tensor x = torch::randn({40, 3}) - 9, target = torch::zeros({40, 2});
  x.slice(0, 3, 6).add_(10);
  const auto results = session.Run("forward", {*testing::ToCotan(x), *testing::ToCotan(target)});
  ASSERT_TRUE(results.ok()) << results.status();
  const at::Tensor boxes = eager.forward(x, target)[1];
  EXPECT_GT(boxes.size(0), 0);
  EXPECT_TRUE(at::allclose(*testing::ToTorch((*results)[1]), boxes, 1e-5, 1e-6));
  const absl::Status many =
      session.Run("forward", {*testing::ToCotan(torch::ones({40, 3})), *testing::ToCotan(target)}).status();
  EXPECT_THAT(many.message(), HasSubstr("has 40 elements, and 0 to 8"));
}

}  // namespace
}  // namespace cotan
