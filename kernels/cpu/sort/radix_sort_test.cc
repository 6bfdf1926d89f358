// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/sort/radix_sort.h"

#include <algorithm>
#include <random>
#include <vector>

#include "base/test_seed.h"
#include "gtest/gtest.h"

namespace cotan::cpu {
namespace {

struct Item {
  uint64_t key;
  int64_t number;
  uint64_t Key() const { return key; }
  friend bool operator==(const Item&, const Item&) = default;
};

template <int kKeyBytes>
void ExpectSorted(const std::vector<Item>& given) {
  std::vector<Item> expected = given;
  std::stable_sort(expected.begin(), expected.end(), [](const Item& a, const Item& b) { return a.key < b.key; });
  std::vector<Item> items = given;
  std::vector<Item> other(given.size());
  const Item* const sorted = RadixSort<kKeyBytes>(items.data(), other.data(), static_cast<int64_t>(given.size()));
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), sorted));
}

TEST(RadixSortTest, EqualKeysKeepTheirOrder) {
  const uint64_t seed = testing::TestSeed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (const size_t count : {1, 2, 3, 255, 256, 257, 5000}) {
    // Keys of one byte are often equal; larger limits set more bytes.
    for (const uint64_t limit : {uint64_t{0}, uint64_t{3}, uint64_t{200}, uint64_t{70000}, ~uint64_t{0}}) {
      std::vector<Item> items;
      for (size_t i = 0; i < count; ++i) {
        const uint64_t key = random();
        items.push_back({limit == ~uint64_t{0} ? key : key % (limit + 1), static_cast<int64_t>(i)});
      }
      ExpectSorted<8>(items);
      for (Item& item : items) item.key &= 0xffff;
      ExpectSorted<2>(items);
      // The bytes that all share are the last ones.
      for (Item& item : items) item.key <<= 40;
      ExpectSorted<8>(items);
    }
  }
}

}  // namespace
}  // namespace cotan::cpu
