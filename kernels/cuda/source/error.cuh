// SPDX-License-Identifier: Apache-2.0

// Errors that data cause. A kernel records the first one and goes on with a valid value; kernels that write states and
// arguments check the record first; the host reads it at the next synchronizing call.
#pragma once

#include "cotan/launch.cuh"

namespace cotan {

// In device memory; zeros at first. `op` is the fault id of the op that failed, 0 for none.
struct ErrorRecord {
  unsigned op;
  unsigned lock;
  long long position;  // row-major index of the offending element, the lowest one of the op
  long long value;
};

// Records the error of operation `op` at `position`. The first op wins; within it, the lowest position.
__device__ inline void RecordError(ErrorRecord* record, unsigned op, long long position, long long value) {
  // One lane at a time takes the lock.
  const unsigned lanes = __activemask();
  for (unsigned lane = 0; lane < 32; ++lane) {
    if ((lanes >> lane & 1u) != 0 &&
        lane == (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32) {
      while (atomicCAS(&record->lock, 0u, 1u) != 0) {
      }
      __threadfence();
      volatile ErrorRecord* shared = record;
      const unsigned first = shared->op;
      if (first == 0 || (first == op && position < shared->position)) {
        shared->position = position;
        shared->value = value;
        __threadfence();
        shared->op = op;
      }
      __threadfence();
      atomicExch(&record->lock, 0u);
    }
  }
}

}  // namespace cotan

// Ends a kernel with guarded outputs if an earlier op failed; follows WaitForEarlierWork().
#define COTAN_RETURN_ON_ERROR(record) \
  if ((record)->op != 0) return
