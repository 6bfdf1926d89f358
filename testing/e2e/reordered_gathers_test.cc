// SPDX-License-Identifier: Apache-2.0

// Trains embeddings of few rows that layers read, whose products are computed for each row of the table instead of for
// each row that is gathered (aot/transforms/reorder_gathers.h). Each step is compared with LibTorch eager.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "aot/optimizer/optimizer.h"
#include "testing/e2e/compiled_trainer.h"
#include "testing/e2e/eager_trainer.h"
#include "testing/e2e/step_comparison.h"
#include "testing/models/models.h"

namespace cotan::testing {
namespace {

constexpr uint64_t kSeed = 5;
constexpr int64_t kRows = 10;
constexpr int64_t kColumns = 40;
constexpr int64_t kBatch = 6;
constexpr int64_t kTime = 8;
constexpr int64_t kClasses = 12;

class Embedded;
// Returns [batch, time, classes] for an input [batch, time].
using Reader = std::function<torch::Tensor(Embedded& model, const torch::Tensor& input)>;

// An embedding, and layers that a function combines.
class Embedded : public Network {
 public:
  Embedded(Reader reader, std::optional<int64_t> padding_index) : reader_(std::move(reader)) {
    auto options = torch::nn::EmbeddingOptions(kRows, kColumns);
    if (padding_index.has_value()) options.padding_idx(*padding_index);
    table = register_module("table", torch::nn::Embedding(options));
    first = register_module("first", torch::nn::Linear(kColumns, kClasses));
    second = register_module("second", torch::nn::Linear(torch::nn::LinearOptions(kColumns, kClasses).bias(false)));
    recurrent =
        register_module("recurrent", torch::nn::GRU(torch::nn::GRUOptions(kColumns, kClasses / 2).bidirectional(true)));
  }

  torch::Tensor forward(torch::Tensor input) override { return reader_(*this, input); }

  torch::nn::Embedding table = nullptr;
  torch::nn::Linear first = nullptr, second = nullptr;
  torch::nn::GRU recurrent = nullptr;

 private:
  Reader reader_;
};

ModelCase Model(const Reader& reader, std::optional<int64_t> padding_index = std::nullopt) {
  return {.name = "embedded",
          .description = "layers after an embedding",
          .make_network = [reader, padding_index] { return std::make_shared<Embedded>(reader, padding_index); },
          .loss = [](torch::Tensor output, torch::Tensor label) { return (output - label).square().mean(); },
          .make_input =
              [](at::Generator generator) {
                return torch::randint(0, kRows, {kBatch, kTime}, generator, torch::kLong);
              },
          .make_label =
              [](at::Generator generator) {
                return torch::randn({kBatch, kTime, kClasses}, generator);
              }};
}

void ExpectMatch(const ModelCase& model) {
  aot::OptimizerConfig config;
  config.options = aot::SgdOptions{.lr = 0.5, .momentum = 0.9};
  ExpectStepsMatchEager(model, config, kSeed);
}

TEST(ReorderedGathersTest, ALayerMatchesEager) {
  ExpectMatch(Model([](Embedded& model, const torch::Tensor& input) { return model.first(model.table(input)); }));
}

TEST(ReorderedGathersTest, ThePaddingRowKeepsItsValue) {
  ExpectMatch(
      Model([](Embedded& model, const torch::Tensor& input) { return model.first(model.table(input)); }, kRows - 2));
}

TEST(ReorderedGathersTest, TwoLayersOfOneEmbeddingMatchEager) {
  ExpectMatch(Model([](Embedded& model, const torch::Tensor& input) {
    const torch::Tensor embedded = model.table(input);
    return torch::tanh(model.first(embedded)) * model.second(embedded);
  }));
}

TEST(ReorderedGathersTest, AnEmbeddingWithAnotherReaderMatchesEager) {
  ExpectMatch(Model([](Embedded& model, const torch::Tensor& input) {
    const torch::Tensor embedded = model.table(input);
    return model.first(embedded) + embedded.narrow(-1, 0, kClasses).tanh();
  }));
}

TEST(ReorderedGathersTest, PermutedRowsMatchEager) {
  ExpectMatch(Model([](Embedded& model, const torch::Tensor& input) {
    const torch::Tensor by_time = model.table(input).transpose(0, 1).contiguous();
    return model.first(by_time).transpose(0, 1);
  }));
}

TEST(ReorderedGathersTest, ARecurrentLayerInBothDirectionsMatchesEager) {
  ExpectMatch(Model([](Embedded& model, const torch::Tensor& input) {
    return std::get<0>(model.recurrent(model.table(input).transpose(0, 1))).transpose(0, 1);
  }));
}

TEST(ReorderedGathersTest, ATableWithoutGradientMatchesEager) {
  ExpectMatch(
      Model([](Embedded& model, const torch::Tensor& input) { return model.first(model.table(input).detach()); }));
}

TEST(ReorderedGathersTest, StepsOfDynamicSizesMatchEager) {
  const ModelCase model =
      Model([](Embedded& model, const torch::Tensor& input) { return model.first(model.table(input)); });
  CompiledTrainerOptions options;
  options.seed = kSeed;
  options.optimizer.options = aot::SgdOptions{.lr = 0.5, .momentum = 0.9};
  options.dynamic_dims = {{0, 0, "batch", 2, 64}, {0, 1, "time", 2, 16}, {1, 0, "batch"}, {1, 1, "time"}};
  at::Generator generator = at::detail::createCPUGenerator(kSeed);
  const auto compiled =
      CompiledTrainer::Create(model, model.make_input(generator), model.make_label(generator), options);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EagerTrainer eager(model, kSeed, options.optimizer);
  // Fewer and more rows than twice those of the table.
  for (const auto& [batch, time] : std::vector<std::pair<int64_t, int64_t>>{{2, 3}, {20, 9}, {7, 16}}) {
    const torch::Tensor input = torch::randint(0, kRows, {batch, time}, generator, torch::kLong);
    const torch::Tensor label = torch::randn({batch, time, kClasses}, generator);
    const auto loss = (*compiled)->Step(input, label);
    ASSERT_TRUE(loss.ok()) << loss.status();
    EXPECT_NEAR(*loss, eager.Step(input, label), 1e-5);
  }
  const auto output = (*compiled)->Predict(model.make_input(generator));
  EXPECT_TRUE(output.ok()) << output.status();
}

// A row that no index names may hold anything, except where a gradient multiplies it by zero.
TEST(ReorderedGathersTest, RowsThatAreNotGatheredDoNotChangeResults) {
  const ModelCase model =
      Model([](Embedded& model, const torch::Tensor& input) { return model.first(model.table(input)); });
  at::Generator generator = at::detail::createCPUGenerator(kSeed);
  const torch::Tensor input = model.make_input(generator).clamp_min(1);
  CompiledTrainerOptions options;
  options.seed = kSeed;
  const auto compiled = CompiledTrainer::Create(model, input, model.make_label(generator), options);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const auto before = (*compiled)->Predict(input);
  ASSERT_TRUE(before.ok()) << before.status();
  const auto states = (*compiled)->States();
  ASSERT_TRUE(states.ok()) << states.status();
  torch::Tensor table = states->at("table.weight");
  table[0] = std::numeric_limits<float>::infinity();
  const auto changed = ToCotan(table);
  ASSERT_TRUE(changed.ok()) << changed.status();
  ASSERT_TRUE((*compiled)->session().SetState("table.weight", *changed).ok());
  const auto after = (*compiled)->Predict(input);
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_TRUE(torch::equal(*before, *after));
}

}  // namespace
}  // namespace cotan::testing
