// SPDX-License-Identifier: Apache-2.0

// The group of ranks that train one model together (docs/distributed.md): what a session needs of it. Engines implement
// it in //runtime/distributed, and nothing else depends on them.
#ifndef COTAN_KERNELS_API_COMMUNICATOR_H_
#define COTAN_KERNELS_API_COMMUNICATOR_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/api/device.h"
#include "kernels/api/kernel.h"
#include "serialization/schema/program.pb.h"

namespace cotan {

// One rank's end of a group. It outlives the sessions that use it. The calls of these sessions come from one thread at
// a time, and all ranks make the same ones in the same order: they create sessions of the same programs, and run the
// same methods.
class Communicator {
 public:
  virtual ~Communicator() = default;

  // Returns the number of this rank, in [0, size()).
  virtual int rank() const = 0;
  // Returns the number of ranks, at least 1.
  virtual int size() const = 0;

  // Compares the program, which is to run on `device`, with those of the other ranks, which call this function, too;
  // waits for them. Except for Unimplemented, errors are the same on all ranks.
  // FailedPrecondition: another rank has another program, or the program was compiled for another number of ranks; the
  // message has both.
  // Unavailable: a rank has ended or does not answer; the message names it.
  // Unimplemented: the program has collectives, and the engine does not support them on the device.
  virtual absl::Status CheckProgram(const serialization::Artifact& artifact, const Device& device) = 0;

  // Prepares a kernel for a Collective op, which has not passed CheckOp(). The buffers of the collective are allocated
  // here; runs allocate nothing. Run() returns Unavailable if a rank has ended or does not answer, before it writes an
  // output; on a device that queues work, the call that waits for the device does.
  // InvalidArgument: the op does not allow these operands.
  // Unimplemented: the engine does not support a device or dtype.
  // ResourceExhausted: the host or the device has not enough memory.
  virtual absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelRequest& request) = 0;
};

}  // namespace cotan

#endif  // COTAN_KERNELS_API_COMMUNICATOR_H_
