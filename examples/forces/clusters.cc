// SPDX-License-Identifier: Apache-2.0

#include "examples/forces/clusters.h"

#include <array>
#include <cmath>

#include "base/philox.h"
#include "examples/forces/sizes.h"

namespace cotan::forces {
namespace {

constexpr float kBox = 2.4f;
constexpr double kClosest = 1.0;
constexpr size_t kNumbers = static_cast<size_t>(kAtoms) * 3;  // of a cluster

// A stream of uniform numbers.
class Uniform {
 public:
  explicit Uniform(uint64_t seed) : seed_(seed) {}

  float Next() {
    const uint64_t index = next_++;
    return UniformFloat(Philox(seed_, index / 4).lane[index % 4]);
  }

 private:
  const uint64_t seed_;
  uint64_t next_ = 0;
};

double SquaredDistance(absl::Span<const float> positions, size_t a, size_t b) {
  double sum = 0;
  for (size_t d = 0; d < 3; ++d) {
    const double difference = static_cast<double>(positions[3 * a + d]) - static_cast<double>(positions[3 * b + d]);
    sum += difference * difference;
  }
  return sum;
}

bool IsSpread(absl::Span<const float> positions) {
  for (size_t a = 0; a < static_cast<size_t>(kAtoms); ++a) {
    for (size_t b = 0; b < a; ++b) {
      if (SquaredDistance(positions, a, b) < kClosest * kClosest) return false;
    }
  }
  return true;
}

}  // namespace

double LennardJones(absl::Span<const float> positions, absl::Span<float> forces) {
  double energy = 0;
  std::array<double, kNumbers> sums = {};
  for (size_t a = 0; a < static_cast<size_t>(kAtoms); ++a) {
    for (size_t b = 0; b < a; ++b) {
      const double r2 = SquaredDistance(positions, a, b);
      const double r6 = 1 / (r2 * r2 * r2);
      energy += 4 * (r6 * r6 - r6);
      const double slope = 24 * (2 * r6 * r6 - r6) / r2;  // -(dE/dr) / r
      for (size_t d = 0; d < 3; ++d) {
        const double force = slope * (positions[3 * a + d] - positions[3 * b + d]);
        sums[3 * a + d] += force;
        sums[3 * b + d] -= force;
      }
    }
  }
  for (size_t i = 0; i < kNumbers; ++i) forces[i] = static_cast<float>(sums[i]);
  return energy;
}

Clusters DrawClusters(int64_t count, uint64_t seed) {
  Uniform random(seed);
  Clusters clusters;
  std::array<float, kNumbers> positions;
  std::array<float, kNumbers> forces;
  while (clusters.count() < count) {
    for (float& coordinate : positions) coordinate = kBox * random.Next();
    if (!IsSpread(positions)) continue;
    clusters.energies.push_back(static_cast<float>(LennardJones(positions, absl::MakeSpan(forces))));
    clusters.positions.insert(clusters.positions.end(), positions.begin(), positions.end());
    clusters.forces.insert(clusters.forces.end(), forces.begin(), forces.end());
  }
  return clusters;
}

double RootMeanSquare(absl::Span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return std::sqrt(sum / static_cast<double>(values.size()));
}

double RootMeanSquare(absl::Span<const float> a, absl::Span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (static_cast<double>(a[i]) - b[i]) * (static_cast<double>(a[i]) - b[i]);
  return std::sqrt(sum / static_cast<double>(a.size()));
}

}  // namespace cotan::forces
