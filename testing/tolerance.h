// SPDX-License-Identifier: Apache-2.0

// Defines the tolerances of all tests: the largest error of a result relative to its reference.
//
// The error of a tensor is max|actual - expected| in units of
// eps(dtype) * max|expected| (of 1e-6 at least), so that a bound is a small
// number that does not depend on the dtype or on the size of the values.
#ifndef COTAN_TESTING_TOLERANCE_H_
#define COTAN_TESTING_TOLERANCE_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "absl/types/span.h"

namespace cotan::testing {

// Bounds in those units. Bounds of sums allow for another order of addition and for fused
// multiply-adds, at the sizes that the tests use.
inline constexpr double kExact = 0;            // copies, gathers, comparisons, integers
inline constexpr double kRounding = 2;         // f16 and bf16 results of sums in f32
inline constexpr double kPointwise = 4;        // arithmetic, a few roundings
inline constexpr double kTranscendental = 16;  // exp, log, tanh, erf, ... and chains of them
inline constexpr double kReduction = 32;       // sums, means, variances, softmax
inline constexpr double kMatmul = 64;          // matmul, convolution, attention, and their gradients
// Whole models: one step, and the drift after some tens of steps.
inline constexpr double kModelLoss = 64;
inline constexpr double kModelGradient = 4096;
inline constexpr double kModelState = 1024;
inline constexpr double kModelDrift = 65536;
// Under autocast to bf16, whose eps is 1/128, relative to the loss and to the
// norm of all gradients.
inline constexpr double kAutocast = 1.0 / 128;
inline constexpr double kAutocastGradient = 8.0 / 128;

// Bound of a gradient in f64 against central differences with a step of 1e-5, relative to the
// largest difference (at least 1). It covers the error of the differences and the rounding of the
// results divided by the step.
inline constexpr double kFiniteDifference = 1e-7;

// Returns the error of `actual`, which has as many elements as `expected`, in the units above;
// max|expected| counts as `floor` if it is smaller. Returns infinity if a NaN or infinity is not
// matched by the same one. T is float or double.
template <typename T>
double ErrorInEps(absl::Span<const T> actual, absl::Span<const T> expected, double floor = 0) {
  if (actual.size() != expected.size()) return std::numeric_limits<double>::infinity();
  double largest = 0, difference = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double a = actual[i], e = expected[i];
    if (a == e || (std::isnan(a) && std::isnan(e))) {
      if (std::isfinite(e)) largest = std::max(largest, std::abs(e));
      continue;
    }
    if (!std::isfinite(a) || !std::isfinite(e)) return std::numeric_limits<double>::infinity();
    largest = std::max(largest, std::abs(e));
    difference = std::max(difference, std::abs(a - e));
  }
  const double eps = std::numeric_limits<T>::epsilon();
  return difference / (eps * std::max({largest, floor, 1e-6}));
}

}  // namespace cotan::testing

#endif  // COTAN_TESTING_TOLERANCE_H_
