// Sizes as the compiler's heuristics see them: how large a tensor will be as a
// rule, also along dynamic dimensions.
#ifndef COTAN_AOT_IR_SIZE_ESTIMATE_H_
#define COTAN_AOT_IR_SIZE_ESTIMATE_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "base/sym_int.h"

namespace cotan::aot {

// A dynamic dimension while a graph of constant sizes is compiled: `traced` is
// its size there, at least 2, `usual` the one to optimize for, at least 1.
struct UsualSize {
  int64_t traced = 0;
  int64_t usual = 0;
};

// While it exists, estimates made on this thread take a multiple of a traced
// size for the same multiple of the usual one: graphs traced at several sizes
// are then optimized alike. Scopes do not nest.
class UsualSizesScope {
 public:
  explicit UsualSizesScope(std::vector<UsualSize> sizes);
  ~UsualSizesScope();
  UsualSizesScope(const UsualSizesScope&) = delete;
  UsualSizesScope& operator=(const UsualSizesScope&) = delete;
};

// Returns the sizes of this thread's UsualSizesScope; an empty list if there is none.
absl::Span<const UsualSize> CurrentUsualSizes();

// Of one dimension; at least 0.
int64_t EstimatedSize(const SymInt& size);

// Elements of a tensor.
int64_t EstimatedCount(absl::Span<const SymInt> sizes);

}  // namespace cotan::aot

#endif  // COTAN_AOT_IR_SIZE_ESTIMATE_H_
