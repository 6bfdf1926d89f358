// SPDX-License-Identifier: Apache-2.0

#include "aot/decompositions/data_size_ops.h"

#include <ATen/TensorOperators.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/core/List.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/broadcast_tensors.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/index.h>
#include <ATen/ops/index_put.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/nonzero_static.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "aot/capture/argument.h"
#include "aot/capture/data_sizes.h"
#include "aot/capture/proxy_tensor.h"
#include "aot/ir/same_value.h"

namespace cotan::aot {
namespace {

using c10::IValue;
using Arguments = std::vector<IValue>;
using Results = std::optional<std::vector<IValue>>;  // none: the size is not one that depends on data

// --- cotan::leading_rows -------------------------------------------------------

// Returns `size` rows: the first `count` ones, repeated if there are more. They are valid indices in any case.
at::Tensor LeadingRowsCpu(const at::Tensor& buffer, const at::Tensor& count, c10::SymInt size, std::string_view name) {
  const int64_t rows = std::clamp<int64_t>(*count.const_data_ptr<int64_t>(), 1, buffer.size(0));
  const at::Tensor index = at::arange(size.expect_int(), at::TensorOptions(at::kLong)).remainder(rows);
  return buffer.index_select(0, index);
}

// Counts rows for one op that the model calls.
class RowCounter {
 public:
  RowCounter(Recorder& recorder, DataSizeTable& table, const c10::OperatorHandle& op, const at::Tensor& operand)
      : recorder_(recorder), table_(table), name_(NameOf(op, operand)), range_(table.declared().RangeOf(name_)) {}

  // Returns whether a range is declared for the op.
  bool is_declared() const { return range_.has_value(); }
  int64_t maximum() const { return range_->max; }

  // Returns the first `count` rows of `buffer`, which has maximum() rows of indices.
  at::Tensor LeadingRows(const at::Tensor& buffer, const at::Tensor& count) const {
    static const auto op =
        c10::Dispatcher::singleton().findSchemaOrThrow("cotan::leading_rows", "").typed<decltype(LeadingRowsCpu)>();
    const int64_t size = SizeOf(count);
    return op.call(buffer, count, size, name_);
  }

  // Returns the indices of the elements of `mask` that are not zero, [count, rank].
  at::Tensor Nonzero(const at::Tensor& mask) const {
    const at::Tensor is_set = mask.scalar_type() == at::kBool ? mask : at::ne(mask, 0);
    return LeadingRows(at::nonzero_static(is_set, maximum(), /*fill_value=*/0), is_set.sum());
  }

 private:
  // Returns the name of the op's size without its number.
  std::string NameOf(const c10::OperatorHandle& op, const at::Tensor& operand) const {
    const c10::OperatorHandle& called = recorder_.called_op == nullptr ? op : *recorder_.called_op;
    const std::string name(absl::StripPrefix(called.schema().name(), "aten::"));
    const std::string module = ModuleOf(operand);
    return module.empty() ? name : absl::StrCat(module, ".", name);
  }

  // Returns the module that computes the tensor; "" if it is unknown.
  std::string ModuleOf(const at::Tensor& tensor) const {
    const ProxyTensorImpl* const proxy = ProxyOf(tensor);
    if (proxy == nullptr || proxy->epoch() != recorder_.epoch()) return "";
    for (const Node& node : recorder_.graph().nodes()) {
      if (std::find(node.outputs.begin(), node.outputs.end(), proxy->value()) != node.outputs.end()) {
        return absl::StrContains(node.source, ' ') ? "" : node.source;  // "backward of ..."
      }
    }
    return "";
  }

  // Returns the size of this trace: that of an earlier count, if it is computed alike.
  int64_t SizeOf(const at::Tensor& count) const {
    const ValueId value = recorder_.ValueOf(count);
    DataSizeTable::Recording& recording = table_.Of(recorder_.epoch());
    for (const auto& [earlier, size] : recording.counts) {
      if (ComputesSame(recorder_.graph(), earlier, value)) return size;
    }
    const auto same = std::count(recording.names.begin(), recording.names.end(), name_);
    recording.names.push_back(name_);
    const std::string name = same == 0 ? name_ : absl::StrCat(name_, ".", same);
    const int64_t counted = *recorder_.RealOf(count).const_data_ptr<int64_t>();
    const int64_t size = table_.SizeOf(name, *range_, counted);
    recording.counts.emplace_back(value, size);
    return size;
  }

  Recorder& recorder_;
  DataSizeTable& table_;
  const std::string name_;
  const std::optional<SizeRange> range_;
};

// --- indices and masks ---------------------------------------------------------

Results Nonzero(const RowCounter& rows, const Arguments& in) { return {{rows.Nonzero(in[0].toTensor())}}; }

// The elements of `self`, broadcast with `mask`, where the mask is true.
Results MaskedSelect(const RowCounter& rows, const Arguments& in) {
  const at::Tensor mask = in[1].toTensor();
  if (mask.scalar_type() != at::kBool) return std::nullopt;  // an error of eager mode
  const std::vector<at::Tensor> both = at::broadcast_tensors({in[0].toTensor(), mask});
  const at::Tensor index = rows.Nonzero(both[1].reshape({-1})).select(1, 0);
  return {{both[0].reshape({-1}).index_select(0, index)}};
}

bool IsMask(const at::Tensor& index) {
  return index.defined() && (index.scalar_type() == at::kBool || index.scalar_type() == at::kByte) && index.dim() > 0;
}

std::vector<at::Tensor> IndicesIn(const IValue& list) {
  std::vector<at::Tensor> indices;
  for (const IValue& index : list.toListRef()) indices.push_back(index.isNone() ? at::Tensor() : index.toTensor());
  return indices;
}

// Returns whether the masks have the sizes of the dimensions of `self` that they index.
bool MasksFit(const at::Tensor& self, const std::vector<at::Tensor>& indices) {
  int64_t dim = 0;
  for (const at::Tensor& index : indices) {
    const int64_t rank = IsMask(index) ? index.dim() : 1;
    if (dim + rank > self.dim()) return false;
    for (int64_t d = 0; d < rank && IsMask(index); ++d) {
      if (index.size(d) != self.size(dim + d)) return false;
    }
    dim += rank;
  }
  return true;
}

// Returns the indices with one integer index per dimension in place of each mask; none without a mask, or if the masks
// do not fit.
std::optional<c10::List<std::optional<at::Tensor>>> WithoutMasks(const RowCounter& rows, const at::Tensor& self,
                                                                 const std::vector<at::Tensor>& indices) {
  if (std::none_of(indices.begin(), indices.end(), IsMask) || !MasksFit(self, indices)) return std::nullopt;
  c10::List<std::optional<at::Tensor>> result;
  for (const at::Tensor& index : indices) {
    if (!IsMask(index)) {
      result.push_back(index.defined() ? std::optional<at::Tensor>(index) : std::nullopt);
      continue;
    }
    const at::Tensor found = rows.Nonzero(index);
    for (int64_t d = 0; d < index.dim(); ++d) result.push_back(found.select(1, d));
  }
  return result;
}

Results Index(const RowCounter& rows, const Arguments& in) {
  const auto indices = WithoutMasks(rows, in[0].toTensor(), IndicesIn(in[1]));
  if (!indices.has_value()) return std::nullopt;
  return {{at::index(in[0].toTensor(), *indices)}};
}

// Returns whether x[:, mask] = values has one value for each true element of the mask, and not one for all.
bool HasValueForEach(const at::Tensor& self, const std::vector<at::Tensor>& indices, const at::Tensor& values) {
  const auto is_given = [](const at::Tensor& index) { return index.defined(); };
  if (std::count_if(indices.begin(), indices.end(), is_given) > 1) return true;
  const auto mask = std::find_if(indices.begin(), indices.end(), IsMask);
  if (mask == indices.end()) return false;
  const int64_t after = self.dim() - (mask - indices.begin()) - mask->dim();
  return values.dim() > after && values.size(values.dim() - after - 1) != 1;
}

// Returns x[:, mask] = values (+= if `accumulate`) for one value for each true element: each element of the mask takes
// the value whose number is the count of true elements before it. No row is written twice.
at::Tensor PutByMask(const RowCounter& rows, const at::Tensor& self, const at::Tensor& mask, int64_t before,
                     const at::Tensor& values, bool accumulate) {
  const int64_t count = rows.Nonzero(mask).size(0);
  std::vector<int64_t> sizes = self.sizes().vec();
  sizes.erase(sizes.begin() + before, sizes.begin() + before + mask.dim());
  sizes.insert(sizes.begin() + before, count);
  const at::Tensor given = values.expand(sizes);
  sizes[static_cast<size_t>(before)] = 1;
  const at::Tensor padded = at::cat({given, at::zeros(sizes, self.options())}, before);  // there may be no value
  const at::Tensor number = at::clamp(at::cumsum(mask.reshape({-1}), 0) - 1, 0, count);
  const at::Tensor taken = padded.index_select(before, number).reshape(self.sizes());
  std::vector<int64_t> mask_sizes = mask.sizes().vec();
  mask_sizes.resize(static_cast<size_t>(self.dim() - before), 1);
  return at::where(mask.view(mask_sizes), accumulate ? self + taken : taken, self);
}

// Returns the new content of `self`; undefined if no size of it depends on data.
at::Tensor Put(const RowCounter& rows, const at::Tensor& self, const std::vector<at::Tensor>& indices,
               const at::Tensor& values, bool accumulate) {
  const bool fits = values.scalar_type() == self.scalar_type() && MasksFit(self, indices);
  if (!fits || !HasValueForEach(self, indices, values)) return at::Tensor();
  const auto given =
      std::find_if(indices.begin(), indices.end(), [](const at::Tensor& index) { return index.defined(); });
  const bool is_alone = std::all_of(given + 1, indices.end(), [](const at::Tensor& index) { return !index.defined(); });
  if (is_alone) {
    const at::Tensor mask = given->scalar_type() == at::kBool ? *given : at::ne(*given, 0);
    return PutByMask(rows, self, mask, given - indices.begin(), values, accumulate);
  }
  const auto without_masks = WithoutMasks(rows, self, indices);
  return without_masks.has_value() ? at::index_put(self, *without_masks, values, accumulate) : at::Tensor();
}

Results IndexPut(const RowCounter& rows, const Arguments& in) {
  const at::Tensor result = Put(rows, in[0].toTensor(), IndicesIn(in[1]), in[2].toTensor(), in[3].toBool());
  if (!result.defined()) return std::nullopt;
  return {{result}};
}

Results IndexPutInPlace(const RowCounter& rows, const Arguments& in) {
  const at::Tensor self = in[0].toTensor();
  const at::Tensor result = Put(rows, self, IndicesIn(in[1]), in[2].toTensor(), in[3].toBool());
  if (!result.defined()) return std::nullopt;
  return {{self.copy_(result)}};
}

// --- distinct values -----------------------------------------------------------

const at::TensorOptions kIndexOptions(at::kLong);

// Returns [values, inverse, counts] of sorted rows: where a new one begins, `is_new` is true. `inverse` has the number
// of the distinct row for each row; both are empty unless they are wanted.
std::vector<IValue> Distinct(const RowCounter& rows, const at::Tensor& sorted, int64_t dim, const at::Tensor& is_new,
                             bool wants_inverse, bool wants_counts) {
  const at::Tensor starts = rows.Nonzero(is_new).select(1, 0);
  at::Tensor inverse = at::empty({0}, kIndexOptions), counts = inverse;
  if (wants_inverse) inverse = at::cumsum(is_new, 0) - 1;
  if (wants_counts) {
    // Each one ends where the next begins.
    counts = at::cat({starts.slice(0, 1), at::full({1}, sorted.size(dim), kIndexOptions)}) - starts;
  }
  return {sorted.index_select(dim, starts), inverse, counts};
}

// Returns whether each of the rows differs from the one before it.
at::Tensor DiffersFromPrevious(const at::Tensor& rows) {
  at::Tensor differs = at::ne(rows.slice(0, 1), rows.slice(0, 0, -1));
  if (differs.dim() > 1) differs = differs.flatten(1).any(1);
  return at::cat({at::ones({1}, at::TensorOptions(at::kBool)), differs});
}

// (self, sorted, return_inverse, return_counts); the values are always sorted.
Results Unique2(const RowCounter& rows, const Arguments& in) {
  const at::Tensor self = in[0].toTensor().detach();
  if (self.numel() == 0 || self.is_complex()) return std::nullopt;
  const auto [sorted, order] = at::sort(self.reshape({-1}));
  std::vector<IValue> results = Distinct(rows, sorted, 0, DiffersFromPrevious(sorted), in[2].toBool(), in[3].toBool());
  if (in[2].toBool()) {
    const at::Tensor number = results[1].toTensor();
    results[1] = at::zeros(number.sizes(), kIndexOptions).scatter(0, order, number).view(self.sizes());
  }
  return results;
}

// (self, return_inverse, return_counts, dim)
Results UniqueConsecutive(const RowCounter& rows, const Arguments& in) {
  const at::Tensor self = in[0].toTensor().detach();
  if (self.numel() == 0 || self.is_complex()) return std::nullopt;
  if (in[3].isNone()) {
    const at::Tensor flat = self.reshape({-1});
    std::vector<IValue> results = Distinct(rows, flat, 0, DiffersFromPrevious(flat), in[1].toBool(), in[2].toBool());
    if (in[1].toBool()) results[1] = results[1].toTensor().view(self.sizes());
    return results;
  }
  const int64_t dim = at::maybe_wrap_dim(in[3].toInt(), self.dim());
  return Distinct(rows, self, dim, DiffersFromPrevious(self.movedim(dim, 0)), in[1].toBool(), in[2].toBool());
}

// --- repeats -------------------------------------------------------------------

// (repeats, output_size): element i is repeated repeats[i] times. A negative number of repeats makes the count -1,
// which no range holds.
Results RepeatInterleave(const RowCounter& rows, const Arguments& in) {
  if (!in[1].isNone()) return std::nullopt;
  const at::Tensor repeats = in[0].toTensor();
  const bool is_integer = repeats.scalar_type() == at::kLong || repeats.scalar_type() == at::kInt;
  if (repeats.dim() != 1 || !is_integer) return std::nullopt;  // an error of eager mode
  if (repeats.numel() == 0) return std::nullopt;
  const at::Tensor ends = at::cumsum(repeats, 0);
  const at::Tensor marks =
      at::zeros({rows.maximum() + 1}, kIndexOptions)
          .scatter_add(0, at::clamp(ends, 0, rows.maximum()), at::ones(ends.sizes(), kIndexOptions));
  const at::Tensor count = at::where(at::lt(repeats, 0).any(), at::Scalar(int64_t{-1}), repeats.sum());
  const at::Tensor index = rows.LeadingRows(at::cumsum(marks.slice(0, 0, rows.maximum()), 0), count);
  return {{index.to(repeats.scalar_type())}};
}

// --- all ops -------------------------------------------------------------------

struct DataSizeOp {
  Results (*call)(const RowCounter& rows, const Arguments& in) = nullptr;
  size_t operand = 0;  // the argument whose module names the size
};

const DataSizeOp* FindOp(const std::string& name) {
  static const auto& ops = *new absl::flat_hash_map<std::string, DataSizeOp>({
      {"aten.nonzero.default", {Nonzero, 0}},
      {"aten.masked_select.default", {MaskedSelect, 1}},
      {"aten.index.Tensor", {Index, 0}},
      {"aten.index_put.default", {IndexPut, 0}},
      {"aten.index_put_.default", {IndexPutInPlace, 0}},
      {"aten._unique2.default", {Unique2, 0}},
      {"aten.unique_consecutive.default", {UniqueConsecutive, 0}},
      {"aten.repeat_interleave.Tensor", {RepeatInterleave, 0}},
  });
  const auto found = ops.find(name);
  return found == ops.end() ? nullptr : &found->second;
}

}  // namespace

bool CallWithDataSize(const c10::OperatorHandle& op, torch::jit::Stack& stack, Recorder& recorder) {
  DataSizeTable* table = CurrentDataSizes();
  if (table == nullptr) return false;
  const DataSizeOp* const found = FindOp(NodeOpName(op.schema()));
  if (found == nullptr) return false;
  const size_t count = op.schema().arguments().size();
  const Arguments arguments(stack.end() - static_cast<std::ptrdiff_t>(count), stack.end());
  const RowCounter rows(recorder, *table, op, arguments[found->operand].toTensor());
  if (!rows.is_declared()) return false;
  Results results = found->call(rows, arguments);
  if (!results.has_value()) return false;
  torch::jit::drop(stack, count);
  for (IValue& result : *results) torch::jit::push(stack, std::move(result));
  return true;
}

void DefineLeadingRows(torch::Library& library) {
  library.def("leading_rows(Tensor buffer, Tensor count, SymInt size, str name) -> Tensor");
  library.impl("leading_rows", torch::dispatch(c10::DispatchKey::CPU, LeadingRowsCpu));
  library.impl("leading_rows", torch::dispatch(c10::DispatchKey::Autograd, torch::CppFunction::makeFallthrough()));
}

}  // namespace cotan::aot
