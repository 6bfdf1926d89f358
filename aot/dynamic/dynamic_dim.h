// Dimensions of a model's inputs whose size may differ from call to call.
#ifndef COTAN_AOT_DYNAMIC_DYNAMIC_DIM_H_
#define COTAN_AOT_DYNAMIC_DYNAMIC_DIM_H_

#include <cstdint>
#include <string>

namespace cotan::aot {

// As large as a tensor may be.
inline constexpr int64_t kNoMaximum = int64_t{1} << 48;

// Dimension `dim` of one input has the size `symbol`. Several dimensions of one
// symbol have equal sizes in every call, in the range that all of them allow.
struct DynamicDim {
  int argument = 0;  // index among the inputs, those of a loss function (targets) last
  int dim = 0;       // negative: counts from the end
  // "batch": a letter, then letters, digits, '_'; or an expression of symbols
  // that other dimensions have, with + - * // % and integers: "batch * time".
  std::string symbol;
  // Of the symbol, inclusive, at least 1. Not of an expression.
  int64_t min = 1;
  int64_t max = kNoMaximum;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_DYNAMIC_DYNAMIC_DIM_H_
