// SPDX-License-Identifier: Apache-2.0

#include "kernels/testing/random_case.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace cotan::testing {

HostTensor RandomTensor(DType dtype, StridedLayout layout, std::mt19937_64& random, double low, double high) {
  HostTensor tensor(dtype, std::move(layout));
  FillRandom(tensor, random, low, high);
  return tensor;
}

StridedLayout DenseLayout(absl::Span<const int64_t> sizes, absl::Span<const int64_t> dim_order) {
  return {DimVector(sizes.begin(), sizes.end()), DenseStrides(sizes, dim_order), 0};
}

double ErrorInUnits(const HostTensor& actual, absl::Span<const double> expected) {
  const std::vector<double> values = actual.Values();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (values.size() != expected.size()) return kInfinity;
  double largest = 1;
  double difference = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(expected[i])) largest = std::max(largest, std::abs(expected[i]));
    if (values[i] == expected[i] || (std::isnan(values[i]) && std::isnan(expected[i]))) continue;
    const double distance = std::abs(values[i] - expected[i]);
    if (!std::isfinite(distance)) return kInfinity;
    difference = std::max(difference, distance);
  }
  return difference == 0 ? 0 : difference / (Epsilon(actual.dtype()) * largest);
}

bool GapsAreUntouched(const HostTensor& tensor) {
  HostTensor written = tensor;
  HostTensor fresh(tensor.dtype(), tensor.layout());
  const std::vector<double> zeros(static_cast<size_t>(tensor.numel()), 0);
  written.SetValues(zeros);
  fresh.SetValues(zeros);
  return std::equal(written.bytes().begin(), written.bytes().end(), fresh.bytes().begin());
}

}  // namespace cotan::testing
