// Dimensions of a model's inputs whose size may differ from call to call.
#ifndef COTAN_AOT_DYNAMIC_DYNAMIC_DIM_H_
#define COTAN_AOT_DYNAMIC_DYNAMIC_DIM_H_

#include <cstdint>
#include <limits>
#include <string>

namespace cotan::aot {

inline constexpr int64_t kNoMaximum = std::numeric_limits<int64_t>::max();

// Dimension `dim` of one input has the size `symbol`. Several dimensions of one
// symbol have equal sizes in every call, in the range that all of them allow.
struct DynamicDim {
  int argument = 0;    // index among the inputs, those of a loss function (targets) last
  int dim = 0;         // negative: counts from the end
  std::string symbol;  // "batch": a letter, then letters, digits, '_'
  int64_t min = 1;     // inclusive, at least 1
  int64_t max = kNoMaximum;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_DYNAMIC_DYNAMIC_DIM_H_
