// SPDX-License-Identifier: Apache-2.0

// The messages of one exchange, over MPI point to point.
//
// A sum is formed by the rank that owns a shard: it receives that shard of every rank, adds them in the order of the
// ranks, and sends the sum to all (all-reduce). MPI_Allreduce would choose the order itself. Each rank sends
// 2 (W - 1) / W of the bucket in 2 (W - 1) messages, as a ring does, but in two rounds in place of 2 (W - 1).
#ifndef COTAN_RUNTIME_DISTRIBUTED_MPI_TRANSFER_H_
#define COTAN_RUNTIME_DISTRIBUTED_MPI_TRANSFER_H_

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "runtime/distributed/exchange.h"

namespace cotan {

// An exchange of the engine's thread: only that thread calls Begin() and Progress(). Before Begin() and after the
// transfer is done, its memory belongs to the thread that started it.
class Transfer {
 public:
  // `communicator` outlives it.
  Transfer(const ExchangeSpec& spec, MPI_Comm communicator, int rank, int size);

  const ExchangeSpec& spec() const { return spec_; }
  // Returns the shard of a rank in the bucket.
  char* shard(int rank) { return bucket_.data() + static_cast<size_t>(rank) * spec_.shard_bytes(); }
  char* bucket() { return bucket_.data(); }

  // Sends and receives the messages of exchange number `number`, counted from 0 and equal on all ranks.
  // Unavailable: MPI fails.
  absl::Status Begin(int64_t number);
  // Goes on as far as messages have come. Returns whether the exchange is complete. Unavailable: MPI fails.
  absl::StatusOr<bool> Progress();

  int64_t number() const { return number_; }
  // Returns when Begin() was called.
  absl::Time since() const { return since_; }
  // Returns the ranks whose messages have not come.
  std::vector<int> Missing();

 private:
  enum class Round : uint8_t { kScatter, kGather, kDone };

  absl::Status SendShards();
  absl::Status SendOwnShard();
  absl::Status Send(const char* from, int to);
  absl::Status Receive(char* to, int from);
  int Tag() const;

  const ExchangeSpec spec_;
  const MPI_Comm communicator_;
  const int rank_, size_;
  std::vector<char> bucket_;
  std::vector<char> received_;         // this rank's shard of each rank; empty for an all-gather
  std::vector<const char*> parts_;     // of the sum, by rank
  std::vector<MPI_Request> requests_;  // receives, then sends
  std::vector<int> senders_;           // ranks of the receives
  Round round_ = Round::kDone;
  int64_t number_ = 0;
  absl::Time since_;
};

// Returns OK for MPI_SUCCESS, else Unavailable with the text of the error.
absl::Status MpiStatus(int error, absl::string_view what);

}  // namespace cotan

#endif  // COTAN_RUNTIME_DISTRIBUTED_MPI_TRANSFER_H_
