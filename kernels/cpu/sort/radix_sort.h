// SPDX-License-Identifier: Apache-2.0

// Sorts items by an unsigned key of few bytes: a stable counting sort for each byte, from the last one (Knuth, The Art
// of Computer Programming, vol. 3, 5.2.5).
#ifndef COTAN_KERNELS_CPU_SORT_RADIX_SORT_H_
#define COTAN_KERNELS_CPU_SORT_RADIX_SORT_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace cotan::cpu {

// The least count for which this sort is faster than std::sort.
inline constexpr int64_t kMinRadixSort = 64;

// Sorts `count` items by the last kKeyBytes bytes of Item::Key(), equal ones in their order. `other` has room for as
// many. Returns the place of the sorted items: `items` or `other`; the other one is overwritten. A byte that all keys
// share costs no pass.
//
// 0 < count < 2^32.
template <int kKeyBytes, typename Item>
Item* RadixSort(Item* items, Item* other, int64_t count) {
  constexpr size_t kDigits = 256;
  std::array<std::array<uint32_t, kDigits>, kKeyBytes> counts = {};
  const auto digit = [](uint64_t key, int byte) { return static_cast<size_t>(key >> (8 * byte) & (kDigits - 1)); };
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t key = items[i].Key();
    for (int byte = 0; byte < kKeyBytes; ++byte) ++counts[static_cast<size_t>(byte)][digit(key, byte)];
  }
  for (int byte = 0; byte < kKeyBytes; ++byte) {
    std::array<uint32_t, kDigits>& next = counts[static_cast<size_t>(byte)];
    if (next[digit(items[0].Key(), byte)] == count) continue;
    uint32_t begin = 0;
    for (uint32_t& place : next) {
      const uint32_t of_digit = place;
      place = begin;
      begin += of_digit;
    }
    for (int64_t i = 0; i < count; ++i) other[next[digit(items[i].Key(), byte)]++] = items[i];
    std::swap(items, other);
  }
  return items;
}

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_SORT_RADIX_SORT_H_
