// SPDX-License-Identifier: Apache-2.0

// Rows of ops that create tensors: fills, ranges, random draws, and functions of an element's
// index.
#include <cmath>

#include "aot/lowering/ops/lowering.h"
#include "aot/lowering/ops/op_table_rows.h"

namespace cotan::aot {
namespace {

Tensor Filled(Lowering& l, const Tensor& value) { return l.b.Full(value, l.result().dtype, l.result().sizes); }

absl::Status LowerZeros(Lowering& l) { return l.Return(Filled(l, l.b.Literal(SymInt(0)))); }
absl::Status LowerOnes(Lowering& l) { return l.Return(Filled(l, l.b.Literal(SymInt(1)))); }

template <int kArgument>
absl::Status LowerFull(Lowering& l) {
  return l.Return(Filled(l, l.tensor(kArgument)));
}

// start + i * step. An index may be too large for a half that the sum fits in.
Tensor Ramp(Lowering& l, const Tensor& start, const Tensor& step) {
  const DType dtype = l.result().dtype;
  const bool is_half = dtype == DType::kFloat16 || dtype == DType::kBFloat16;
  return l.b.Cast(start + l.b.Iota(0, is_half ? DType::kFloat32 : dtype, l.result().sizes) * step, dtype);
}

absl::Status LowerArange(Lowering& l) { return l.Return(l.b.Iota(0, l.result().dtype, l.result().sizes)); }

absl::Status LowerArangeStart(Lowering& l) { return l.Return(Ramp(l, l.literal(0), l.b.Literal(SymInt(1)))); }

absl::Status LowerArangeStep(Lowering& l) { return l.Return(Ramp(l, l.literal(0), l.literal(2))); }

// (start, end, steps). Integers lie between integer ends, but are computed in f64 and truncated.
absl::Status LowerLinspace(Lowering& l) {
  const SymInt& steps = l.result().sizes[0];
  if (!steps.is_constant()) return l.Unsupported("a dynamic number of steps");
  const bool truncates = IsInteger(l.result().dtype);
  const double start = truncates ? std::trunc(l.number(0)) : l.number(0);
  const double end = truncates ? std::trunc(l.number(1)) : l.number(1);
  if (steps.constant() <= 1) return l.Return(Filled(l, l.b.Literal(start)));
  const double step = (end - start) / static_cast<double>(steps.constant() - 1);
  const Tensor i = l.b.Iota(0, truncates ? DType::kFloat64 : l.result().dtype, l.result().sizes);
  const Tensor from_start = l.b.Literal(start) + i * l.b.Literal(step);
  const Tensor from_end = l.b.Literal(end) - (l.b.Literal(steps - SymInt(1)) - i) * l.b.Literal(step);
  const Tensor first_half = l.b.Lt(i, l.b.Literal(SymInt(steps.constant() / 2)));
  return l.ReturnCast({l.b.Select(first_half, from_start, from_end)});
}

absl::Status LowerEye(Lowering& l) {
  const Tensor row = l.b.Iota(0, DType::kInt64, l.result().sizes);
  const Tensor column = l.b.Iota(1, DType::kInt64, l.result().sizes);
  return l.Return(l.b.Cast(l.b.Eq(row, column), l.result().dtype));
}

// Keeps the elements with column - row <= diagonal (lower) or >= (upper).
absl::Status LowerTriangle(Lowering& l, bool lower) {
  const Tensor x = l.tensor(0);
  const Tensor row = l.b.Iota(x.rank() - 2, DType::kInt32, x.sizes());
  const Tensor column = l.b.Iota(x.rank() - 1, DType::kInt32, x.sizes());
  const Tensor distance = column - row;
  const Tensor keep = lower ? l.b.Le(distance, l.literal(1)) : l.b.Ge(distance, l.literal(1));
  return l.Return(l.b.Select(keep, x, l.b.Literal(SymInt(0))));
}

// (state, sizes, slice)
absl::Status LowerRandomUniform(Lowering& l) { return l.Return(l.b.Random(l.tensor(0), l.size(2), l.result().sizes)); }

constexpr OpRow Row(absl::string_view op, LowerFunction lower) { return {op, OpFamily::kCreation, lower}; }

constexpr OpRow kRows[] = {
    Row("aten.arange.default", LowerArange),
    Row("aten.arange.start", LowerArangeStart),
    Row("aten.arange.start_step", LowerArangeStep),
    Row("aten.empty.memory_format", LowerZeros),
    Row("aten.empty_like.default", LowerZeros),
    Row("aten.empty_permuted.default", LowerZeros),
    Row("aten.empty_strided.default", LowerZeros),
    Row("aten.eye.default", LowerEye),
    Row("aten.eye.m", LowerEye),
    Row("aten.fill.Scalar", LowerFull<1>),
    Row("aten.fill.Tensor", LowerFull<1>),
    Row("aten.full.default", LowerFull<1>),
    Row("aten.full_like.default", LowerFull<1>),
    Row("aten.linspace.default", LowerLinspace),
    Row("aten.new_empty.default", LowerZeros),
    Row("aten.new_empty_strided.default", LowerZeros),
    Row("aten.new_full.default", LowerFull<2>),
    Row("aten.new_ones.default", LowerOnes),
    Row("aten.new_zeros.default", LowerZeros),
    Row("aten.ones.default", LowerOnes),
    Row("aten.ones_like.default", LowerOnes),
    Row("aten.scalar_tensor.default", LowerFull<0>),
    Row("aten.tril.default", [](Lowering& l) { return LowerTriangle(l, true); }),
    Row("aten.triu.default", [](Lowering& l) { return LowerTriangle(l, false); }),
    Row("aten.zero.default", LowerZeros),
    Row("aten.zeros.default", LowerZeros),
    Row("aten.zeros_like.default", LowerZeros),
    Row("cotan.random_uniform.default", LowerRandomUniform),
};

}  // namespace

absl::Span<const OpRow> CreationRows() { return kRows; }

}  // namespace cotan::aot
