// SPDX-License-Identifier: Apache-2.0

// The chunks of one loop, and who of a team runs which.
#ifndef COTAN_KERNELS_CPU_THREADING_TEAM_CHUNKS_H_
#define COTAN_KERNELS_CPU_THREADING_TEAM_CHUNKS_H_

#include <atomic>
#include <cstdint>
#include <optional>

namespace cotan::cpu {

// The chunks that a member of a team has not begun: a range from which the member takes the first ones, and the others
// the last ones when their own are done. Neighboring chunks thus stay on one thread, and a member without a processor
// holds up at most the chunk that it has begun.
//
// Every function but Reset() may be called by several threads at once.
class TeamChunks {
 public:
  // The most chunks of a loop.
  static constexpr int64_t kMax = UINT32_MAX;

  // Sets the range to [begin, end), 0 <= begin <= end <= kMax.
  void Reset(int64_t begin, int64_t end) {
    range_.store(Pack(static_cast<uint64_t>(begin), static_cast<uint64_t>(end)), std::memory_order_relaxed);
  }

  // Take the first or the last chunk; return nothing if there is none.
  std::optional<int64_t> TakeFirst() { return Take(/*first=*/true); }
  std::optional<int64_t> TakeLast() { return Take(/*first=*/false); }

 private:
  static uint64_t Pack(uint64_t begin, uint64_t end) { return begin << 32 | end; }

  std::optional<int64_t> Take(bool first) {
    uint64_t range = range_.load(std::memory_order_relaxed);
    for (;;) {
      const uint64_t begin = range >> 32;
      const uint64_t end = range & UINT32_MAX;
      if (begin == end) return std::nullopt;
      const uint64_t rest = first ? Pack(begin + 1, end) : Pack(begin, end - 1);
      // The start and the end of a team order what chunks read and write.
      if (range_.compare_exchange_weak(range, rest, std::memory_order_relaxed)) {
        return static_cast<int64_t>(first ? begin : end - 1);
      }
    }
  }

  std::atomic<uint64_t> range_ = 0;
};

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_THREADING_TEAM_CHUNKS_H_
