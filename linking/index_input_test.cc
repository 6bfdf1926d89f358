// SPDX-License-Identifier: Apache-2.0

#include "linking/index_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cotan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int64_t> Elements(const view::AsStrided& place, std::optional<SymInt> extent = std::nullopt,
                              absl::Span<const int64_t> symbols = {}) {
  const absl::StatusOr<std::vector<int64_t>> elements = IndexElements(ToProto(0, place, extent), symbols);
  EXPECT_TRUE(elements.ok()) << elements.status();
  return elements.value_or(std::vector<int64_t>());
}

TEST(IndexInputTest, ElementsArePositionsInRowMajorOrder) {
  EXPECT_THAT(Elements({.sizes = {2, 3}, .strides = {1, 4}, .offset = 5}), ElementsAre(5, 9, 13, 6, 10, 14));
  EXPECT_THAT(Elements({.sizes = {}, .strides = {}, .offset = 7}), ElementsAre(7));
  EXPECT_TRUE(Elements({.sizes = {0, 3}, .strides = {3, 1}, .offset = 0}).empty());
}

TEST(IndexInputTest, APartOfAStorageIsReplaced) {
  EXPECT_THAT(Elements({.sizes = {2}, .strides = {2}, .offset = 1}, 5), ElementsAre(0, 5, 2, 6, 4));
}

TEST(IndexInputTest, SymbolsHaveTheGivenValues) {
  EXPECT_THAT(Elements({.sizes = {SymInt::Symbol(0)}, .strides = {SymInt::Symbol(1)}, .offset = 3}, {}, {2, 8}),
              ElementsAre(3, 11));
}

TEST(IndexInputTest, ListsThatAFileCannotHaveAreRefused) {
  const auto refusal = [](const view::AsStrided& place, std::optional<SymInt> extent) {
    return std::string(IndexElements(ToProto(0, place, extent), {}).status().message());
  };
  EXPECT_THAT(refusal({.sizes = {int64_t{1} << 40}, .strides = {1}, .offset = 0}, {}), HasSubstr("at most"));
  EXPECT_THAT(refusal({.sizes = {1 << 20, 1 << 20}, .strides = {1, 1}, .offset = 0}, {}), HasSubstr("at most"));
  EXPECT_THAT(refusal({.sizes = {-1}, .strides = {1}, .offset = 0}, {}), HasSubstr("-1"));
  EXPECT_THAT(refusal({.sizes = {2}, .strides = {}, .offset = 0}, {}), HasSubstr("strides"));
  EXPECT_THAT(refusal({.sizes = {2}, .strides = {1}, .offset = 4}, 5), HasSubstr("outside"));
  EXPECT_THAT(refusal({.sizes = {2}, .strides = {1}, .offset = -1}, 5), HasSubstr("outside"));
  EXPECT_THAT(refusal({.sizes = {SymInt::Symbol(0)}, .strides = {1}, .offset = 0}, {}), HasSubstr("s0"));
}

}  // namespace
}  // namespace cotan
