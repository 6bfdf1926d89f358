// SPDX-License-Identifier: Apache-2.0

#include "kernels/api/special_functions.h"

#include <cmath>
#include <limits>

namespace cotan {
namespace {

constexpr double kPi = 3.14159265358979323846;

}  // namespace

// Winitzki's approximation, refined by Halley's method.
double ErfInv(double x) {
  if (std::isnan(x) || std::abs(x) > 1) return std::numeric_limits<double>::quiet_NaN();
  if (std::abs(x) == 1) return std::copysign(std::numeric_limits<double>::infinity(), x);
  if (std::abs(x) < 1e-8) return x * std::sqrt(kPi) / 2;  // the series' next term is beyond double
  const double a = 0.147;
  const double log_term = std::log1p(-x * x);
  const double t = 2 / (kPi * a) + log_term / 2;
  double y = std::copysign(std::sqrt(std::sqrt(t * t - log_term / a) - t), x);
  // erfc keeps more digits near +-1, erf near 0.
  for (int step = 0; step < 4; ++step) {
    const double error = std::abs(x) < 0.5 ? std::erf(y) - x : x > 0 ? (1 - x) - std::erfc(y) : std::erfc(-y) - (1 + x);
    const double derivative = 2 / std::sqrt(kPi) * std::exp(-y * y);
    if (derivative == 0) break;
    const double ratio = error / derivative;
    y -= ratio / (1 + y * ratio);
  }
  return y;
}

// Recurrence up to 10, then the asymptotic series; reflection for negative arguments.
double Digamma(double x) {
  if (x == 0) return std::copysign(std::numeric_limits<double>::infinity(), -x);
  double result = 0;
  if (x < 0) {
    if (x == std::trunc(x)) return std::numeric_limits<double>::quiet_NaN();
    double whole = 0;
    const double fraction = std::modf(x, &whole);
    result = -kPi / std::tan(kPi * fraction);
    x = 1 - x;
  }
  while (x < 10) {
    result -= 1 / x;
    x += 1;
  }
  const double z = 1 / (x * x);
  const double series =
      z * (1.0 / 12 - z * (1.0 / 120 - z * (1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760))))));
  return result + std::log(x) - 0.5 / x - series;
}

}  // namespace cotan
