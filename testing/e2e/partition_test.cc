// SPDX-License-Identifier: Apache-2.0

// Compares forwards and backwards that save different values: outputs, gradients and states have the same bits, and a
// smaller budget saves no more bytes.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "aot/tools/artifact_summary.h"
#include "testing/e2e/compiled_trainer.h"
#include "testing/models/models.h"

namespace cotan::testing {
namespace {

using TensorMap = std::map<std::string, torch::Tensor>;

struct Variant {
  const char* name;
  aot::PartitionOptions options;
};

std::vector<Variant> Variants() {
  std::vector<Variant> variants = {{"default", {.partitioner = aot::Partitioner::kDefault}}, {"min_cut", {}}};
  variants.push_back({"0.75", {.activation_memory_budget = 0.75}});
  variants.push_back({"0.5", {.activation_memory_budget = 0.5}});
  variants.push_back({"0.25", {.activation_memory_budget = 0.25}});
  variants.push_back({"0", {.activation_memory_budget = 0}});
  return variants;
}

// NaNs are equal to themselves.
bool SameBits(const torch::Tensor& a, const torch::Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() &&
         std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

void ExpectSameBits(const TensorMap& actual, const TensorMap& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    ASSERT_TRUE(actual.contains(name)) << name;
    EXPECT_TRUE(SameBits(actual.at(name), tensor)) << name << " differs by " << (actual.at(name) - tensor).abs().max();
  }
}

class PartitionedModelTest : public ::testing::TestWithParam<std::string> {
 protected:
  PartitionedModelTest() : model_(*FindModel(GetParam())) {}

  absl::StatusOr<std::unique_ptr<CompiledTrainer>> Compile(const aot::PartitionOptions& partition) {
    CompiledTrainerOptions options;
    options.seed = 11;
    options.optimizer.options = aot::SgdOptions{.lr = 0.01};
    options.methods = {.train_step = false, .eval = false};
    options.partition = partition;
    at::Generator generator = at::detail::createCPUGenerator(1);
    const torch::Tensor input = model_.make_input(generator);
    return CompiledTrainer::Create(model_, input, model_.make_label(generator), options);
  }

  const ModelCase& model_;
};

TEST_P(PartitionedModelTest, HasTheSameBitsWhateverIsSaved) {
  std::vector<std::unique_ptr<CompiledTrainer>> trainers;
  for (const Variant& variant : Variants()) {
    auto trainer = Compile(variant.options);
    ASSERT_TRUE(trainer.ok()) << variant.name << ": " << trainer.status();
    trainers.push_back(*std::move(trainer));
  }
  at::Generator generator = at::detail::createCPUGenerator(2);
  for (int call = 0; call < 2; ++call) {
    const torch::Tensor input = model_.make_input(generator);
    const torch::Tensor label = model_.make_label(generator);
    TensorMap outputs, gradients, states;
    for (size_t i = 0; i < trainers.size(); ++i) {
      SCOPED_TRACE(Variants()[i].name);
      const auto results = trainers[i]->session().Run("forward", {*ToCotan(input)});
      ASSERT_TRUE(results.ok()) << results.status();
      const TensorMap own_outputs = {{"output", *ToTorch((*results)[0])}};
      const auto own_gradients = trainers[i]->Gradients(input, label);
      ASSERT_TRUE(own_gradients.ok()) << own_gradients.status();
      if (i == 0) {
        outputs = own_outputs;
        gradients = *own_gradients;
        states = *trainers[i]->States();
      }
      ExpectSameBits(own_outputs, outputs);
      ExpectSameBits(*own_gradients, gradients);
      ExpectSameBits(*trainers[i]->States(), states);
    }
  }
}

TEST_P(PartitionedModelTest, SavesNoMoreBytesWithASmallerBudget) {
  int64_t saved = -1;
  for (const Variant& variant : Variants()) {
    const auto trainer = Compile(variant.options);
    ASSERT_TRUE(trainer.ok()) << variant.name << ": " << trainer.status();
    int64_t own_saved = 0;
    for (const serialization::Method& method : (*trainer)->session().program().artifact().methods()) {
      own_saved += aot::SavedBytes(method);
    }
    EXPECT_TRUE(saved < 0 || own_saved <= saved) << variant.name << " saves " << own_saved << " instead of " << saved;
    saved = own_saved;
  }
}

INSTANTIATE_TEST_SUITE_P(All, PartitionedModelTest, ::testing::ValuesIn(ModelNames()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace cotan::testing
