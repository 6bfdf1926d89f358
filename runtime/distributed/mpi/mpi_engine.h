// SPDX-License-Identifier: Apache-2.0

// The thread that makes all calls of MPI, so that messages move while the session computes, and MPI is not called by
// two threads at once.
#ifndef COTAN_RUNTIME_DISTRIBUTED_MPI_MPI_ENGINE_H_
#define COTAN_RUNTIME_DISTRIBUTED_MPI_MPI_ENGINE_H_

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "runtime/distributed/mpi/liveness.h"
#include "runtime/distributed/mpi/transfer.h"

namespace cotan {

// Thread-safe.
class MpiEngine {
 public:
  // A transfer and its progress, which the engine's mutex guards.
  struct Job {
    explicit Job(std::unique_ptr<Transfer> transfer_in) : transfer(std::move(transfer_in)) {}
    const std::unique_ptr<Transfer> transfer;
    bool is_running = false;
  };

  struct Limits {
    absl::Duration timeout;  // of an exchange
    absl::Duration silence;  // of a neighbour
  };

  MpiEngine(std::unique_ptr<Liveness> liveness, int size, const Limits& limits);
  // Announces to the other ranks that this one takes no part any more, and ends the thread. Must be called before the
  // object is destroyed. Returns whether MPI has nothing more to do: no rank has ended early, and all transfers are
  // complete.
  bool End();

  // Starts a transfer, the next one of this rank. FailedPrecondition: it is running. Unavailable: as Wait().
  absl::Status Start(const std::shared_ptr<Job>& job);
  // Waits until the transfer is complete. Unavailable: a rank has ended or does not answer; all calls return this error
  // from then on.
  absl::Status Wait(const Job& job);
  // Returns the error that all calls return, or OK. With `needs_all`, a rank that has left is an error, too.
  absl::Status Check(bool needs_all);

 private:
  void Run();
  // Waits for work; returns false at the end. Moves what was started to active_.
  bool TakeStarted();
  // Goes on with all transfers. Returns whether one of them was completed.
  bool ProgressAll();
  void Watch();
  absl::Status CheckTransfers() const;
  void Fail(const absl::Status& error);
  void NoteEnded(const EndedRank& ended);

  const std::unique_ptr<Liveness> liveness_;
  const Limits limits_;
  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable progress_;
  std::vector<std::shared_ptr<Job>> started_;  // guarded by mutex_
  absl::Status error_;                         // guarded by mutex_
  absl::Status left_;                          // guarded by mutex_; the first rank that said that it leaves
  bool ends_ = false;                          // guarded by mutex_
  // Used by the thread only:
  std::vector<std::shared_ptr<Job>> active_;
  std::vector<EndedRank> ended_;
  int64_t num_begun_ = 0;
  absl::Time next_watch_ = absl::InfinitePast();
  std::thread thread_;
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_DISTRIBUTED_MPI_MPI_ENGINE_H_
