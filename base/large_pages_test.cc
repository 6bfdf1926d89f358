// SPDX-License-Identifier: Apache-2.0

#include "base/large_pages.h"

#include <cstdint>
#include <cstring>
#include <vector>

#include "gtest/gtest.h"

namespace cotan {
namespace {

TEST(LargePagesTest, TheyAreWholeAndWithinTheMemory) {
  constexpr size_t kLarge = size_t{2} << 20;
  for (const size_t bytes : {size_t{0}, size_t{1}, kLarge - 1, kLarge, 2 * kLarge, 5 * kLarge + 77}) {
    for (const size_t offset : {size_t{0}, size_t{64}, kLarge - 64}) {
      std::vector<char> memory(bytes + offset + 1);
      memory.back() = 7;
      const absl::Span<char> large = PopulateLargePages(absl::MakeSpan(memory).subspan(offset, bytes));
      if (!large.empty()) {
        EXPECT_EQ(reinterpret_cast<uintptr_t>(large.data()) % kLarge, 0U);
        EXPECT_EQ(large.size() % kLarge, 0U);
        EXPECT_GE(large.data(), memory.data() + offset);
        EXPECT_LE(large.data() + large.size(), memory.data() + offset + bytes);
        std::memset(large.data(), 1, large.size());
      }
      EXPECT_EQ(memory.back(), 7);
    }
  }
}

}  // namespace
}  // namespace cotan
