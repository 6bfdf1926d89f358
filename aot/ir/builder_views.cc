// SPDX-License-Identifier: Apache-2.0

// Views of the Builder.
#include <numeric>
#include <utility>

#include "aot/ir/builder.h"
#include "aot/ir/prim_node.h"

namespace cotan::aot {

Tensor Builder::StripExpand(const Tensor& tensor) const {
  Tensor result = tensor;
  for (const Node* node = Producer(result.id_); node != nullptr && IsPrim(*node, PrimOp::kExpand);
       node = Producer(result.id_)) {
    result.id_ = OperandOf(*node, "x");
  }
  return result;
}

Tensor Builder::View(const Tensor& a, SymIntVector sizes) {
  if (a.sizes() == sizes) return a;
  ValueId source = a.id();
  while (true) {
    const Node* node = Producer(source);
    if (node == nullptr || !IsPrim(*node, PrimOp::kView)) break;
    source = OperandOf(*node, "x");
  }
  if (graph_->value(source).type.sizes == sizes) return Value(source);
  const TensorType type{a.dtype(), sizes, {}};
  return Emit(PrimOp::kView, {Use{source}, ToSymInts(sizes)}, {type})[0];
}

Tensor Builder::Permute(const Tensor& a, std::vector<int64_t> dims) {
  for (int64_t& dim : dims) dim = WrapDim(dim, a.rank());
  ValueId source = a.id();
  if (const Node* node = Producer(source); node != nullptr && IsPrim(*node, PrimOp::kPermute)) {
    const std::vector<int64_t> inner = IntListAttribute(*node, "dims");
    for (int64_t& dim : dims) dim = inner[static_cast<size_t>(dim)];
    source = OperandOf(*node, "x");
  }
  const SymIntVector& from = graph_->value(source).type.sizes;
  TensorType type{a.dtype(), {}, {}};
  bool identity = true;
  for (size_t i = 0; i < dims.size(); ++i) {
    type.sizes.push_back(from[static_cast<size_t>(dims[i])]);
    identity = identity && dims[i] == static_cast<int64_t>(i);
  }
  if (identity) return Value(source);
  return Emit(PrimOp::kPermute, {Use{source}, ToSymInts(dims)}, {type})[0];
}

Tensor Builder::Transpose(const Tensor& a, int64_t dim0, int64_t dim1) {
  if (a.rank() == 0) return a;
  std::vector<int64_t> dims(static_cast<size_t>(a.rank()));
  std::iota(dims.begin(), dims.end(), 0);
  std::swap(dims[static_cast<size_t>(WrapDim(dim0, a.rank()))], dims[static_cast<size_t>(WrapDim(dim1, a.rank()))]);
  return Permute(a, std::move(dims));
}

Tensor Builder::Expand(const Tensor& a, SymIntVector sizes) {
  if (a.sizes() == sizes) return a;
  const TensorType type{a.dtype(), sizes, {}};
  return Emit(PrimOp::kExpand, {Use{StripExpand(a).id()}, ToSymInts(sizes)}, {type})[0];
}

Tensor Builder::Slice(const Tensor& a, int64_t dim, SymInt start, SymInt end, SymInt step) {
  dim = WrapDim(dim, a.rank());
  const SymInt size = a.sizes()[static_cast<size_t>(dim)];
  if (start == SymInt(0) && end == size && step == SymInt(1)) return a;
  TensorType type{a.dtype(), a.sizes(), {}};
  const SymInt length = end - start;
  type.sizes[static_cast<size_t>(dim)] =
      step == SymInt(1) ? length : SymInt::Binary(SymInt::Kind::kFloorDiv, length + step - SymInt(1), step);
  return Emit(PrimOp::kSlice, {Use{a.id()}, SymInt(dim), start, end, step}, {type})[0];
}

Tensor Builder::SelectIndex(const Tensor& a, int64_t dim, SymInt index) {
  dim = WrapDim(dim, a.rank());
  TensorType type{a.dtype(), a.sizes(), {}};
  type.sizes.erase(type.sizes.begin() + dim);
  return Emit(PrimOp::kSelect, {Use{a.id()}, SymInt(dim), std::move(index)}, {type})[0];
}

Tensor Builder::Unsqueeze(const Tensor& a, int64_t dim) {
  SymIntVector sizes = a.sizes();
  sizes.insert(sizes.begin() + WrapDim(dim, a.rank() + 1), SymInt(1));
  return View(a, std::move(sizes));
}

Tensor Builder::Squeeze(const Tensor& a, absl::Span<const int64_t> dims) {
  std::vector<bool> drop(a.sizes().size(), false);
  for (const int64_t dim : dims) {
    if (a.rank() > 0) drop[static_cast<size_t>(WrapDim(dim, a.rank()))] = true;
  }
  SymIntVector sizes;
  for (size_t i = 0; i < drop.size(); ++i) {
    if (!drop[i]) sizes.push_back(a.sizes()[i]);
  }
  return View(a, std::move(sizes));
}

Tensor Builder::Diagonal(const Tensor& a, int64_t offset, int64_t dim1, int64_t dim2) {
  dim1 = WrapDim(dim1, a.rank());
  dim2 = WrapDim(dim2, a.rank());
  const SymInt& rows = a.sizes()[static_cast<size_t>(dim1)];
  const SymInt& columns = a.sizes()[static_cast<size_t>(dim2)];
  const SymInt length = offset >= 0 ? SymInt::Binary(SymInt::Kind::kMin, rows, columns - SymInt(offset))
                                    : SymInt::Binary(SymInt::Kind::kMin, rows + SymInt(offset), columns);
  TensorType type{a.dtype(), {}, {}};
  for (int64_t i = 0; i < a.rank(); ++i) {
    if (i != dim1 && i != dim2) type.sizes.push_back(a.sizes()[static_cast<size_t>(i)]);
  }
  type.sizes.push_back(SymInt::Binary(SymInt::Kind::kMax, length, 0));
  return Emit(PrimOp::kDiagonal, {Use{a.id()}, SymInt(offset), SymInt(dim1), SymInt(dim2)}, {type})[0];
}

Tensor Builder::ViewAsReal(const Tensor& a) {
  TensorType type{a.dtype() == DType::kComplex64 ? DType::kFloat32 : DType::kFloat64, a.sizes(), {}};
  type.sizes.push_back(SymInt(2));
  return Emit(PrimOp::kViewAsReal, {Use{a.id()}}, {type})[0];
}

bool Builder::IsInterleavedComplex(ValueId id) const {
  const Node* node = Producer(id);
  if (node == nullptr || IsPrim(*node, PrimOp::kViewAsReal)) return true;
  if (IsPrim(*node, PrimOp::kPermute)) {
    const std::vector<int64_t> dims = IntListAttribute(*node, "dims");
    const bool keeps_last = dims.back() == static_cast<int64_t>(dims.size()) - 1;
    return keeps_last && IsInterleavedComplex(OperandOf(*node, "x"));
  }
  return !IsView(*node);
}

Tensor Builder::ViewAsComplex(const Tensor& a) {
  TensorType type{a.dtype() == DType::kFloat32 ? DType::kComplex64 : DType::kComplex128, a.sizes(), {}};
  type.sizes.pop_back();
  const Tensor pairs =
      IsInterleavedComplex(a.id()) ? a : Emit(PrimOp::kCopy, {Use{a.id()}}, {{a.dtype(), a.sizes(), {}}})[0];
  return Emit(PrimOp::kViewAsComplex, {Use{pairs.id()}}, {type})[0];
}

Tensor Builder::ViewDType(const Tensor& a, DType dtype, SymIntVector sizes) {
  if (dtype == a.dtype()) return a;
  const Node* producer = Producer(a.id());
  const bool needs_copy = ByteSize(dtype) != ByteSize(a.dtype()) && producer != nullptr && IsView(*producer);
  const Tensor dense = needs_copy ? Emit(PrimOp::kCopy, {Use{a.id()}}, {{a.dtype(), a.sizes(), {}}})[0] : a;
  return Emit(PrimOp::kViewDType, {Use{dense.id()}, SymInt(static_cast<int64_t>(dtype))},
              {{dtype, std::move(sizes), {}}})[0];
}

Tensor Builder::Unfold(const Tensor& a, int64_t dim, int64_t size, int64_t step) {
  dim = WrapDim(dim, a.rank());
  TensorType type{a.dtype(), a.sizes(), {}};
  SymInt& windows = type.sizes[static_cast<size_t>(dim)];
  windows = SymInt::Binary(SymInt::Kind::kFloorDiv, windows - SymInt(size), step) + SymInt(1);
  type.sizes.push_back(SymInt(size));
  return Emit(PrimOp::kUnfold, {Use{a.id()}, SymInt(dim), SymInt(size), SymInt(step)}, {type})[0];
}

Tensor Builder::AsStrided(const Tensor& a, SymIntVector sizes, SymIntVector strides, SymInt offset) {
  const TensorType type{a.dtype(), sizes, {}};
  return Emit(PrimOp::kAsStrided, {Use{a.id()}, ToSymInts(sizes), ToSymInts(strides), std::move(offset)}, {type})[0];
}

}  // namespace cotan::aot
