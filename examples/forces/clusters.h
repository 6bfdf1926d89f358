// SPDX-License-Identifier: Apache-2.0

// The data of examples/forces: clusters of atoms with their Lennard-Jones energies and forces.
#ifndef COTAN_EXAMPLES_FORCES_CLUSTERS_H_
#define COTAN_EXAMPLES_FORCES_CLUSTERS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace cotan::forces {

// Clusters of kAtoms atoms in reduced units (of sigma and epsilon), row-major: [count, kAtoms, 3].
struct Clusters {
  std::vector<float> positions;
  std::vector<float> energies;  // [count]
  std::vector<float> forces;    // minus the gradient of the energy

  int64_t count() const { return static_cast<int64_t>(energies.size()); }
};

// Computes sum 4 (r^-12 - r^-6) over all pairs of one cluster, and writes the forces.
double LennardJones(absl::Span<const float> positions, absl::Span<float> forces);

// Returns random clusters: atoms in a box, no two of them closer than 1. Equal seeds give equal clusters.
Clusters DrawClusters(int64_t count, uint64_t seed);

// Returns the root of the mean square of `values`; of the differences, given two lists of equal length.
double RootMeanSquare(absl::Span<const float> values);
double RootMeanSquare(absl::Span<const float> a, absl::Span<const float> b);

}  // namespace cotan::forces

#endif  // COTAN_EXAMPLES_FORCES_CLUSTERS_H_
