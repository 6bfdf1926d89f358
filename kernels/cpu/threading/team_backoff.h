// SPDX-License-Identifier: Apache-2.0

// Decides when a team is suspended, so that loops run on their calling thread alone.
#ifndef COTAN_KERNELS_CPU_THREADING_TEAM_BACKOFF_H_
#define COTAN_KERNELS_CPU_THREADING_TEAM_BACKOFF_H_

#include <cstdint>

namespace cotan::cpu {

// Times and chunks of one loop on a team. Times are in nanoseconds.
struct TeamLoop {
  int64_t chunks = 0;       // of the loop
  int64_t most_chunks = 0;  // of the member that ran most of them
  int64_t most_time = 0;    // from the loop's beginning until that member found no more chunks
  int64_t idle_time = 0;    // from the first member's end until the last one's
  int64_t end = 0;          // of the last member, by the clock of TeamBackoff::IsActive()
};

// Compares the time that a team saves with the time for which members wait for another that has lost its processor to
// another process: a scheduler's slice, some milliseconds. When the team loses, it is suspended for 20 ms and then
// tried again; each further loss doubles the pause, up to 640 ms. A loop's results do not depend on it.
//
// Not thread-safe.
class TeamBackoff {
 public:
  // Returns whether the team is suspended when a loop begins at `now`. `now`: nanoseconds of a monotonic clock.
  bool IsActive(int64_t now) const { return now < end_; }

  void Record(const TeamLoop& loop);

 private:
  int64_t credit_ = kMaxCredit;
  int64_t pause_ = kMinPause;
  int64_t end_ = 0;

  static constexpr int64_t kMillisecond = 1'000'000;
  // The time that a team may lose before it is suspended: somewhat more than one slice.
  static constexpr int64_t kMaxCredit = 6 * kMillisecond;
  static constexpr int64_t kMinPause = 20 * kMillisecond;
  static constexpr int64_t kMaxPause = 640 * kMillisecond;
};

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_THREADING_TEAM_BACKOFF_H_
