// SPDX-License-Identifier: Apache-2.0

#include "runtime/training/shuffle.h"

#include <numeric>
#include <utility>

#include "absl/numeric/int128.h"
#include "base/philox.h"

namespace cotan::training {
namespace {

constexpr uint64_t kFirstBlock = uint64_t{1} << 63;

// Returns a number below `bound` from 64 random bits.
size_t Below(uint64_t bits, size_t bound) {
  return static_cast<size_t>(absl::Uint128High64(absl::uint128(bits) * bound));
}

}  // namespace

std::vector<int64_t> ShuffledOrder(int64_t count, uint64_t seed, uint64_t epoch) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), int64_t{0});
  const uint64_t first_block = kFirstBlock | epoch << 32;
  for (size_t i = order.size(); i > 1; --i) {
    const PhiloxBlock block = Philox(seed, first_block + i);
    const uint64_t bits = static_cast<uint64_t>(block.lane[0]) << 32 | block.lane[1];
    std::swap(order[i - 1], order[Below(bits, i)]);
  }
  return order;
}

}  // namespace cotan::training
