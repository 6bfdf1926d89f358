// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/threading/team_backoff.h"

#include <algorithm>

namespace cotan::cpu {
namespace {

// Members also wait for the last chunk, which may take longer than others, and for threads that wake.
constexpr int64_t kUsualChunks = 4;
constexpr int64_t kUsualIdleTime = 300'000;

}  // namespace

void TeamBackoff::Record(const TeamLoop& loop) {
  const int64_t chunk_time = loop.most_time / std::max<int64_t>(1, loop.most_chunks);
  const bool is_lost = loop.idle_time > kUsualIdleTime + kUsualChunks * chunk_time;
  const int64_t saved = (loop.chunks - loop.most_chunks) * chunk_time;
  credit_ = std::min(credit_ + saved - (is_lost ? loop.idle_time : 0), kMaxCredit);
  if (credit_ == kMaxCredit) pause_ = kMinPause;
  if (credit_ >= 0) return;
  end_ = loop.end + pause_;
  pause_ = std::min(2 * pause_, kMaxPause);
  credit_ = 0;
}

}  // namespace cotan::cpu
