// SPDX-License-Identifier: Apache-2.0

#include "aot/lowering/ops/flat_positions.h"

#include <cstdint>
#include <limits>

namespace cotan::aot {

Tensor FlatPositions(Lowering& l, const Tensor& index, const SymIntVector& sizes, int64_t dim) {
  SymInt stride = 1;
  Tensor position;
  for (int64_t d = static_cast<int64_t>(sizes.size()) - 1; d >= 0; --d) {
    const SymInt& size = sizes[static_cast<size_t>(d)];
    Tensor along =
        d == dim ? l.b.Cast(index, DType::kInt64) : l.b.Iota(static_cast<int>(d), DType::kInt64, index.sizes());
    along = along * l.b.Literal(stride);
    position = position.defined() ? position + along : along;
    stride = stride * size;
  }
  return position;
}

DType PositionDType(const SymInt& size) {
  const bool is_short = size.is_constant() && size.constant() <= std::numeric_limits<int32_t>::max();
  return is_short ? DType::kInt32 : DType::kInt64;
}

Tensor GatherAlong(Lowering& l, const Tensor& x, const Tensor& index, int64_t dim) {
  return l.b.Gather(l.b.View(x, {NumElementsOf(x.sizes())}), FlatPositions(l, index, x.sizes(), dim), 0);
}

Tensor ReciprocalCounts(Lowering& l, const Tensor& index, const SymInt& size, DType dtype) {
  const Tensor flat = l.b.View(index, {NumElementsOf(index.sizes())});
  const Tensor ones = l.b.Full(l.b.Literal(SymInt(1)), DType::kInt64, flat.sizes());
  const Tensor counts = l.b.ScatterAdd(ones, flat, Tensor(), 0, -1, {size});
  const Tensor of_each = l.b.Gather(counts, flat, 0);
  return l.b.View(l.b.Unary(serialization::FN_RECIPROCAL, l.b.Cast(of_each, dtype)), index.sizes());
}

}  // namespace cotan::aot
