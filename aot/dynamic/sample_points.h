// SPDX-License-Identifier: Apache-2.0

// Trace points: the sizes at which a model with dynamic dimensions is compiled.
#ifndef COTAN_AOT_DYNAMIC_SAMPLE_POINTS_H_
#define COTAN_AOT_DYNAMIC_SAMPLE_POINTS_H_

#include <vector>

#include "absl/container/btree_set.h"
#include "absl/status/statusor.h"
#include "aot/dynamic/dynamic_shapes.h"
#include "base/layout.h"

namespace cotan::aot {

// Returns the values of the symbols at three points, or four for several symbols. If the ranges
// allow it, values are small, distinct, different from every fixed size, odd and even, and no
// symbol is a multiple of another plus a constant. Avoids sizes that divide one of `fixed`, the
// fixed sizes of the model, since a fixed size that is a multiple of a dynamic one would be taken
// for dynamic. `attempt` 0, 1, ... yields other points. Values of a symbol with fewer than three
// values repeat.
// InvalidArgument: a symbol has only one value.
absl::StatusOr<std::vector<DimVector>> ChooseSamplePoints(const DynamicShapes& shapes, int attempt,
                                                          const absl::btree_set<int64_t>& fixed = {});

// Returns further points at which programs must be the same: the ends of the ranges, and one point
// of round sizes. Sizes are limited to the larger of 128 and four times the example's, and
// arguments to the larger of four million elements and four times the example's; size 1 is
// excluded.
std::vector<DimVector> ChooseEndPoints(const DynamicShapes& shapes);

}  // namespace cotan::aot

#endif  // COTAN_AOT_DYNAMIC_SAMPLE_POINTS_H_
