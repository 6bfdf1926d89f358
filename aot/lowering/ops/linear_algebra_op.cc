// SPDX-License-Identifier: Apache-2.0

#include "aot/lowering/ops/linear_algebra_op.h"

#include <utility>
#include <vector>

#include "aot/lowering/ops/small_matrix.h"

namespace cotan::aot::linear_algebra_op {
namespace {

using serialization::LinearAlgebra;

SymInt ShorterSide(const Tensor& a) { return SymInt::Binary(SymInt::Kind::kMin, RowsOf(a), ColumnsOf(a)); }

// Returns the type of a result: the sizes of the batch, then `sizes`.
TensorType TypeOf(DType dtype, SymIntVector batch, const SymIntVector& sizes) {
  batch.insert(batch.end(), sizes.begin(), sizes.end());
  return {dtype, std::move(batch), {}};
}

// An operand with `rank` dimensions after its batch.
struct Batched {
  Tensor tensor;
  int rank = 2;
};

SymIntVector BatchOf(const Batched& operand) {
  const SymIntVector& sizes = operand.tensor.sizes();
  return {sizes.begin(), sizes.end() - operand.rank};
}

// Returns the batch that two batches broadcast to.
SymIntVector Broadcast(SymIntVector longer, SymIntVector shorter) {
  if (longer.size() < shorter.size()) std::swap(longer, shorter);
  const size_t lead = longer.size() - shorter.size();
  for (size_t d = 0; d < shorter.size(); ++d) {
    if (longer[lead + d] == SymInt(1)) longer[lead + d] = shorter[d];
  }
  return longer;
}

// Returns the operands with their batches expanded to the same one.
std::vector<Tensor> InOneBatch(Lowering& l, const std::vector<Batched>& operands) {
  SymIntVector batch;
  for (const Batched& operand : operands) batch = Broadcast(std::move(batch), BatchOf(operand));
  std::vector<Tensor> expanded;
  for (const Batched& operand : operands) {
    SymIntVector sizes = batch;
    const SymIntVector& own = operand.tensor.sizes();
    sizes.insert(sizes.end(), own.end() - operand.rank, own.end());
    expanded.push_back(l.b.Expand(operand.tensor, std::move(sizes)));
  }
  return expanded;
}

// Emits the op, whose attributes are those of `op`.
std::vector<Tensor> Emit(Lowering& l, const LinearAlgebra& op, const std::vector<Tensor>& operands,
                         const std::vector<TensorType>& types) {
  std::vector<Argument> arguments;
  for (const Tensor& operand : operands) arguments.emplace_back(Use{operand.id()});
  while (arguments.size() < 3) arguments.emplace_back(None{});
  arguments.insert(arguments.end(), {SymInt(static_cast<int64_t>(op.function())), op.upper(), op.transpose(),
                                     op.unit_diagonal(), op.full_matrices()});
  return l.b.Emit(PrimOp::kLinearAlgebra, std::move(arguments), types);
}

}  // namespace

Eigen Eigh(Lowering& l, const Tensor& a, bool upper, bool has_vectors) {
  LinearAlgebra op;
  op.set_function(LinearAlgebra::EIGH);
  op.set_upper(upper);
  std::vector<TensorType> types = {TypeOf(a.dtype(), BatchOf(a), {ColumnsOf(a)})};
  if (has_vectors) types.push_back({a.dtype(), a.sizes(), {}});
  const std::vector<Tensor> results = Emit(l, op, {a}, types);
  return {results[0], has_vectors ? results[1] : Tensor()};
}

Svd SvdOf(Lowering& l, const Tensor& a, bool has_vectors, bool full_matrices) {
  LinearAlgebra op;
  op.set_function(LinearAlgebra::SVD);
  op.set_full_matrices(full_matrices);
  const SymInt shorter = ShorterSide(a);
  std::vector<TensorType> types = {TypeOf(a.dtype(), BatchOf(a), {shorter})};
  if (!has_vectors) return {Tensor(), Emit(l, op, {a}, types)[0], Tensor()};
  types.push_back(TypeOf(a.dtype(), BatchOf(a), {RowsOf(a), full_matrices ? RowsOf(a) : shorter}));
  types.push_back(TypeOf(a.dtype(), BatchOf(a), {full_matrices ? ColumnsOf(a) : shorter, ColumnsOf(a)}));
  const std::vector<Tensor> results = Emit(l, op, {a}, types);
  return {results[1], results[0], results[2]};
}

Qr QrOf(Lowering& l, const Tensor& a, bool full_matrices) {
  LinearAlgebra op;
  op.set_function(LinearAlgebra::QR);
  op.set_full_matrices(full_matrices);
  const SymInt kept = full_matrices ? RowsOf(a) : ShorterSide(a);
  const std::vector<Tensor> results =
      Emit(l, op, {a},
           {TypeOf(a.dtype(), BatchOf(a), {RowsOf(a), kept}), TypeOf(a.dtype(), BatchOf(a), {kept, ColumnsOf(a)})});
  return {results[0], results[1]};
}

Lu LuOf(Lowering& l, const Tensor& a) {
  LinearAlgebra op;
  op.set_function(LinearAlgebra::LU);
  const std::vector<Tensor> results = Emit(l, op, {a},
                                           {{a.dtype(), a.sizes(), {}},
                                            TypeOf(DType::kInt32, BatchOf(a), {ShorterSide(a)}),
                                            TypeOf(DType::kInt32, BatchOf(a), {})});
  return {results[0], results[1], results[2]};
}

Tensor SolveByLu(Lowering& l, const Tensor& factors, const Tensor& pivots, const Tensor& b, bool transpose) {
  LinearAlgebra op;
  op.set_function(LinearAlgebra::LU_SOLVE);
  op.set_transpose(transpose);
  const std::vector<Tensor> operands = InOneBatch(l, {{factors}, {pivots, 1}, {b}});
  return Emit(l, op, operands, {{b.dtype(), operands.back().sizes(), {}}})[0];
}

Cholesky CholeskyOf(Lowering& l, const Tensor& a, bool upper) {
  LinearAlgebra op;
  op.set_function(LinearAlgebra::CHOLESKY);
  op.set_upper(upper);
  const std::vector<Tensor> results =
      Emit(l, op, {a}, {{a.dtype(), a.sizes(), {}}, TypeOf(DType::kInt32, BatchOf(a), {})});
  return {results[0], results[1]};
}

Tensor SolveTriangle(Lowering& l, const Tensor& a, const Tensor& b, const Triangle& triangle, bool transpose) {
  LinearAlgebra op;
  op.set_function(LinearAlgebra::TRIANGULAR_SOLVE);
  op.set_upper(triangle.upper);
  op.set_unit_diagonal(triangle.unit);
  op.set_transpose(transpose);
  const std::vector<Tensor> operands = InOneBatch(l, {{a}, {b}});
  return Emit(l, op, operands, {{b.dtype(), operands.back().sizes(), {}}})[0];
}

}  // namespace cotan::aot::linear_algebra_op
