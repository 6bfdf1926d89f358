// SPDX-License-Identifier: Apache-2.0

// Random expression ops for which every correct kernel returns the same bits: each function rounds at most
// once, and sums and products of floats have small integers as operands.
#ifndef COTAN_KERNELS_TESTING_RANDOM_EXPR_H_
#define COTAN_KERNELS_TESTING_RANDOM_EXPR_H_

#include <memory>
#include <random>
#include <vector>

#include "kernels/testing/host_tensor.h"
#include "serialization/schema/program.pb.h"

namespace cotan::testing {

struct RandomExpr {
  serialization::Op op;
  std::vector<std::unique_ptr<HostTensor>> inputs;  // filled
  std::vector<StridedLayout> output_layouts;
  std::vector<DType> output_dtypes;
};

// Returns a random expression with its operands. Dtypes, ranks (0 to 4), empty and broadcast dimensions,
// strides, reductions and outputs at both levels are drawn from `random`. The domain has at most
// `max_elements` elements.
RandomExpr MakeRandomExpr(std::mt19937_64& random, int64_t max_elements);

}  // namespace cotan::testing

#endif  // COTAN_KERNELS_TESTING_RANDOM_EXPR_H_
