// SPDX-License-Identifier: Apache-2.0

#include "testing/fuzz/write_ops.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/testing/expr_builder.h"

namespace cotan::testing {
namespace {

using serialization::Op;

bool IsFloat(const TypedValue& value) { return value.dtype == DType::kFloat32 || value.dtype == DType::kFloat64; }
bool IsNumber(const TypedValue& value) { return value.dtype != DType::kBool; }

// Returns a value with at least `rank` dimensions, of a floating point dtype and a small bound.
std::optional<TypedValue> FloatOfRank(MethodWriter& w, size_t rank) {
  const auto found = w.Find([rank](const TypedValue& v) { return IsFloat(v) && v.sizes.size() >= rank; });
  if (!found.has_value()) return std::nullopt;
  return w.Clamped(*found, kClampedBound);
}

// Returns an index i64[n] or i32[n] with elements in [0, size), where n is `length`: multiples of a number.
TypedValue IndexInRange(MethodWriter& w, const SymInt& length, const SymInt& size) {
  const DType dtype = w.choices().OneIn(4) ? DType::kInt32 : DType::kInt64;
  ExprBuilder b({});
  const int factor = b.Constant(dtype, static_cast<double>(w.choices().Below(5)));
  const int shifted = b.Add(b.Mul(b.Iota(dtype, 0), factor), b.Constant(dtype, 2));
  b.Output(b.Apply(serialization::FN_REMAINDER, {shifted, b.Cast(b.Size(DType::kInt64, size.ToString()), dtype)}));
  b.expr().add_domain_sizes(length.ToString());
  const TypedValue index = w.Result(dtype, {length}, kMaxValueElements);
  w.Add(b.Build(), {}, {index});
  if (w.choices().OneIn(2)) return index;
  Op check;
  check.mutable_checked_index()->set_size(size.ToString());
  const TypedValue checked = w.Result(dtype, {length}, kMaxValueElements);
  w.Add(std::move(check), {index}, {checked});
  return checked;
}

}  // namespace

void WriteCopy(MethodWriter& w) {
  const TypedValue source = w.Any();
  Op op;
  op.mutable_copy();
  w.Add(std::move(op), {source}, {w.Result(source.dtype, source.sizes, source.bound)});
}

void WriteMatmul(MethodWriter& w) {
  const std::optional<TypedValue> a = FloatOfRank(w, 2);
  if (!a.has_value()) return;
  const size_t rank = a->sizes.size();
  const SymInt columns =
      w.choices().OneIn(4) ? SymInt::Symbol(0) : SymInt(1 + static_cast<int64_t>(w.choices().Below(5)));
  SymSizes b_sizes = {a->sizes[rank - 1], columns};
  if (rank == 3 && w.choices().OneIn(2)) b_sizes.insert(b_sizes.begin(), a->sizes[0]);
  if (MaxElements(b_sizes) > kMaxValueElements) return;
  SymSizes sizes = a->sizes;
  sizes.back() = columns;
  if (MaxElements(sizes) > kMaxValueElements) return;
  std::vector<TypedValue> operands = {*a, w.Operand(a->dtype, b_sizes, kClampedBound)};
  const size_t form = w.choices().Below(4);
  if (form >= 2) operands.push_back(w.Operand(a->dtype, {columns}, kClampedBound));
  double bound = kClampedBound * kClampedBound * kMaxValueElements + kClampedBound;
  Op op;
  op.mutable_matmul();
  if (form == 3) {
    ExprBuilder b({});
    const int sum = b.Add(b.Input(0, a->dtype), b.Input(1, a->dtype));
    b.Output(b.Apply(serialization::FN_FMOD, {sum, b.Constant(a->dtype, kClampModulus)}));
    for (const SymInt& size : sizes) b.expr().add_domain_sizes(size.ToString());
    *op.mutable_matmul()->mutable_epilogue() = b.expr();
    bound = kClampedBound;
  }
  w.Add(std::move(op), operands, {w.Result(a->dtype, sizes, bound)});
}

void WriteGather(MethodWriter& w) {
  const auto table = w.Find([](const TypedValue& v) { return !v.sizes.empty() && MaxElements(v.sizes) > 0; });
  if (!table.has_value()) return;
  const size_t dim = w.choices().Below(table->sizes.size());
  SymSizes sizes = table->sizes;
  sizes[dim] = w.choices().OneIn(2) ? SymInt::Symbol(0) : SymInt(3);
  if (MaxElements(sizes) > kMaxValueElements) return;
  const TypedValue index = IndexInRange(w, sizes[dim], table->sizes[dim]);
  Op op;
  op.mutable_gather()->set_dim(static_cast<int64_t>(dim));
  w.Add(std::move(op), {*table, index}, {w.Result(table->dtype, sizes, table->bound)});
}

void WriteScatterAdd(MethodWriter& w) {
  const std::optional<TypedValue> source = FloatOfRank(w, 1);
  if (!source.has_value()) return;
  const size_t dim = w.choices().Below(source->sizes.size());
  SymSizes sizes = source->sizes;
  sizes[dim] = w.choices().OneIn(4) ? SymInt::Symbol(0) : SymInt(1 + static_cast<int64_t>(w.choices().Below(4)));
  if (MaxElements(sizes) > kMaxValueElements) return;
  std::vector<TypedValue> operands = {*source, IndexInRange(w, source->sizes[dim], sizes[dim])};
  if (w.choices().OneIn(2)) operands.push_back(w.Operand(source->dtype, sizes, kClampedBound));
  Op op;
  op.mutable_scatter_add()->set_dim(static_cast<int64_t>(dim));
  op.mutable_scatter_add()->set_padding_index(w.choices().OneIn(4) ? 0 : -1);
  w.Add(std::move(op), operands, {w.Result(source->dtype, sizes, kClampedBound * kMaxValueElements + kClampedBound)});
}

void WriteConcat(MethodWriter& w) {
  const auto first = w.Find([](const TypedValue& v) { return !v.sizes.empty(); });
  if (!first.has_value()) return;
  const size_t dim = w.choices().Below(first->sizes.size());
  const auto fits = [&](const TypedValue& v) {
    if (v.dtype != first->dtype || v.sizes.size() != first->sizes.size()) return false;
    for (size_t d = 0; d < v.sizes.size(); ++d) {
      if (d != dim && !(v.sizes[d] == first->sizes[d])) return false;
    }
    return true;
  };
  std::vector<TypedValue> parts = {*first};
  SymSizes sizes = first->sizes;
  double bound = first->bound;
  for (size_t i = 1 + w.choices().Below(2); i > 0; --i) {
    parts.push_back(*w.Find(fits));
    sizes[dim] = sizes[dim] + parts.back().sizes[dim];
    bound = std::max(bound, parts.back().bound);
  }
  if (MaxElements(sizes) > kMaxValueElements) return;
  Op op;
  op.mutable_concat()->set_dim(static_cast<int64_t>(dim));
  w.Add(std::move(op), parts, {w.Result(first->dtype, sizes, bound)});
}

void WriteScan(MethodWriter& w) {
  using serialization::Scan;
  const std::optional<TypedValue> x = FloatOfRank(w, 1);
  if (!x.has_value()) return;
  constexpr Scan::Function kFunctions[] = {Scan::SUM, Scan::MAX, Scan::MIN};
  const Scan::Function function = kFunctions[w.choices().Below(std::size(kFunctions))];
  Op op;
  Scan& scan = *op.mutable_scan();
  scan.set_function(function);
  scan.set_dim(static_cast<int64_t>(w.choices().Below(x->sizes.size())));
  scan.set_reverse(w.choices().OneIn(2));
  const double bound = function == Scan::SUM ? x->bound * kMaxValueElements : x->bound;
  std::vector<TypedValue> results = {w.Result(x->dtype, x->sizes, bound)};
  if (function != Scan::SUM) results.push_back(w.Result(DType::kInt64, x->sizes, kMaxValueElements));
  w.Add(std::move(op), {*x}, results);
}

void WriteSort(MethodWriter& w) {
  const auto x = w.Find([](const TypedValue& v) { return IsNumber(v) && !v.sizes.empty(); });
  if (!x.has_value()) return;
  Op op;
  const size_t dim = w.choices().Below(x->sizes.size());
  op.mutable_sort()->set_dim(static_cast<int64_t>(dim));
  op.mutable_sort()->set_descending(w.choices().OneIn(2));
  SymSizes sizes = x->sizes;
  if (sizes[dim].is_constant() && sizes[dim].constant() > 0) {
    sizes[dim] =
        1 + static_cast<int64_t>(w.choices().Below(static_cast<size_t>(std::min<int64_t>(sizes[dim].constant(), 256))));
  }
  const TypedValue values = w.Result(x->dtype, sizes, x->bound);
  w.Add(std::move(op), {*x}, {values, w.Result(DType::kInt64, sizes, kMaxValueElements)});
}

void WriteEffect(MethodWriter& w) {
  const TypedValue value = w.Any();
  Op op;
  op.mutable_effect()->set_kind(serialization::Effect::PRINT);
  op.mutable_effect()->set_name("value");
  w.Add(std::move(op), {value}, {});
}

}  // namespace cotan::testing
