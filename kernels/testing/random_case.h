// SPDX-License-Identifier: Apache-2.0

// Helpers of tests with random operands.
#ifndef COTAN_KERNELS_TESTING_RANDOM_CASE_H_
#define COTAN_KERNELS_TESTING_RANDOM_CASE_H_

#include <cstdint>

#include "absl/types/span.h"
#include "kernels/testing/host_tensor.h"

namespace cotan::testing {

// Returns a tensor of uniform values in [low, high).
HostTensor RandomTensor(DType dtype, StridedLayout layout, std::mt19937_64& random, double low = -1, double high = 1);

// Returns a dense layout with the dimensions in the order `dim_order`, outermost first; empty = row-major.
StridedLayout DenseLayout(absl::Span<const int64_t> sizes, absl::Span<const int64_t> dim_order = {});

// Returns max |actual - expected| in units of eps(dtype) * max(1, max |expected|). Infinite if a NaN or
// infinity of one has no equal counterpart in the other.
double ErrorInUnits(const HostTensor& actual, absl::Span<const double> expected);

// Returns true if the bytes between the elements have the values that the constructor set.
bool GapsAreUntouched(const HostTensor& tensor);

}  // namespace cotan::testing

#endif  // COTAN_KERNELS_TESTING_RANDOM_CASE_H_
