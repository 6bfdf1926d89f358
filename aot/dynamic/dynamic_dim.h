// SPDX-License-Identifier: Apache-2.0

// Dimensions of a model's inputs whose size may differ from call to call.
#ifndef COTAN_AOT_DYNAMIC_DYNAMIC_DIM_H_
#define COTAN_AOT_DYNAMIC_DYNAMIC_DIM_H_

#include <cstdint>
#include <string>

namespace cotan::aot {

// Maximum of an unbounded dimension.
inline constexpr int64_t kNoMaximum = int64_t{1} << 48;

// A dynamic dimension: dimension `dim` of one input has the size `symbol`. Dimensions of the same
// symbol have equal sizes in every call, within the intersection of their ranges.
struct DynamicDim {
  int argument = 0;  // index among the inputs, those of a loss function (targets) last
  int dim = 0;       // negative: counts from the end
  // A name such as "batch" (a letter, then letters, digits, '_'), or an expression of symbols of
  // other dimensions, with + - * // % and integers: "batch * time".
  std::string symbol;
  // Range of the symbol, inclusive, at least 1. Unused for an expression.
  int64_t min = 1;
  int64_t max = kNoMaximum;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_DYNAMIC_DYNAMIC_DIM_H_
