// SPDX-License-Identifier: Apache-2.0

// A guard of work that waits for other devices.
#ifndef COTAN_KERNELS_CUDA_DEVICE_PEER_GUARD_H_
#define COTAN_KERNELS_CUDA_DEVICE_PEER_GUARD_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace cotan::cuda {

// The peers of a device: those with which its collectives exchange data. If one of them ends, queued work would wait
// for it without end; the guard then cuts that work off, and no call gets its results.
class PeerGuard {
 public:
  virtual ~PeerGuard() = default;

  // Call `call`, which queues work, or waits for it, unless a peer has ended. Return its error.
  // Unavailable: a peer has ended, or did so meanwhile; the message names it. All later calls return this error, too.
  virtual absl::Status Queue(absl::FunctionRef<absl::Status()> call) = 0;
  virtual absl::Status Wait(absl::FunctionRef<absl::Status()> call) = 0;
};

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_DEVICE_PEER_GUARD_H_
