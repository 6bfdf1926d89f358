// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/captured_layout.h"

#include "runtime/autograd/test_support.h"

namespace cotan::autograd {
namespace {

using ::testing::ElementsAre;

TEST(CapturedLayoutTest, IndicesAreThoseOfTheElementsInRowMajorOrder) {
  EXPECT_THAT(StorageIndices({.sizes = {2, 3}, .strides = {1, 4}, .offset = 5}), ElementsAre(5, 9, 13, 6, 10, 14));
  EXPECT_THAT(StorageIndices({.sizes = {}, .strides = {}, .offset = 7}), ElementsAre(7));
  EXPECT_TRUE(StorageIndices({.sizes = {0, 3}, .strides = {3, 1}, .offset = 0}).empty());
}

TEST(CapturedLayoutTest, SymbolsBecomeNumbers) {
  const view::AsStrided layout = {.sizes = {SymInt::Symbol(0), 2}, .strides = {SymInt::Symbol(1), 1}, .offset = 3};
  const absl::StatusOr<StridedLayout> numbers = Evaluate(layout, {4, 8});
  ASSERT_TRUE(numbers.ok());
  EXPECT_THAT(numbers->sizes, ElementsAre(4, 2));
  EXPECT_THAT(numbers->strides, ElementsAre(8, 1));
  EXPECT_EQ(numbers->offset, 3);
  EXPECT_FALSE(Evaluate(layout, {4}).ok());
}

}  // namespace
}  // namespace cotan::autograd
