// Random expression ops whose results are exact, so that every correct kernel
// yields the same bits: each function rounds at most once, and sums and
// products of floats are of small integers.
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

// Dtypes, ranks 0 to 4, empty and broadcast dimensions, strides, reductions and
// outputs at both levels are all drawn from `random`. `max_elements` bounds the
// domain.
RandomExpr MakeRandomExpr(std::mt19937_64& random, int64_t max_elements);

}  // namespace cotan::testing

#endif  // COTAN_KERNELS_TESTING_RANDOM_EXPR_H_
