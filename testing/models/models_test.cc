// SPDX-License-Identifier: Apache-2.0

#include "testing/models/models.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

namespace cotan::testing {
namespace {

int64_t NumParameters(const std::string& name) {
  int64_t count = 0;
  for (const torch::Tensor& parameter : FindModel(name)->make_network()->parameters()) {
    count += parameter.numel();
  }
  return count;
}

TEST(ModelsTest, NamesAreUniqueAndFound) {
  std::set<std::string> names;
  for (const ModelCase& model : AllModels()) {
    EXPECT_TRUE(names.insert(model.name).second) << model.name;
    EXPECT_EQ(FindModel(model.name), &model);
  }
  EXPECT_EQ(FindModel("no such model"), nullptr);
}

TEST(ModelsTest, MeasuredModelsHaveFixedParameterCounts) {
  EXPECT_EQ(NumParameters("mlp"), 784 * 256 + 256 + 256 * 128 + 128 + 128 * 10 + 10);
  EXPECT_EQ(NumParameters("cnn"), 9 * 16 + 16 + 2 * 16 + 9 * 16 * 32 + 32 + 2 * 32 + 1568 * 10 + 10);
  constexpr int64_t kBlock = 4 * 128 + (128 * 384 + 384) + (128 * 128 + 128) + (128 * 512 + 512) + (512 * 128 + 128);
  EXPECT_EQ(NumParameters("gpt"), 2 * 512 * 128 + 64 * 128 + 4 * kBlock + 2 * 128);
  EXPECT_EQ(NumParameters("resnet"), 27 * 32 + 64 + (2 * 9 * 32 * 32 + 128) +
                                         (9 * 32 * 64 + 9 * 64 * 64 + 256 + 32 * 64 + 128) +
                                         (9 * 64 * 128 + 9 * 128 * 128 + 512 + 64 * 128 + 256) + 1290);
}

class EachModel : public ::testing::TestWithParam<std::string> {};

TEST_P(EachModel, HasAFiniteLossAndAGradientForEachParameter) {
  const ModelCase& model = *FindModel(GetParam());
  torch::manual_seed(1);
  at::Generator generator = at::detail::createCPUGenerator(2);
  const std::shared_ptr<Network> network = model.make_network();
  const torch::Tensor loss = model.loss(network->forward(model.make_input(generator)), model.make_label(generator));
  ASSERT_EQ(loss.dim(), 0);
  EXPECT_TRUE(std::isfinite(loss.item<float>()));
  loss.backward();
  for (const auto& parameter : network->named_parameters()) {
    EXPECT_TRUE(parameter.value().grad().defined()) << parameter.key();
  }
}

INSTANTIATE_TEST_SUITE_P(Models, EachModel, ::testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const ModelCase& model : AllModels()) names.push_back(model.name);
                           return names;
                         }()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace cotan::testing
