// SPDX-License-Identifier: Apache-2.0

// Compares programs with dynamic dimensions with LibTorch eager at sizes that were not traced.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "testing/e2e/compiled_trainer.h"
#include "testing/e2e/eager_trainer.h"
#include "testing/e2e/philox_dropout.h"
#include "testing/models/models.h"
#include "testing/tolerance.h"

namespace cotan::testing {
namespace {

using ::testing::HasSubstr;
using TensorMap = std::map<std::string, torch::Tensor>;

constexpr uint64_t kSeed = 11;

double Error(const torch::Tensor& actual, const torch::Tensor& expected, double floor = 0) {
  const torch::Tensor a = actual.to(torch::kFloat).contiguous();
  const torch::Tensor e = expected.to(torch::kFloat).contiguous();
  return ErrorInEps<float>({a.data_ptr<float>(), static_cast<size_t>(a.numel())},
                           {e.data_ptr<float>(), static_cast<size_t>(e.numel())}, floor);
}

double Error(double actual, double expected) { return Error(torch::tensor(actual), torch::tensor(expected)); }

// Returns the largest error of all tensors; elements below a hundredth of the largest element count as
// that large.
void ExpectClose(const TensorMap& actual, const TensorMap& expected, double tolerance) {
  double largest = 0;
  for (const auto& [name, tensor] : expected) largest = std::max(largest, tensor.abs().max().item<double>());
  for (const auto& [name, tensor] : expected) {
    ASSERT_TRUE(actual.contains(name)) << name;
    ASSERT_EQ(actual.at(name).sizes(), tensor.sizes()) << name;
    EXPECT_LE(Error(actual.at(name), tensor, largest / 100), tolerance) << name;
  }
}

aot::OptimizerConfig Momentum() {
  aot::OptimizerConfig config;
  config.options = aot::SgdOptions{.lr = 0.01, .momentum = 0.9};
  return config;
}

// Returns a batch of `batch` rows, for transformers of `time` columns.
struct Batch {
  torch::Tensor input, label;
};

struct DynamicCase {
  std::string model;
  bool has_time = false;
};

void PrintTo(const DynamicCase& dynamic, std::ostream* os) { *os << dynamic.model; }

class DynamicModel : public ::testing::TestWithParam<DynamicCase> {
 protected:
  DynamicModel() : model_(*FindModel(GetParam().model)), generator_(at::detail::createCPUGenerator(kSeed)) {}

  void SetUp() override {
    CompiledTrainerOptions options;
    options.seed = kSeed;
    options.optimizer = Momentum();
    options.dynamic_dims = {{0, 0, "batch", 2, 64}};
    if (GetParam().has_time) {
      options.dynamic_dims.push_back({0, 1, "time", 2, 16});
      options.dynamic_dims.push_back({1, 0, "batch * time"});
    } else {
      options.dynamic_dims.push_back({1, 0, "batch"});
    }
    auto created =
        CompiledTrainer::Create(model_, model_.make_input(generator_), model_.make_label(generator_), options);
    ASSERT_TRUE(created.ok()) << created.status();
    compiled_ = *std::move(created);
    eager_ = std::make_unique<EagerTrainer>(model_, kSeed, Momentum());
    dropout_.Seek(0, 0);
  }

  // Concatenates enough batches of the model and slices the result.
  Batch Draw(int64_t batch, int64_t time) {
    torch::Tensor input = model_.make_input(generator_);
    torch::Tensor label = model_.make_label(generator_);
    if (GetParam().has_time) label = label.view(input.sizes());
    while (input.size(0) < batch) {
      input = torch::cat({input, input.flip(0)});
      label = torch::cat({label, label.flip(0)});
    }
    input = input.narrow(0, 0, batch);
    label = label.narrow(0, 0, batch);
    if (!GetParam().has_time) return {input.contiguous(), label.contiguous()};
    return {input.narrow(1, 0, time).contiguous(), label.narrow(1, 0, time).reshape({-1})};
  }

  const ModelCase& model_;
  at::Generator generator_;
  PhiloxDropout dropout_;
  std::unique_ptr<CompiledTrainer> compiled_;
  std::unique_ptr<EagerTrainer> eager_;
};

TEST_P(DynamicModel, StepsOfAnySizeMatchEager) {
  for (const auto& [batch, time] : std::vector<std::pair<int64_t, int64_t>>{{8, 9}, {5, 4}, {32, 16}, {2, 5}, {9, 2}}) {
    SCOPED_TRACE(batch);
    const Batch drawn = Draw(batch, time);
    const auto loss = compiled_->Step(drawn.input, drawn.label);
    ASSERT_TRUE(loss.ok()) << loss.status();
    EXPECT_LE(Error(*loss, eager_->Step(drawn.input, drawn.label)), kModelLoss);
  }
  const auto states = compiled_->States();
  ASSERT_TRUE(states.ok()) << states.status();
  ExpectClose(*states, eager_->States(), kModelState);
}

TEST_P(DynamicModel, GradientsAndPredictionsMatchEager) {
  // Gradients come first because batch norm updates its statistics in their forward.
  for (const auto& [batch, time] : std::vector<std::pair<int64_t, int64_t>>{{6, 11}, {2, 3}, {40, 16}}) {
    SCOPED_TRACE(batch);
    const Batch drawn = Draw(batch, time);
    const auto output = compiled_->Predict(drawn.input);
    ASSERT_TRUE(output.ok()) << output.status();
    const torch::Tensor expected = eager_->Predict(drawn.input);
    ASSERT_EQ(output->sizes(), expected.sizes());
    EXPECT_LE(Error(*output, expected), kModelState);
  }
  for (const int64_t batch : {3, 20}) {
    SCOPED_TRACE(batch);
    const Batch drawn = Draw(batch, 7);
    if (compiled_->session().Rng().ok()) {
      ASSERT_TRUE(compiled_->session().SetRng(RngState{}).ok());
    }
    dropout_.Seek(0, 0);
    const auto gradients = compiled_->Gradients(drawn.input, drawn.label);
    ASSERT_TRUE(gradients.ok()) << gradients.status();
    EagerTrainer fresh(model_, kSeed, Momentum());
    fresh.Accumulate(drawn.input, drawn.label);
    ExpectClose(*gradients, fresh.Gradients(), kModelGradient);
  }
}

TEST_P(DynamicModel, SizesOutsideTheirRangeAreNamed) {
  const Batch large = Draw(65, 7);
  EXPECT_THAT(std::string(compiled_->Step(large.input, large.label).status().message()),
              HasSubstr("'batch' in [2, 64], got 65"));
  const Batch small = Draw(1, 7);
  EXPECT_THAT(std::string(compiled_->Step(small.input, small.label).status().message()),
              HasSubstr("'batch' in [2, 64], got 1"));
}

TEST_P(DynamicModel, UsesOfASymbolMustAgree) {
  const Batch one = Draw(6, 7), other = Draw(5, 7);
  const absl::Status status = compiled_->Step(one.input, other.label).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()),
              GetParam().has_time ? HasSubstr("'target.0'") : HasSubstr("'batch', which is 6 elsewhere, got 5"));
}

TEST_P(DynamicModel, PlansAreKeptUpToTheirBound) {
  const auto run = [&](int64_t batch) {
    const Batch drawn = Draw(batch, 7);
    ASSERT_TRUE(compiled_->Step(drawn.input, drawn.label).ok());
  };
  for (int64_t batch = 2; batch <= 9; ++batch) run(batch);
  EXPECT_EQ(compiled_->session().num_plans_made(), 8);
  for (int64_t batch = 9; batch >= 2; --batch) run(batch);
  EXPECT_EQ(compiled_->session().num_plans_made(), 8);
  run(10);  // evicts the plan of batch 9
  run(9);
  EXPECT_EQ(compiled_->session().num_plans_made(), 10);
}

INSTANTIATE_TEST_SUITE_P(Models, DynamicModel,
                         ::testing::Values(DynamicCase{"mlp"}, DynamicCase{"cnn"}, DynamicCase{"dropout_cnn"},
                                           DynamicCase{"regression"}, DynamicCase{"logits"}, DynamicCase{"resnet"},
                                           DynamicCase{"dropout_gpt", true}, DynamicCase{"tied_gpt", true},
                                           DynamicCase{"deep_lstm", true}, DynamicCase{"rnn", true}),
                         [](const auto& info) { return info.param.model; });

}  // namespace
}  // namespace cotan::testing
