// At which sizes a model with dynamic dimensions is compiled.
#ifndef COTAN_AOT_DYNAMIC_SAMPLE_POINTS_H_
#define COTAN_AOT_DYNAMIC_SAMPLE_POINTS_H_

#include <vector>

#include "absl/container/btree_set.h"
#include "absl/status/statusor.h"
#include "aot/dynamic/dynamic_shapes.h"
#include "base/layout.h"

namespace cotan::aot {

// Values of the symbols at three points, four if there are several symbols, if
// their ranges allow: small, unlike each other and unlike every fixed size, odd
// and even, and so that no symbol is a multiple of another plus a constant.
// Sizes that divide one of `fixed`, sizes of the model itself, are avoided:
// multiples of theirs pass for dynamic. `attempt` 0, 1, ... yields other
// points. A symbol with fewer than three values has them repeated.
// InvalidArgument: a symbol has one value only: it is not dynamic.
absl::StatusOr<std::vector<DimVector>> ChooseSamplePoints(const DynamicShapes& shapes, int attempt,
                                                          const absl::btree_set<int64_t>& fixed = {});

// Further points at which programs must be the same: the ends of the ranges and
// one of round sizes. Sizes beyond 128 and four times the example's are left out,
// and so are 1 and arguments beyond four million elements and four times the
// example's.
std::vector<DimVector> ChooseEndPoints(const DynamicShapes& shapes);

}  // namespace cotan::aot

#endif  // COTAN_AOT_DYNAMIC_SAMPLE_POINTS_H_
