// Parts of tests on random operands.
#ifndef COTAN_KERNELS_TESTING_RANDOM_CASE_H_
#define COTAN_KERNELS_TESTING_RANDOM_CASE_H_

#include <cstdint>

#include "absl/types/span.h"
#include "kernels/testing/host_tensor.h"

namespace cotan::testing {

// A tensor of uniform values in [low, high).
HostTensor RandomTensor(DType dtype, StridedLayout layout, std::mt19937_64& random, double low = -1, double high = 1);

// Dense in `dim_order`; empty = row-major.
StridedLayout DenseLayout(absl::Span<const int64_t> sizes, absl::Span<const int64_t> dim_order = {});

// max |actual - expected| in units of eps(dtype) * max(1, max |expected|).
// Infinite if a NaN or infinity is not matched by the same one.
double ErrorInUnits(const HostTensor& actual, absl::Span<const double> expected);

// Whether what lies between the elements is as the constructor left it.
bool GapsAreUntouched(const HostTensor& tensor);

}  // namespace cotan::testing

#endif  // COTAN_KERNELS_TESTING_RANDOM_CASE_H_
