// SPDX-License-Identifier: Apache-2.0

// Rules of conversions, views, sums over dimensions, and fills.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "aot/lowering/complex/complex_rules.h"

namespace cotan::aot {
namespace {

bool Same(ComplexNode& n) { return n.ReturnPair(n.Pair(0)); }

// Converts a complex operand to a real dtype: its real part, or for bool, true where it is not
// zero.
ValueId AsReal(ComplexNode& n, size_t i, DType dtype) {
  if (dtype == DType::kBool) return n.math.IsNotZero({n.Part(i, 0), n.Part(i, 1)});
  return n.math.Convert(n.Part(i, 0), dtype);
}

// Returns operand `i` with the result's dtype and sizes.
bool ReturnConverted(ComplexNode& n, size_t i) {
  const TensorType result = n.ResultType();
  if (!IsComplex(result.dtype)) {
    const ValueId real = AsReal(n, i, result.dtype);
    if (n.TypeOf(real).sizes == result.sizes) return n.ReturnReal(real);
    const std::vector<SymInt> sizes(result.sizes.begin(), result.sizes.end());
    return n.ReturnReal(n.math.Emit("aten.expand.default", {Use{real}, sizes, false}, result));
  }
  if (n.IsComplexOperand(i) && n.TypeOf(n.Operand(i)) == result) {
    return n.ReturnPair(n.Pair(i));
  }
  return n.Return(n.Operands(i));
}

int64_t WrapDim(const Argument& dim, int64_t rank) {
  const int64_t value = std::get<SymInt>(dim).constant();
  return value < 0 ? value + rank : value;
}

bool SumOver(ComplexNode& n, const std::vector<SymInt>& dims, bool keep) {
  return n.ReturnPair(n.math.Emit("aten.sum.dim_IntList", {Use{n.Pair(0)}, dims, keep, None{}}, n.PairType()));
}

bool ToReal(ComplexNode& n) { return n.ReturnReal(n.Pair(0)); }
bool FromReal(ComplexNode& n) { return n.ReturnPair(n.Operand(0)); }

// Views complex numbers as their parts, which are adjacent in memory, or the reverse.
bool ViewAsType(ComplexNode& n) {
  const TensorType result = n.ResultType();
  if (IsComplex(result.dtype) && n.IsComplexOperand(0)) return result.dtype == n.TypeOf(n.Operand(0)).dtype && Same(n);
  const bool joins = IsComplex(result.dtype);
  const TensorType type = joins ? n.PairType() : result;
  const ValueId parts = joins ? n.Operand(0) : n.Pair(0);
  if (n.TypeOf(parts).dtype != type.dtype) return false;
  const std::vector<SymInt> sizes(type.sizes.begin(), type.sizes.end());
  const ValueId viewed = n.math.Emit("aten.view.default", {Use{parts}, sizes}, type);
  return joins ? n.ReturnPair(viewed) : n.ReturnReal(viewed);
}

bool Negate(ComplexNode& n) { return n.ReturnSame(n.node()); }
bool Zeros(ComplexNode& n) { return n.ReturnPair(n.math.Full(0, n.PairType())); }
bool Join(ComplexNode& n) { return n.Return(n.Operand(0), n.Operand(1)); }

bool Conjugate(ComplexNode& n) {
  const ValueId imaginary = n.Part(0, 1);
  const ValueId negative = n.math.Emit("aten.neg.default", {Use{imaginary}}, n.TypeOf(imaginary));
  const ValueId real = n.Part(0, 0);
  return n.Return(real, negative);
}

// (self, src)
bool CopySource(ComplexNode& n) { return ReturnConverted(n, 1); }
bool Convert(ComplexNode& n) { return ReturnConverted(n, 0); }

// (self or sizes, value)
bool Fill(ComplexNode& n) { return n.Return(n.Operands(1)); }
bool FillFirst(ComplexNode& n) { return n.Return(n.Operands(0)); }

// (self, sizes, value)
bool FillNew(ComplexNode& n) { return n.Return(n.Operands(2)); }

bool Ones(ComplexNode& n) {
  const TensorType type = n.PartType();
  return n.Return(n.math.Full(1, type), n.math.Full(0, type));
}

bool Eye(ComplexNode& n) {
  const TensorType type = n.PartType();
  std::vector<Argument> arguments = n.node().arguments;
  for (Argument& argument : arguments) {
    if (std::holds_alternative<DType>(argument)) argument = type.dtype;
  }
  return n.Return(n.math.Emit(n.node().op, std::move(arguments), type), n.math.Full(0, type));
}

// Views whose sizes are given.
bool Resize(ComplexNode& n) {
  const TensorType type = n.PairType();
  std::vector<Argument> arguments = n.node().arguments;
  arguments[0] = Use{n.Pair(0)};
  arguments[1] = std::vector<SymInt>(type.sizes.begin(), type.sizes.end());
  return n.ReturnPair(n.math.Emit(n.node().op, std::move(arguments), type));
}

bool AsSized(ComplexNode& n) {
  const TensorType type = n.PairType();
  const std::vector<SymInt> sizes(type.sizes.begin(), type.sizes.end());
  return n.ReturnPair(n.math.Emit("aten.view.default", {Use{n.Pair(0)}, sizes}, type));
}

bool Permute(ComplexNode& n) {
  Node on_pair = n.node();
  auto& dims = std::get<std::vector<SymInt>>(on_pair.arguments[1]);
  const int64_t rank = n.Rank(0);
  for (SymInt& dim : dims) dim = WrapDim(dim, rank);
  dims.push_back(rank);
  return n.ReturnSame(std::move(on_pair));
}

bool Turn(ComplexNode& n) {
  const int64_t rank = n.Rank(0);
  if (rank == 0) return Same(n);
  const bool is_t = n.node().op == "aten.t.default";
  if (is_t && rank == 1) return Same(n);
  const int64_t first = is_t ? 0 : WrapDim(n.node().arguments[1], rank);
  const int64_t second = is_t ? 1 : WrapDim(n.node().arguments[2], rank);
  return n.ReturnPair(n.math.Emit("aten.transpose.int", {Use{n.Pair(0)}, SymInt(first), SymInt(second)}, n.PairType()));
}

// (self, dim, ...)
bool AlongDim(ComplexNode& n) {
  Node on_pair = n.node();
  on_pair.arguments[1] = SymInt(WrapDim(n.node().arguments[1], n.Rank(0)));
  return n.ReturnSame(std::move(on_pair));
}

// Returns the sum over all dimensions of operand 0.
bool SumOverAll(ComplexNode& n, bool keep) {
  std::vector<SymInt> dims;
  for (int64_t d = 0; d < n.Rank(0); ++d) dims.push_back(d);
  // The only dimension of the pair is that of the parts if the operand has none.
  return dims.empty() ? ReturnConverted(n, 0) : SumOver(n, dims, keep);
}

bool SumAll(ComplexNode& n) { return n.IsComplexOperand(0) && SumOverAll(n, false); }

// (self, dims, keepdim, dtype): no dimensions are all of them.
bool SumDims(ComplexNode& n) {
  if (!n.IsComplexOperand(0)) return false;
  const bool keep = std::get<bool>(n.node().arguments[2]);
  const auto* dims = std::get_if<std::vector<SymInt>>(&n.node().arguments[1]);
  if (dims == nullptr || dims->empty() || n.Rank(0) == 0) return SumOverAll(n, keep);
  std::vector<SymInt> wrapped;
  for (const SymInt& dim : *dims) wrapped.push_back(WrapDim(dim, n.Rank(0)));
  return SumOver(n, wrapped, keep);
}

}  // namespace

absl::Span<const ComplexRuleRow> ViewComplexRules() {
  static constexpr ComplexRuleRow kRows[] = {
      {"aten._conj.default", Conjugate},
      {"aten._conj_copy.default", Conjugate},
      {"aten._conj_physical.default", Conjugate},
      {"aten._neg_view.default", Negate},
      {"aten._to_copy.default", Convert},
      {"aten._unsafe_view.default", Resize},
      {"aten.alias.default", Same},
      {"aten.clone.default", Same},
      {"aten.complex.default", Join},
      {"aten.conj_physical.default", Conjugate},
      {"aten.copy.default", CopySource},
      {"aten.detach.default", Same},
      {"aten.empty.memory_format", Zeros},
      {"aten.empty_like.default", Zeros},
      {"aten.expand.default", Resize},
      {"aten.eye.default", Eye},
      {"aten.eye.m", Eye},
      {"aten.fill.Scalar", Fill},
      {"aten.fill.Tensor", Fill},
      {"aten.full.default", Fill},
      {"aten.full_like.default", Fill},
      {"aten.neg.default", Negate},
      {"aten.new_empty.default", Zeros},
      {"aten.new_empty_strided.default", Zeros},
      {"aten.new_full.default", FillNew},
      {"aten.new_ones.default", Ones},
      {"aten.new_zeros.default", Zeros},
      {"aten.ones.default", Ones},
      {"aten.ones_like.default", Ones},
      {"aten.permute.default", Permute},
      {"aten.reshape.default", Resize},
      {"aten.scalar_tensor.default", FillFirst},
      {"aten.select.int", AlongDim},
      {"aten.slice.Tensor", AlongDim},
      {"aten.squeeze.default", AsSized},
      {"aten.squeeze.dim", AsSized},
      {"aten.squeeze.dims", AsSized},
      {"aten.sum.default", SumAll},
      {"aten.sum.dim_IntList", SumDims},
      {"aten.t.default", Turn},
      {"aten.transpose.int", Turn},
      {"aten.unsqueeze.default", AsSized},
      {"aten.view.default", Resize},
      {"aten.view.dtype", ViewAsType},
      {"aten.view_as_complex.default", FromReal},
      {"aten.view_as_complex_copy.default", FromReal},
      {"aten.view_as_real.default", ToReal},
      {"aten.view_as_real_copy.default", ToReal},
      {"aten.view_copy.dtype", ViewAsType},
      {"aten.zero.default", Zeros},
      {"aten.zeros.default", Zeros},
      {"aten.zeros_like.default", Zeros},
  };
  return kRows;
}

}  // namespace cotan::aot
