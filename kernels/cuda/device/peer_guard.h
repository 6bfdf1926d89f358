// SPDX-License-Identifier: Apache-2.0

// A guard of work that waits for other devices.
#ifndef COTAN_KERNELS_CUDA_DEVICE_PEER_GUARD_H_
#define COTAN_KERNELS_CUDA_DEVICE_PEER_GUARD_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace cotan::cuda {

// The peers of a device: those with which its collectives exchange data. If one of them ends, queued work would wait
// for it without end; the guard then cuts that work off, and no call gets its results.
class PeerGuard {
 public:
  virtual ~PeerGuard() = default;

  // Call `call`, which queues work that waits for peers, or waits for queued work, unless a peer has ended. Return its
  // error. Unavailable: a peer has ended, or did so meanwhile; the message names it. All later calls return this error,
  // too.
  virtual absl::Status Queue(absl::FunctionRef<absl::Status()> call) = 0;
  virtual absl::Status Wait(absl::FunctionRef<absl::Status()> call) = 0;
  // Calls `call`, which may wait for some of the queued work and returns nothing that it computes. Also after a peer
  // has ended: queued work then ends without it.
  virtual void Block(absl::FunctionRef<void()> call) = 0;
  // Returns the number of calls of Queue(): recorded work waits for peers if it changes meanwhile.
  virtual int64_t num_queued() const = 0;
};

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_DEVICE_PEER_GUARD_H_
