// SPDX-License-Identifier: Apache-2.0

#include "runtime/distributed/mpi/mpi_engine.h"

#include <sched.h>

#include <chrono>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"

namespace cotan {
namespace {

// Between two looks at the neighbours: while transfers run, and while none does.
constexpr absl::Duration kWatchInterval = absl::Milliseconds(2);
constexpr std::chrono::milliseconds kIdleInterval(50);
// Fruitless tests before the thread sleeps between them.
constexpr int kSpins = 100;
constexpr absl::Duration kNap = absl::Microseconds(20);

constexpr char kAdvice[] = "; end this process, and restart all ranks from the last checkpoint";

// Transfers whose messages MPI may still write when the engine has failed. They are never freed.
void Keep(std::vector<std::shared_ptr<MpiEngine::Job>>& jobs) {
  static auto& kept = *new std::vector<std::shared_ptr<MpiEngine::Job>>;
  static std::mutex& mutex = *new std::mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  kept.insert(kept.end(), jobs.begin(), jobs.end());
  jobs.clear();
}

absl::Status EndedError(const EndedRank& ended) {
  switch (ended.reason) {
    case EndedRank::Reason::kLeft:
      return absl::UnavailableError(absl::StrCat("rank ", ended.rank, " has left the group", kAdvice));
    case EndedRank::Reason::kSilent:
      return absl::UnavailableError(
          absl::StrCat("rank ", ended.rank, " is silent: its machine or network is down", kAdvice));
    case EndedRank::Reason::kEnded:
      break;
  }
  return absl::UnavailableError(absl::StrCat("rank ", ended.rank, " has ended: its connection was closed", kAdvice));
}

}  // namespace

MpiEngine::MpiEngine(std::unique_ptr<Liveness> liveness, int size, const Limits& limits)
    : liveness_(std::move(liveness)), limits_(limits) {
  constexpr size_t kUsual = 64;
  started_.reserve(kUsual);
  active_.reserve(kUsual);
  ended_.reserve(static_cast<size_t>(size));
  thread_ = std::thread([this] { Run(); });
}

bool MpiEngine::End() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ends_ = true;
  }
  work_.notify_one();
  thread_.join();
  const bool is_clean = active_.empty() && error_.ok();
  Keep(active_);
  return is_clean;
}

absl::Status MpiEngine::Start(const std::shared_ptr<Job>& job) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    COTAN_RETURN_IF_ERROR(error_);
    if (job->is_running) {
      return absl::FailedPreconditionError(
          "the exchange of an earlier call is still running: end all ranks and restart them from a checkpoint");
    }
    job->is_running = true;
    started_.push_back(job);
  }
  work_.notify_one();
  return absl::OkStatus();
}

absl::Status MpiEngine::Wait(const Job& job) {
  std::unique_lock<std::mutex> lock(mutex_);
  progress_.wait(lock, [&] { return !job.is_running || !error_.ok(); });
  return job.is_running ? error_ : absl::OkStatus();
}

absl::Status MpiEngine::Check(bool needs_all) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return error_.ok() && needs_all ? left_ : error_;
}

// --- the thread ----------------------------------------------------------------------

void MpiEngine::Run() {
  int fruitless = 0;
  while (TakeStarted()) {
    fruitless = ProgressAll() ? 0 : fruitless + 1;
    if (absl::Now() >= next_watch_) Watch();
    if (fruitless == 0) continue;
    if (fruitless < kSpins) {
      sched_yield();
    } else {
      absl::SleepFor(kNap);
    }
  }
  // An exchange that is still active will not be completed.
  liveness_->Leave(active_.empty() ? num_begun_ : active_[0]->transfer->number());
}

bool MpiEngine::TakeStarted() {
  const size_t first = active_.size();
  {
    std::unique_lock<std::mutex> lock(mutex_);
    if (active_.empty()) work_.wait_for(lock, kIdleInterval, [&] { return ends_ || !started_.empty(); });
    if (ends_) return false;
    active_.insert(active_.end(), started_.begin(), started_.end());
    started_.clear();
    if (!error_.ok()) {
      lock.unlock();
      Keep(active_);
      return true;
    }
  }
  for (size_t i = first; i < active_.size(); ++i) {
    const absl::Status status = active_[i]->transfer->Begin(num_begun_++);
    if (status.ok()) continue;
    Fail(status);
    return true;
  }
  return true;
}

bool MpiEngine::ProgressAll() {
  bool any = false;
  for (size_t i = 0; i < active_.size();) {
    const absl::StatusOr<bool> complete = active_[i]->transfer->Progress();
    if (!complete.ok()) {
      Fail(complete.status());
      return false;
    }
    if (!*complete) {
      ++i;
      continue;
    }
    any = true;
    // Not among the active ones any more when it may be started again.
    const std::shared_ptr<Job> job = std::move(active_[i]);
    active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(i));
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      job->is_running = false;
    }
    progress_.notify_all();
  }
  return any;
}

void MpiEngine::Watch() {
  next_watch_ = absl::Now() + kWatchInterval;
  liveness_->Poll(limits_.silence, [this](const EndedRank& ended) { NoteEnded(ended); });
  const absl::Status status = CheckTransfers();
  if (!status.ok()) Fail(status);
}

void MpiEngine::NoteEnded(const EndedRank& ended) {
  ended_.push_back(ended);
  if (ended.reason != EndedRank::Reason::kLeft) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  left_.Update(EndedError(ended));
}

// Returns an error if a rank has ended whose messages would be needed, now or in the next transfer.
absl::Status MpiEngine::CheckTransfers() const {
  for (const EndedRank& ended : ended_) {
    if (ended.reason != EndedRank::Reason::kLeft) return EndedError(ended);
    for (const std::shared_ptr<Job>& job : active_) {
      if (job->transfer->number() >= ended.exchanges) return EndedError(ended);
    }
  }
  for (const std::shared_ptr<Job>& job : active_) {
    if (absl::Now() - job->transfer->since() < limits_.timeout) continue;
    const std::vector<int> missing = job->transfer->Missing();
    return absl::UnavailableError(
        absl::StrCat("rank ", absl::StrJoin(missing, ", rank "), " did not take part in a collective for ",
                     absl::FormatDuration(limits_.timeout),
                     " (MpiOptions.timeout): it is slow, or the ranks call methods in different orders", kAdvice));
  }
  return absl::OkStatus();
}

void MpiEngine::Fail(const absl::Status& error) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (error_.ok()) error_ = error;
  }
  Keep(active_);
  progress_.notify_all();
}

}  // namespace cotan
