// SPDX-License-Identifier: Apache-2.0

// Finds out which rank has ended. MPI itself does not say: a receive from a process that was killed waits forever.
//
// The ranks form a ring of TCP connections. The system closes those of a process that ends, however it ends; the two
// neighbours notice and pass the news on in both directions. A neighbour that is silent for too long, because its
// machine or its network is gone, counts as ended, too.
#ifndef COTAN_RUNTIME_DISTRIBUTED_MPI_LIVENESS_H_
#define COTAN_RUNTIME_DISTRIBUTED_MPI_LIVENESS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace cotan {

// Address to which the neighbour of a rank connects. Sent as bytes.
struct RankAddress {
  std::array<char, 256> host = {};  // name or IPv4 address, zero-terminated
  int32_t port = 0;
};

// A rank that takes no part any more.
struct EndedRank {
  enum class Reason : int32_t {
    kLeft = 1,    // it said so: after `exchanges` exchanges
    kEnded = 2,   // its connection was closed
    kSilent = 3,  // it did not answer
  };
  int rank = 0;
  Reason reason = Reason::kEnded;
  int64_t exchanges = 0;
};

// One rank's two connections. Not thread-safe.
class Liveness {
 public:
  // Listens for the previous rank: on all interfaces, or on loopback only. `host` is the name of this machine.
  // Unavailable: the system has no sockets.
  static absl::StatusOr<std::unique_ptr<Liveness>> Listen(int rank, int size, const std::string& host,
                                                          bool only_loopback);
  ~Liveness();
  Liveness(const Liveness&) = delete;
  Liveness& operator=(const Liveness&) = delete;

  const RankAddress& address() const { return address_; }

  // Connects to the next rank and waits for the previous one. `ranks` has the addresses of all. `token` is a number
  // that only the ranks know, the same on all. Unavailable: a neighbour cannot be reached, or does not come before
  // `timeout`.
  absl::Status Connect(absl::Span<const RankAddress> ranks, uint64_t token, absl::Duration timeout);

  // Reads what the neighbours said, passes it on, and announces that this rank is alive. Calls `ended` once for each
  // rank that has ended since the last call. A neighbour that says nothing for `silence` counts as ended. Does not
  // wait.
  void Poll(absl::Duration silence, absl::FunctionRef<void(const EndedRank&)> ended);

  // Announces that this rank takes no part after `exchanges` exchanges.
  void Leave(int64_t exchanges);

 private:
  // A message between neighbours.
  struct Message {
    int32_t reason = 0;  // EndedRank::Reason; 0: the sender is alive
    int32_t rank = 0;
    int64_t exchanges = 0;
  };
  struct Neighbour {
    int rank = -1;
    int socket = -1;
    absl::Time heard = absl::InfinitePast();
    std::array<char, sizeof(Message)> received = {};
    size_t num_received = 0;
  };

  Liveness(int rank, int size) : rank_(rank), size_(size), has_ended_(static_cast<size_t>(size)) {}
  absl::Status ConnectToNext(const RankAddress& next, uint64_t token);
  absl::Status AcceptPrevious(uint64_t token, absl::Time deadline);
  void Read(Neighbour& neighbour, absl::FunctionRef<void(const EndedRank&)> ended);
  void Note(const EndedRank& end, absl::FunctionRef<void(const EndedRank&)> ended);
  void Send(const Message& message);
  static void Close(Neighbour& neighbour);

  const int rank_, size_;
  RankAddress address_;
  int listening_ = -1;
  Neighbour next_, previous_;
  std::vector<bool> has_ended_;
  absl::Time last_alive_ = absl::InfinitePast();
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_DISTRIBUTED_MPI_LIVENESS_H_
