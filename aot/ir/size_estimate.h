// SPDX-License-Identifier: Apache-2.0

// Sizes that the compiler's cost models assume, also along dynamic dimensions (size hints).
#ifndef COTAN_AOT_IR_SIZE_ESTIMATE_H_
#define COTAN_AOT_IR_SIZE_ESTIMATE_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "base/sym_int.h"

namespace cotan::aot {

// A dynamic dimension of a graph that was traced with constant sizes: `traced` is its size in the
// graph, at least 2; `usual` is the size to optimize for, at least 1.
struct UsualSize {
  int64_t traced = 0;
  int64_t usual = 0;
};

// Makes estimates on this thread, while the object exists, replace a multiple of a traced size by
// the same multiple of the usual size, so that graphs traced at several sizes are optimized alike.
// Scopes do not nest.
class UsualSizesScope {
 public:
  explicit UsualSizesScope(std::vector<UsualSize> sizes);
  ~UsualSizesScope();
  UsualSizesScope(const UsualSizesScope&) = delete;
  UsualSizesScope& operator=(const UsualSizesScope&) = delete;
};

// Returns the sizes of this thread's UsualSizesScope; an empty list if there is none.
absl::Span<const UsualSize> CurrentUsualSizes();

// Returns the estimated size of one dimension; at least 0.
int64_t EstimatedSize(const SymInt& size);

// Returns the estimated number of elements of a tensor.
int64_t EstimatedCount(absl::Span<const SymInt> sizes);

}  // namespace cotan::aot

#endif  // COTAN_AOT_IR_SIZE_ESTIMATE_H_
