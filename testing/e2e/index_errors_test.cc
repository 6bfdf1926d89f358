// SPDX-License-Identifier: Apache-2.0

// Checks that out-of-range indices and classes are rejected while a compiled model runs, before any state
// has changed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "aot/compile.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/session.h"
#include "runtime/testing/session_states.h"
#include "testing/e2e/compiled_trainer.h"

namespace cotan::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using torch::nn::functional::CrossEntropyFuncOptions;

absl::StatusOr<Session> SessionOf(const absl::StatusOr<aot::CompiledModel>& model) {
  if (!model.ok()) return model.status();
  const std::string path = ::testing::TempDir() + "/index_errors.cotan";
  absl::Status status = model->Save(path);
  if (!status.ok()) return status;
  absl::StatusOr<std::shared_ptr<const Program>> program = Program::Load(path);
  if (!program.ok()) return program.status();
  return Session::Create(*program, {.kernels = &CpuKernels(), .threads = 1});
}

absl::StatusOr<std::vector<Tensor>> Call(Session& session, const std::string& method,
                                         const std::vector<torch::Tensor>& inputs) {
  std::vector<Tensor> arguments;
  for (const torch::Tensor& input : inputs) arguments.push_back(*ToCotan(input));
  return session.Run(method, arguments);
}

// Maps ids of 9 words to scores of 4 classes, and updates running statistics before the loss is computed.
struct Classifier : torch::nn::Module {
  Classifier()
      : words(register_module("words", torch::nn::Embedding(9, 8))),
        norm(register_module("norm", torch::nn::BatchNorm1d(8))),
        head(register_module("head", torch::nn::Linear(8, 4))) {}
  torch::Tensor forward(torch::Tensor ids) { return head(norm(words(ids))); }
  torch::nn::Embedding words;
  torch::nn::BatchNorm1d norm;
  torch::nn::Linear head;
};

const torch::Tensor kIds = torch::tensor({0, 8, 3, 3, 1});

absl::StatusOr<Session> Trainer(int64_t ignore_index) {
  aot::CompileOptions options;
  options.loss.function = [=](const std::vector<torch::Tensor>& outputs, const std::vector<torch::Tensor>& targets) {
    return torch::nn::functional::cross_entropy(outputs[0], targets[0],
                                                CrossEntropyFuncOptions().ignore_index(ignore_index));
  };
  options.loss.targets = {torch::tensor({0, 1, 2, 3, 0})};
  options.optimizer = aot::OptimizerConfig{aot::SgdOptions{.lr = 0.1, .momentum = 0.9}, {}, {}, {}};
  return SessionOf(aot::CompileModule([] { return std::make_shared<Classifier>(); }, {kIds}, options));
}

// Returns the error of a step that must be rejected and change nothing.
std::string Refusal(Session& session, const torch::Tensor& ids, const torch::Tensor& classes) {
  const auto before = StateBytes(session);
  const absl::Status status = Call(session, "train_step", {ids, classes}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(StateBytes(session) == before);
  return std::string(status.message());
}

TEST(IndexErrorsTest, ReportsAWrongClassOrWordAndChangesNoState) {
  absl::StatusOr<Session> session = Trainer(-100);
  ASSERT_TRUE(session.ok()) << session.status();
  const torch::Tensor classes = torch::tensor({0, 1, -100, 3, 2});
  ASSERT_TRUE(Call(*session, "train_step", {kIds, classes}).ok());
  EXPECT_THAT(Refusal(*session, kIds, torch::tensor({0, 1, 2, 4, 0})),
              AllOf(HasSubstr("method 'train_step'"), HasSubstr("nll_loss"),
                    HasSubstr("index[3] is 4, outside [0, 4) and not -100, which is ignored")));
  EXPECT_THAT(Refusal(*session, kIds, torch::tensor({-1, 1, 2, 3, 0})), HasSubstr("index[0] is -1, outside [0, 4)"));
  EXPECT_THAT(Refusal(*session, kIds, torch::tensor(std::vector<int64_t>{int64_t{1} << 32, 1, 2, 3, 0})),
              HasSubstr("index[0] is 4294967296, outside [0, 4)"));
  EXPECT_THAT(Refusal(*session, torch::tensor({0, 9, 3, 3, 1}), classes),
              AllOf(HasSubstr("embedding"), HasSubstr("index[1] is 9, outside [0, 9)")));
  EXPECT_THAT(Refusal(*session, torch::tensor({0, 1, 3, 3, -1}), classes), HasSubstr("index[4] is -1, outside [0, 9)"));
  EXPECT_TRUE(Call(*session, "train_step", {kIds, classes}).ok());
}

TEST(IndexErrorsTest, AcceptsTheIgnoredClassOfTheLoss) {
  absl::StatusOr<Session> session = Trainer(7);
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_TRUE(Call(*session, "train_step", {kIds, torch::tensor({7, 1, 7, 3, 0})}).ok());
  EXPECT_THAT(Refusal(*session, kIds, torch::tensor({0, 1, -100, 3, 0})), HasSubstr("index[2] is -100"));
}

TEST(IndexErrorsTest, ChecksCostNoCopyOfAState) {
  absl::StatusOr<Session> session = Trainer(-100);
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE(Call(*session, "train_step", {kIds, torch::tensor({0, 1, 2, 3, 0})}).ok());
  const PlanSummary summary = *session->Summary(*session->FindMethod("train_step"));
  EXPECT_EQ(summary.stats.update_copies, 0);
}

// A convolution and a layer with an adaptive pool between them, from 7 to 4 positions: its backward gathers rows whose
// numbers an expression computes.
struct PooledClassifier : torch::nn::Module {
  PooledClassifier()
      : convolution(register_module("convolution", torch::nn::Conv2d(2, 3, 3))),
        head(register_module("head", torch::nn::Linear(3 * 4 * 4, 4))) {}
  torch::Tensor forward(torch::Tensor images) {
    return head(torch::adaptive_avg_pool2d(convolution(images), {4, 4}).flatten(1));
  }
  torch::nn::Conv2d convolution;
  torch::nn::Linear head;
};

TEST(IndexErrorsTest, ComputedIndicesCostNoCopyOfAState) {
  aot::CompileOptions options;
  options.loss.function = [](const std::vector<torch::Tensor>& outputs, const std::vector<torch::Tensor>&) {
    return outputs[0].square().sum();
  };
  options.optimizer = aot::OptimizerConfig{aot::SgdOptions{.lr = 0.1, .momentum = 0.9}, {}, {}, {}};
  const torch::Tensor images = torch::rand({2, 2, 9, 9});
  absl::StatusOr<Session> session =
      SessionOf(aot::CompileModule([] { return std::make_shared<PooledClassifier>(); }, {images}, options));
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE(Call(*session, "train_step", {images}).ok());
  const PlanSummary summary = *session->Summary(*session->FindMethod("train_step"));
  EXPECT_EQ(summary.stats.update_copies, 0);
}

using Function = torch::Tensor (*)(const torch::Tensor& x, const torch::Tensor& index);

// A function of f32[3, 4] and an index that is rejected where LibTorch rejects it.
void ExpectRefusedAsByLibTorch(const std::string& name, Function function, const std::vector<torch::Tensor>& good,
                               const std::vector<torch::Tensor>& bad) {
  SCOPED_TRACE(name);
  const torch::Tensor x = torch::arange(12, torch::kFloat).view({3, 4});
  absl::StatusOr<Session> session = SessionOf(aot::CompileFunction(function, {x, good[0]}, {}));
  ASSERT_TRUE(session.ok()) << session.status();
  for (const torch::Tensor& index : good) {
    const auto results = Call(*session, "forward", {x, index});
    ASSERT_TRUE(results.ok()) << results.status();
    EXPECT_TRUE(torch::equal(*ToTorch((*results)[0]), function(x, index)));
  }
  for (const torch::Tensor& index : bad) {
    EXPECT_ANY_THROW(function(x, index));
    const absl::Status status = Call(*session, "forward", {x, index}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("outside ["));
  }
}

TEST(IndexErrorsTest, EveryIndexingOpRejectsIndicesThatLibTorchRejects) {
  using T = torch::Tensor;
  const T one = torch::tensor({1, 0});
  const T two = torch::tensor({{1, 0}, {2, 1}});
  ExpectRefusedAsByLibTorch("index_select", [](const T& x, const T& i) { return x.index_select(0, i); },
                            {one, torch::tensor({2, 2})}, {torch::tensor({0, 3}), torch::tensor({-1, 0})});
  ExpectRefusedAsByLibTorch("index_add",
                            [](const T& x, const T& i) {
                              return x.index_add(1, i, torch::ones({3, 2}));
                            },
                            {one, torch::tensor({3, 3})}, {torch::tensor({0, 4}), torch::tensor({-1, 0})});
  // Out of range along one dimension, but within the elements of the tensor.
  ExpectRefusedAsByLibTorch("gather", [](const T& x, const T& i) { return x.gather(1, i); },
                            {two, torch::tensor({{3, 0}, {0, 3}})}, {two + 2, two - 1});
  ExpectRefusedAsByLibTorch("scatter_add",
                            [](const T& x, const T& i) {
                              return x.scatter_add(1, i, torch::ones({2, 2}));
                            },
                            {two, torch::tensor({{3, 0}, {0, 3}})}, {two + 2, two - 1});
  ExpectRefusedAsByLibTorch("one_hot",
                            [](const T& x, const T& i) { return torch::one_hot(i, 3).to(torch::kFloat).matmul(x); },
                            {one, torch::tensor({2, 2})}, {torch::tensor({0, 3}), torch::tensor({-1, 0})});
  ExpectRefusedAsByLibTorch("index_put",
                            [](const T& x, const T& i) { return x.index_put({i}, torch::ones({4}), true); },
                            {one, torch::tensor({-3, 2})}, {torch::tensor({0, 3}), torch::tensor({0, -4})});
}

// Counts its calls and draws indices by weight.
struct DrawingNet : torch::nn::Module {
  DrawingNet() { seen = register_buffer("seen", torch::zeros({1})); }
  at::Tensor forward(const at::Tensor& weights) {
    seen.add_(1);
    return at::multinomial(weights, 3, /*replacement=*/true);
  }
  at::Tensor seen;
};

TEST(IndexErrorsTest, ADrawByWeightsThatEagerRefusesLeavesStatesAndTheGeneratorAsTheyWere) {
  absl::StatusOr<Session> session =
      SessionOf(aot::CompileModule([] { return std::make_shared<DrawingNet>(); }, {torch::ones({4})}, {}));
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE(Call(*session, "forward", {torch::tensor({1.0f, 0.0f, 0.0f, 2.0f})}).ok());
  const RngState rng = *session->Rng();
  const absl::Status failed = Call(*session, "forward", {torch::tensor({1.0f, -1.0f, 0.0f, 2.0f})}).status();
  EXPECT_EQ(failed.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(failed.message()), HasSubstr("index[0] is -1, outside [0, 4)"));
  EXPECT_TRUE(*session->Rng() == rng);
  EXPECT_TRUE(torch::equal(*ToTorch(*session->State("seen")), torch::ones({1})));
}

// A step with effects needs the host, so that a device cannot record it.
TEST(IndexErrorsTest, ADrawByWeightHasNoEffects) {
  const auto model = aot::CompileModule([] { return std::make_shared<DrawingNet>(); }, {torch::ones({4})}, {});
  ASSERT_TRUE(model.ok()) << model.status();
  const std::shared_ptr<const Program> program = *Program::LoadBytes(model->bytes());
  for (const serialization::Method& method : program->artifact().methods()) {
    for (const serialization::Op& op : method.ops()) EXPECT_FALSE(op.has_effect()) << method.name();
  }
}

}  // namespace
}  // namespace cotan::testing
