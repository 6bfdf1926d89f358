// Index arithmetic that rows of the op table share.
#ifndef COTAN_AOT_LOWERING_OPS_FLAT_POSITIONS_H_
#define COTAN_AOT_LOWERING_OPS_FLAT_POSITIONS_H_

#include <cstdint>

#include "aot/ir/builder.h"
#include "aot/lowering/ops/lowering.h"

namespace cotan::aot {

// For each element of `index` (checked), the row-major position in a tensor of `sizes`
// of the element that has index[...] along `dim` and the element's own place
// along the others. i64, of the index's sizes.
Tensor FlatPositions(Lowering& l, const Tensor& index, const SymIntVector& sizes, int64_t dim);

}  // namespace cotan::aot

#endif  // COTAN_AOT_LOWERING_OPS_FLAT_POSITIONS_H_
