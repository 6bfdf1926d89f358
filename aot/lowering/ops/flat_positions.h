// SPDX-License-Identifier: Apache-2.0

// Index arithmetic that rows of the op table share.
#ifndef COTAN_AOT_LOWERING_OPS_FLAT_POSITIONS_H_
#define COTAN_AOT_LOWERING_OPS_FLAT_POSITIONS_H_

#include <cstdint>

#include "aot/ir/builder.h"
#include "aot/lowering/ops/lowering.h"

namespace cotan::aot {

// Returns, for each element of `index` (checked), the row-major position in a tensor of `sizes` of
// the element at index[...] along `dim` and at the same coordinates as in `index` along the other
// dimensions, as in aten::gather. i64, with the sizes of `index`.
Tensor FlatPositions(Lowering& l, const Tensor& index, const SymIntVector& sizes, int64_t dim);

// Returns the dtype in which to compute positions in a dimension of `size` elements: i32 if that surely suffices, as
// twice as many of these as of i64 fit in a vector.
DType PositionDType(const SymInt& size);

// Returns the elements of x that `index` (checked), of as many dimensions as x, names along `dim`.
Tensor GatherAlong(Lowering& l, const Tensor& x, const Tensor& index, int64_t dim);

// Returns, for each element of `index` (checked, in [0, size)), 1 / the number of elements that are equal to it: the
// factor of gradients with scale_grad_by_freq. In `dtype`, with the sizes of `index`.
Tensor ReciprocalCounts(Lowering& l, const Tensor& index, const SymInt& size, DType dtype);

}  // namespace cotan::aot

#endif  // COTAN_AOT_LOWERING_OPS_FLAT_POSITIONS_H_
