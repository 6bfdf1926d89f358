// SPDX-License-Identifier: Apache-2.0

#include "examples/forces/batches.h"

#include <cstddef>
#include <vector>

#include "absl/types/span.h"
#include "base/status_macros.h"

namespace cotan::forces {

absl::StatusOr<Batch> BatchOf(Clusters& clusters, int64_t index) {
  const auto part = [&](std::vector<float>& values, int64_t numbers) {
    const auto count = static_cast<size_t>(kBatch * numbers);
    return absl::MakeSpan(values).subspan(static_cast<size_t>(index) * count, count);
  };
  Batch batch;
  COTAN_ASSIGN_OR_RETURN(batch.positions, Tensor::Borrow(part(clusters.positions, kAtoms * 3), {kBatch, kAtoms, 3}));
  COTAN_ASSIGN_OR_RETURN(batch.energies, Tensor::Borrow(part(clusters.energies, 1), {kBatch}));
  COTAN_ASSIGN_OR_RETURN(batch.forces, Tensor::Borrow(part(clusters.forces, kAtoms * 3), {kBatch, kAtoms, 3}));
  return batch;
}

}  // namespace cotan::forces
