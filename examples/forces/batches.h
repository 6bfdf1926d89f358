// SPDX-License-Identifier: Apache-2.0

// The clusters of the training programs as arguments of compiled methods.
#ifndef COTAN_EXAMPLES_FORCES_BATCHES_H_
#define COTAN_EXAMPLES_FORCES_BATCHES_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "examples/forces/clusters.h"
#include "examples/forces/sizes.h"
#include "runtime/tensor.h"

namespace cotan::forces {

inline constexpr int64_t kTrainClusters = 64 * kBatch;
inline constexpr int64_t kHeldOutClusters = 8 * kBatch;

// The arguments of a step.
struct Batch {
  Tensor positions, energies, forces;
};

inline int64_t NumBatches(const Clusters& clusters) { return clusters.count() / kBatch; }

// Returns batch `index`, in the memory of `clusters`, which must outlive it.
absl::StatusOr<Batch> BatchOf(Clusters& clusters, int64_t index);

}  // namespace cotan::forces

#endif  // COTAN_EXAMPLES_FORCES_BATCHES_H_
