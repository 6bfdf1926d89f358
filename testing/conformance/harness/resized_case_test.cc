// SPDX-License-Identifier: Apache-2.0

#include "testing/conformance/harness/resized_case.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace cotan::conformance {
namespace {

using ::testing::ElementsAre;
using Tensors = std::vector<at::Tensor>;

// Returns the arguments of the dynamic dimensions, in order.
std::vector<int> DynamicArguments(const Tensors& inputs) {
  std::vector<int> arguments;
  for (const aot::DynamicDim& dim : DynamicDimsOf(inputs)) arguments.push_back(dim.argument);
  return arguments;
}

std::vector<int64_t> Offsets(const Tensors& tensors) {
  std::vector<int64_t> offsets;
  for (const at::Tensor& tensor : tensors) offsets.push_back(tensor.storage_offset());
  return offsets;
}

TEST(ResizedCaseTest, AnInputThatIsGivenTwiceIsResizedOnce) {
  const at::Tensor x = buf(0, {2, 3});
  EXPECT_THAT(DynamicArguments({x, x}), ElementsAre(0, 0, 1, 1));
  EXPECT_EQ(NumFixedSizes({x, x}), 0);
  ConfCase c{};
  c.inputs = [x] { return Tensors{x, x}; };
  const std::optional<ConfCase> larger = LargerCase(c, 2);
  ASSERT_TRUE(larger.has_value());
  const Tensors inputs = larger->inputs();
  EXPECT_TRUE(inputs[0].is_same(inputs[1]));
  EXPECT_THAT(inputs[0].sizes().vec(), ElementsAre(4, 5));
}

TEST(ResizedCaseTest, WindowsThatOverlapKeepTheirDistance) {
  const at::Tensor base = leaf(0, {6});
  const Tensors inputs = {base.slice(0, 2, 6), leaf(1, {4}), base.slice(0, 0, 4)};
  EXPECT_THAT(DynamicArguments(inputs), ElementsAre(0, 1, 2));
  const Tensors resized = ExamplesAtSizes(inputs)({{"s4", 10}});
  EXPECT_THAT(Offsets(resized), ElementsAre(2, 0, 0));
  for (const at::Tensor& input : resized) EXPECT_THAT(input.sizes().vec(), ElementsAre(10));
  EXPECT_TRUE(resized[0].is_alias_of(resized[2]));
  EXPECT_TRUE(resized[0].requires_grad());
  EXPECT_EQ(resized[0]._base().numel(), 12);
}

TEST(ResizedCaseTest, WindowsThatDoNotOverlapFollowEachOther) {
  const at::Tensor base = leaf(0, {4, 3}).clone();
  const Tensors resized = ExamplesAtSizes({base.select(0, 0), base.select(0, 2)})({{"s3", 5}});
  EXPECT_THAT(Offsets(resized), ElementsAre(0, 8));
  EXPECT_EQ(resized[0]._base().numel(), 16);
  EXPECT_FALSE(resized[0]._base().is_leaf());
}

TEST(ResizedCaseTest, OtherInputsThatShareMemoryStayAsTheyAre) {
  const at::Tensor base = buf(0, {8});
  EXPECT_EQ(NumFixedSizes({base, base.slice(0, 0, 4)}), 2);
  EXPECT_EQ(NumFixedSizes({base.slice(0, 0, 8, 2), base.slice(0, 0, 4)}), 2);
  EXPECT_FALSE(static_cast<bool>(ExamplesAtSizes({base, base.slice(0, 0, 4)})));
  // The third window would overlap the first one.
  EXPECT_EQ(NumFixedSizes({base.slice(0, 0, 4), base.slice(0, 2, 6), base.slice(0, 4, 8)}), 3);
}

}  // namespace
}  // namespace cotan::conformance
