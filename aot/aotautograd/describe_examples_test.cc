// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/describe_examples.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cotan::aot {
namespace {

using ::testing::ElementsAre;

TEST(DescribeExamplesTest, ViewsHaveTheStorageAndTheBaseOfTheirTensor) {
  const at::Tensor leaf = at::ones({4, 3}).requires_grad_(true);
  const at::Tensor base = leaf * 2;
  const at::Tensor row = base[1];
  const auto found = DescribeExamples({}, {base, row, row, row.detach()});
  ASSERT_EQ(found.size(), 4u);
  EXPECT_FALSE(found[0].base.has_value());
  EXPECT_EQ(found[0].storage_elements, 12);
  ASSERT_TRUE(found[1].base.has_value());
  EXPECT_EQ(found[1].base->identity, found[0].identity);
  EXPECT_THAT(found[1].base->layout.sizes, ElementsAre(4, 3));
  EXPECT_TRUE(found[1].base->requires_grad && !found[1].base->is_leaf);
  EXPECT_EQ(found[1].layout.offset, 3);
  EXPECT_EQ(found[2].identity, found[1].identity);
  EXPECT_FALSE(found[3].base.has_value());
  EXPECT_FALSE(found[3].requires_grad);
  for (const InputDescription& description : found) EXPECT_EQ(description.storage, found[0].storage);
}

TEST(DescribeExamplesTest, ViewsMadeUnderNoGradAreMarked) {
  const at::Tensor leaf = at::ones({2, 3}).requires_grad_(true);
  const at::Tensor buffer = at::ones({3});
  const at::Tensor with_history = leaf[0];
  const at::NoGradGuard no_grad;
  const auto found = DescribeExamples({}, {leaf, with_history, leaf[0], buffer[0], leaf.detach()});
  EXPECT_FALSE(found[0].made_under_no_grad);
  EXPECT_FALSE(found[1].made_under_no_grad);
  EXPECT_TRUE(found[2].made_under_no_grad);
  EXPECT_FALSE(found[3].made_under_no_grad);
  EXPECT_FALSE(found[4].made_under_no_grad);
}

TEST(DescribeExamplesTest, StatesComeFirstAndShareNothing) {
  const at::Tensor shared = at::ones({2});
  ModuleState first, second;
  first.tensor = at::ones({2});
  second.tensor = at::ones({2});
  first.initial = second.initial = shared;
  first.requires_grad = true;
  const auto found = DescribeExamples({first, second}, {shared});
  ASSERT_EQ(found.size(), 3u);
  EXPECT_NE(found[0].identity, found[1].identity);
  EXPECT_NE(found[0].storage, found[2].storage);
  EXPECT_TRUE(found[0].requires_grad);
  EXPECT_FALSE(found[1].requires_grad);
}

}  // namespace
}  // namespace cotan::aot
