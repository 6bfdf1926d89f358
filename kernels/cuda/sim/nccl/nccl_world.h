// SPDX-License-Identifier: Apache-2.0

// The messages of simulated ranks. An internal of SimNccl.
#ifndef COTAN_KERNELS_CUDA_SIM_NCCL_NCCL_WORLD_H_
#define COTAN_KERNELS_CUDA_SIM_NCCL_NCCL_WORLD_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace cotan::cuda::sim {

// A message and the call that sends it, or expects it.
struct NcclMessage {
  int64_t call = 0;         // number of the transfer of the communicator
  std::string description;  // "send", or "all-gather", with type and count: the same for sender and receiver
  std::vector<std::byte> bytes = {};
};

// The ranks that one identifier names.
struct NcclGroup {
  int size = 0;
  std::set<int> ranks;                                              // that have joined
  std::set<const void*> owners;                                     // libraries that have joined
  std::map<std::pair<int, int>, std::deque<NcclMessage>> messages;  // by sender and receiver
};

// Thread-safe.
class NcclWorld {
 public:
  // Returns a new identifier.
  std::string NewId();

  // Joins a group. InvalidArgument: the rank, its library or the size do not fit those that have joined.
  absl::StatusOr<std::shared_ptr<NcclGroup>> Join(const std::string& id, int size, int rank, const void* owner);
  // Returns whether all ranks have joined.
  bool HasAll(const NcclGroup& group);
  // Waits until they have. DeadlineExceeded: others did not come.
  absl::Status WaitForAll(const NcclGroup& group);

  void Send(NcclGroup& group, int from, int to, NcclMessage message);

  // Waits for the next message and takes its bytes. Aborted: `aborted` was set by Abort(). FailedPrecondition: the
  // sender's call is another one than that of `expected`.
  absl::StatusOr<std::vector<std::byte>> Receive(NcclGroup& group, int from, int to, const NcclMessage& expected,
                                                 const bool& aborted);

  // Sets `aborted` and ends the waits that look at it.
  void Abort(bool& aborted);
  bool IsSet(const bool& aborted);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int num_ids_ = 0;
  std::map<std::string, std::shared_ptr<NcclGroup>> groups_;
};

}  // namespace cotan::cuda::sim

#endif  // COTAN_KERNELS_CUDA_SIM_NCCL_NCCL_WORLD_H_
