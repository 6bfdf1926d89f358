// SPDX-License-Identifier: Apache-2.0

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "aot/aotautograd/analyze_function.h"
#include "serialization/metadata/view_step.h"

namespace cotan::aot {
namespace {

using Tensors = std::vector<at::Tensor>;

at::Tensor Leaf(at::IntArrayRef sizes) { return at::rand(sizes).requires_grad_(true); }
at::Tensor NonLeaf(at::IntArrayRef sizes) { return Leaf(sizes) * 1; }
at::Tensor Plain(at::IntArrayRef sizes) { return at::rand(sizes); }

TEST(AnalyzeFunctionFactsTest, TangentsHaveTheStridesOfTheirTensors) {
  const auto facts = AnalyzeFunction(
      [](const Tensors& in) {
        return Tensors{(in[0] + 1).transpose(1, 2), in[0].sum().expand({4})};
      },
      {}, {Leaf({2, 3, 4})}, {});
  ASSERT_TRUE(facts.ok()) << facts.status();
  ASSERT_EQ(facts->tangents.size(), 2u);
  EXPECT_EQ(facts->tangents[0].expected, (TensorGeometry{DType::kFloat32, {2, 4, 3}, {12, 1, 4}, 0}));
  EXPECT_EQ(facts->tangents[1].expected, (TensorGeometry{DType::kFloat32, {4}, {1}, 0}));
}

TEST(AnalyzeFunctionFactsTest, GeometryIsThatInTheCallersStorage) {
  const at::Tensor part = Plain({4, 3}).slice(0, 1, 3);
  const auto facts = AnalyzeFunction(
      [](const Tensors& in) {
        const at::Tensor row = in[0].select(0, 1);
        in[0].t_();
        return Tensors{row};
      },
      {}, {part}, {});
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->input_info[0].geometry_after, (TensorGeometry{DType::kFloat32, {3, 2}, {1, 3}, 3}));
  EXPECT_EQ(facts->output_info[0].geometry, (TensorGeometry{DType::kFloat32, {3}, {1}, 6}));
  EXPECT_EQ(facts->output_info[0].view_steps, (std::vector<ViewStep>{view::AsStrided{{3}, {1}, 6}}));
}

TEST(AnalyzeFunctionFactsTest, ConjugateLiesInTheMemoryOfWhatItWasMadeOf) {
  const auto with = [](bool conjugate) {
    return [conjugate](const Tensors& in) {
      const at::Tensor y = in[0] * 2;
      return Tensors{y.view({6}), conjugate ? y.conj() : y.t()};
    };
  };
  const Tensors inputs = {at::ones({2, 3}, at::kComplexFloat)};
  const auto view = AnalyzeFunction(with(false), {}, inputs, {});
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_TRUE(view->output_info[1].shared_storage.has_value());
  const auto conjugate = AnalyzeFunction(with(true), {}, inputs, {});
  ASSERT_TRUE(conjugate.ok()) << conjugate.status();
  ASSERT_TRUE(conjugate->output_info[1].shared_storage.has_value());
  EXPECT_TRUE(conjugate->output_info[1].shared_storage->is_conjugate);
}

TEST(AnalyzeFunctionFactsTest, RemembersWhatRequiredGradAtEntry) {
  const auto facts = AnalyzeFunction(
      [](const Tensors& in) {
        in[0].detach_();
        in[1].requires_grad_(true);
        return Tensors{};
      },
      {}, {NonLeaf({3}), Plain({3})}, {});
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->input_info[0].requires_grad_at_entry, true);
  EXPECT_FALSE(facts->input_info[0].requires_grad);
  EXPECT_EQ(facts->input_info[1].requires_grad_at_entry, false);
  EXPECT_TRUE(facts->input_info[1].requires_grad);
}

TEST(AnalyzeFunctionFactsTest, ExamplesAreLeftAsTheyAre) {
  const at::Tensor x = at::ones({2});
  ASSERT_TRUE(AnalyzeFunction([](const Tensors& in) { return Tensors{in[0].mul_(2)}; }, {}, {x}, {}).ok());
  EXPECT_TRUE(at::equal(x, at::ones({2})));
}

TEST(AnalyzeFunctionFactsTest, FindsMetadataMutationsHiddenWritesAndStorageSources) {
  const Tensors inputs = {Plain({2, 3}), Plain({2, 3}), Plain({4}), Plain({3, 2})};
  const auto found = CollectMetadata(
      [](const Tensors& in) {
        in[0].t_().t_();
        in[1].mul_(2);
        in[1].as_strided_({2}, {1}, 0);
        in[2].as_strided_({2}, {1}, 0);
        in[2].mul_(2);
        in[3].set_(in[0]);
        return Tensors{};
      },
      {}, inputs, {});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(found->metadata_mutated_inputs, ::testing::ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(found->inputs_with_hidden_writes, ::testing::ElementsAre(1));
  EXPECT_THAT(found->storage_sources, ::testing::ElementsAre(-1, -1, -1, 0));
  EXPECT_FALSE(found->facts.input_info[0].mutates_metadata);
}

TEST(AnalyzeFunctionFactsTest, WritesBeforeSetAreHidden) {
  const Tensors inputs = {Plain({2}), Plain({2}), Plain({2})};
  const auto found = CollectMetadata(
      [](const Tensors& in) {
        in[0].mul_(2);
        in[0].set_(in[2]);
        in[1].set_(in[2]);
        return Tensors{in[2].clone().mul_(3)};
      },
      {}, inputs, {});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(found->inputs_with_hidden_writes, ::testing::ElementsAre(0));
}

}  // namespace
}  // namespace cotan::aot
