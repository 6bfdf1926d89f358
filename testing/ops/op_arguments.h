// SPDX-License-Identifier: Apache-2.0

// Makes example arguments of ops as functions of the dtype that the op is run in. Random values come
// from LibTorch's generator.
#ifndef COTAN_TESTING_OPS_OP_ARGUMENTS_H_
#define COTAN_TESTING_OPS_OP_ARGUMENTS_H_

#include <ATen/core/ivalue.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace cotan::testing {

using Arg = std::function<c10::IValue(at::ScalarType)>;
using Sizes = std::vector<int64_t>;

Arg T(Sizes sizes);                     // uniform in [-1, 1)
Arg Positive(Sizes sizes);              // uniform in [0.1, 0.9)
Arg Transposed(Sizes sizes);            // as T, with the last two dimensions swapped in memory
Arg Regular(Sizes sizes);               // matrices that are easy to invert, if square
Arg PositiveDefinite(Sizes sizes);      // symmetric ones with positive eigenvalues, if square
Arg ChannelsLast(Sizes sizes);          // as T, in NHWC
Arg Index(Sizes sizes, int64_t limit);  // i64 in [0, limit)
Arg Mask(Sizes sizes);                  // bool
Arg Longs(Sizes values);                // i64[n] with these elements
Arg V(c10::IValue value);
Arg Ints(Sizes values);
Arg Bools(std::vector<bool> values);
Arg Num(double value);  // a Scalar
Arg None();
Arg Dtype();                                 // the dtype of the run, as an argument of an op
Arg List(std::vector<Arg> members);          // Tensor[]
Arg OptionalList(std::vector<Arg> members);  // Tensor?[]

}  // namespace cotan::testing

#endif  // COTAN_TESTING_OPS_OP_ARGUMENTS_H_
