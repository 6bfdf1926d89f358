// SPDX-License-Identifier: Apache-2.0

// Recurrent layers whose weights stay on the multiprocessor for all time steps.
#ifndef COTAN_KERNELS_CUDA_RECURRENT_PERSISTENT_H_
#define COTAN_KERNELS_CUDA_RECURRENT_PERSISTENT_H_

#include <cstdint>
#include <optional>

#include "base/dtype.h"

namespace cotan::cuda::recurrent {

// How the threads of a block share the weights (kernels/cuda/source/recurrent_persistent.cuh): `lanes` neighbouring
// threads have `units` hidden units. Each thread keeps `vectors` vectors of 16 bytes of weights, converted to the type
// in which is computed, and `registers` of these in registers. Of the others, which are in shared memory, a thread
// reads `early` while it waits for states.
struct Persistent {
  int64_t units = 1, lanes = 1, threads = 32;
  int64_t vectors = 0, registers = 0, early = 0;
  int64_t shared_bytes = 0;  // of dynamic shared memory: the other vectors, and two states of each batch entry
};

// Sizes of the products of a layer.
struct PersistentSizes {
  DType dtype = DType::kFloat32;
  int64_t hidden = 0;
  int64_t depth = 0;      // of the products
  int64_t unit_rows = 1;  // rows of the weights that belong to a unit
  int64_t entries = 1;    // batch entries of a block
};

// Returns the fastest way to keep the weights in a block with at most `shared_bytes` bytes of shared memory; nullopt if
// they do not fit.
std::optional<Persistent> PersistentFor(const PersistentSizes& sizes, int64_t shared_bytes);

}  // namespace cotan::cuda::recurrent

#endif  // COTAN_KERNELS_CUDA_RECURRENT_PERSISTENT_H_
