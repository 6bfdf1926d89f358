// SPDX-License-Identifier: Apache-2.0

#include "examples/forces/clusters.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "examples/forces/sizes.h"

namespace cotan::forces {
namespace {

constexpr size_t kNumbers = static_cast<size_t>(kAtoms) * 3;

TEST(ClustersTest, ForcesAreMinusTheSlopesOfTheEnergy) {
  const Clusters clusters = DrawClusters(3, 7);
  std::vector<float> ignored(kNumbers);
  for (size_t i = 0; i < clusters.forces.size(); ++i) {
    const size_t first = i / kNumbers * kNumbers;
    std::vector<float> moved(clusters.positions.begin() + static_cast<std::ptrdiff_t>(first),
                             clusters.positions.begin() + static_cast<std::ptrdiff_t>(first + kNumbers));
    const float at = moved[i - first];
    moved[i - first] = at + 0.0009765625f;
    const double above = LennardJones(moved, absl::MakeSpan(ignored));
    moved[i - first] = at - 0.0009765625f;
    const double below = LennardJones(moved, absl::MakeSpan(ignored));
    EXPECT_NEAR(clusters.forces[i], -(above - below) / 0.001953125, 2e-2) << i;
  }
}

TEST(ClustersTest, TwoAtomsAttractEachOtherAndRepelWhenClose) {
  // The other atoms are too far away to matter.
  const auto force = [](float distance) {
    std::vector<float> positions(kNumbers, 0), forces(kNumbers);
    for (size_t a = 0; a < static_cast<size_t>(kAtoms); ++a) positions[3 * a] = 1000.0f * static_cast<float>(a);
    positions[3] = distance;
    LennardJones(positions, absl::MakeSpan(forces));
    return forces[3];
  };
  EXPECT_LT(force(1.5f), 0);
  EXPECT_GT(force(1.0f), 0);
  EXPECT_NEAR(force(std::pow(2.0f, 1.0f / 6)), 0, 1e-4);
}

TEST(ClustersTest, DependOnTheSeedAlone) {
  EXPECT_EQ(DrawClusters(4, 1).positions, DrawClusters(4, 1).positions);
  EXPECT_NE(DrawClusters(4, 1).positions, DrawClusters(4, 2).positions);
  EXPECT_EQ(DrawClusters(4, 1).count(), 4);
}

TEST(ClustersTest, RootMeanSquares) {
  EXPECT_DOUBLE_EQ(RootMeanSquare({3, 4, 0, 0}), 2.5);
  EXPECT_DOUBLE_EQ(RootMeanSquare({3, 4}, {0, 0}), std::sqrt(12.5));
}

}  // namespace
}  // namespace cotan::forces
