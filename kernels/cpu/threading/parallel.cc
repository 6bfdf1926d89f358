// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/threading/parallel.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <vector>

#include "base/denormal_mode.h"
#include "kernels/cpu/threading/team.h"
#include "kernels/cpu/threading/team_backoff.h"
#include "kernels/cpu/threading/team_chunks.h"
#include "kernels/cpu/threading/tuning.h"

namespace cotan::cpu {
namespace {

int64_t Now() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

// A member of a team during a loop.
struct alignas(64) Member {
  TeamChunks chunks;
  int64_t done_chunks = 0;
  int64_t end = 0;  // nanoseconds of Now()
};

// What the loops of one calling thread share.
struct Caller {
  std::vector<Member> members;  // of the largest team so far
  TeamBackoff backoff;
};

Caller& ThisCaller() {
  thread_local Caller caller;
  return caller;
}

// Gives each member adjacent chunks, the first ones one more if there is a rest.
void DivideChunks(int64_t chunks, int team, std::vector<Member>& members) {
  if (members.size() < static_cast<size_t>(team)) members = std::vector<Member>(static_cast<size_t>(team));
  const int64_t each = chunks / team;
  const int64_t rest = chunks % team;
  for (int64_t member = 0, begin = 0; member < team; ++member) {
    const int64_t end = begin + each + (member < rest ? 1 : 0);
    members[static_cast<size_t>(member)].chunks.Reset(begin, end);
    begin = end;
  }
}

// Returns the next chunk for `member`: one of its own, or of another of the `team`.
std::optional<int64_t> TakeChunk(int member, int team, Member* members) {
  std::optional<int64_t> chunk = members[member].chunks.TakeFirst();
  for (int i = 1; i < team && !chunk.has_value(); ++i) chunk = members[(member + i) % team].chunks.TakeLast();
  return chunk;
}

TeamLoop Describe(int64_t chunks, int64_t begin, int team, const Member* members) {
  const auto fewer = [](const Member& a, const Member& b) { return a.done_chunks < b.done_chunks; };
  const auto earlier = [](const Member& a, const Member& b) { return a.end < b.end; };
  const Member& most = *std::max_element(members, members + team, fewer);
  const auto [first, last] = std::minmax_element(members, members + team, earlier);
  return {chunks, most.done_chunks, most.end - begin, last->end - first->end, last->end};
}

}  // namespace

void ParallelFor(int threads, int64_t count, int64_t grain, absl::FunctionRef<void(int64_t begin, int64_t end)> fn) {
  ParallelForWorker(threads, count, grain, [&](int, int64_t begin, int64_t end) { fn(begin, end); });
}

void ParallelForWorker(int threads, int64_t count, int64_t grain,
                       absl::FunctionRef<void(int worker, int64_t begin, int64_t end)> fn) {
  const int64_t chunks = count / grain + (count % grain != 0);
  const auto run = [&](int worker, int64_t chunk) {
    const int64_t begin = chunk * grain;
    fn(worker, begin, std::min(grain, count - begin) + begin);
  };
  const int team = static_cast<int>(std::min<int64_t>(threads, chunks));
  if (team <= 1 || chunks > TeamChunks::kMax || InTeam() || RunsAlone()) {
    for (int64_t chunk = 0; chunk < chunks; ++chunk) run(0, chunk);
    return;
  }
  Caller& caller = ThisCaller();
  DivideChunks(chunks, team, caller.members);
  Member* const members = caller.members.data();
  int started = 0;
  const DenormalMode& mode = CurrentDenormalMode();
  const int64_t begin = Now();
  RunTeam(team, [&](int member, int size) {
    const ScopedDenormalMode scoped(mode);
    if (member == 0) started = size;
    Member& self = members[member];
    self.done_chunks = 0;
    while (const std::optional<int64_t> chunk = TakeChunk(member, team, members)) {
      run(member, *chunk);
      ++self.done_chunks;
    }
    self.end = Now();
  });
  caller.backoff.Record(Describe(chunks, begin, started, members));
}

bool RunsAlone() { return ThisCaller().backoff.IsActive(Now()); }

int ThreadsWorthwhile(int threads, double flops) {
  if (flops >= kFlopsPerThread * threads) return threads;
  return std::max(1, static_cast<int>(flops / kFlopsPerThread));
}

ScopedTeamMode::ScopedTeamMode(int threads)
    : threads_(CurrentDenormalMode().flush && threads > 1 && !InTeam() ? threads : 0) {
  if (threads_ == 0) return;
  const DenormalMode& mode = CurrentDenormalMode();
  RunTeam(threads_, [&](int, int) { SetDenormalMode(mode); });
}

ScopedTeamMode::~ScopedTeamMode() {
  if (threads_ == 0) return;
  RunTeam(threads_, [](int member, int) {
    if (member != 0) SetDenormalMode({.flush = false});
  });
}

}  // namespace cotan::cpu
