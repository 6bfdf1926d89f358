// SPDX-License-Identifier: Apache-2.0

#include "examples/forces/adam.h"

#include <cmath>
#include <cstddef>

namespace cotan::forces {
namespace {

constexpr double kDecayOfMean = 0.9, kDecayOfSquare = 0.999;
constexpr double kEpsilon = 1e-8;

}  // namespace

void Adam::Step(absl::Span<float> values, absl::Span<const float> gradient) {
  means_.resize(values.size());
  squares_.resize(values.size());
  ++steps_;
  const double mean_of_ones = 1 - std::pow(kDecayOfMean, static_cast<double>(steps_));
  const double square_of_ones = 1 - std::pow(kDecayOfSquare, static_cast<double>(steps_));
  for (size_t i = 0; i < values.size(); ++i) {
    const double g = gradient[i];
    const double mean = kDecayOfMean * means_[i] + (1 - kDecayOfMean) * g;
    const double square = kDecayOfSquare * squares_[i] + (1 - kDecayOfSquare) * g * g;
    means_[i] = static_cast<float>(mean);
    squares_[i] = static_cast<float>(square);
    const double step = mean / mean_of_ones / (std::sqrt(square / square_of_ones) + kEpsilon);
    values[i] = static_cast<float>(values[i] - learning_rate_ * step);
  }
}

}  // namespace cotan::forces
