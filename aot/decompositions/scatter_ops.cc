// SPDX-License-Identifier: Apache-2.0

#include "aot/decompositions/scatter_ops.h"

#include <ATen/TensorOperators.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/amin.h>
#include <ATen/ops/any.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bitwise_not.h>
#include <ATen/ops/broadcast_tensors.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/floor_divide.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/ge.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/le.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/logical_not.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/prod.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/slice_scatter.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/util/StringUtil.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "aot/capture/effects.h"
#include "aot/capture/recorder.h"

namespace cotan::aot {
namespace {

// Limit for the number of elements of the comparison of all indices with all positions.
constexpr int64_t kMaxComparisons = int64_t{1} << 26;
// Largest number of positions whose comparison with all indices is faster than two sorts.
constexpr int64_t kFewPositions = 256;

// Crops each dimension except `except` to the size that `like` has.
at::Tensor Cropped(at::Tensor tensor, const at::Tensor& like, int64_t except) {
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    if (d != except && tensor.size(d) != like.size(d)) tensor = tensor.slice(d, 0, like.size(d));
  }
  return tensor;
}

// Returns the number of elements that are scattered to each position.
at::Tensor Arrivals(const at::Tensor& self, int64_t dim, const at::Tensor& index) {
  const at::TensorOptions options(at::kLong);
  return at::zeros(self.sizes(), options).scatter_add(dim, index, at::ones(index.sizes(), options));
}

at::Tensor SumOrMean(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& src, bool mean,
                     bool include_self) {
  const at::Tensor arrivals = Arrivals(self, dim, index);
  const at::Tensor base = include_self ? self : at::where(arrivals > 0, at::Scalar(0), self);
  const at::Tensor sum = base.scatter_add(dim, index, src);
  if (!mean) return sum;
  const at::Tensor count = at::clamp(include_self ? arrivals + 1 : arrivals, 1);
  return at::isFloatingType(self.scalar_type()) ? sum / count.to(self.scalar_type()) : at::floor_divide(sum, count);
}

at::Scalar Identity(const std::string& reduce, at::ScalarType dtype) {
  if (reduce == "prod") return 1;
  const bool largest = reduce == "amin";
  if (at::isFloatingType(dtype)) {
    const double infinity = std::numeric_limits<double>::infinity();
    return largest ? infinity : -infinity;
  }
  const int64_t limit = dtype == at::kLong  ? std::numeric_limits<int64_t>::max()
                        : dtype == at::kInt ? std::numeric_limits<int32_t>::max()
                                            : 0;
  TORCH_CHECK(limit > 0, "scatter_reduce '", reduce, "' of ", toString(dtype), " cannot be compiled");
  return largest ? limit : -limit - 1;
}

// Reduces at once, for each position, its own element, if that is included, and the elements scattered to
// it, so that equal elements share the gradient. The other elements of the comparison are the identity.
at::Tensor ByComparison(const at::Tensor& own, int64_t dim, const at::Tensor& index, const at::Tensor& src,
                        const std::string& reduce, bool include_self) {
  const at::Tensor own_last = own.transpose(dim, -1);                // [..., positions]
  const at::Tensor places = index.transpose(dim, -1).unsqueeze(-2);  // [..., 1, n]
  if (index.numel() * own.size(dim) > kMaxComparisons) {
    CurrentRecorder()->ReportUnsupported(
        "aten.scatter_reduce.two",
        c10::str("'", reduce, "' compares every index with every position, more than 2^26 comparisons"));
  }
  const at::Scalar identity = Identity(reduce, own.scalar_type());
  const at::Tensor here = at::eq(places, at::arange(own.size(dim), at::TensorOptions(at::kLong)).unsqueeze(-1));
  const at::Tensor arriving = at::where(here, src.transpose(dim, -1).unsqueeze(-2), identity);
  const at::Tensor first = include_self ? own_last : at::where(here.any(-1), identity, own_last);
  const at::Tensor all = at::cat({first.unsqueeze(-1), arriving}, -1);
  const at::Tensor result = reduce == "prod"   ? at::prod(all, -1)
                            : reduce == "amax" ? at::amax(all, at::IntArrayRef{-1})
                                               : at::amin(all, at::IntArrayRef{-1});
  return result.transpose(dim, -1);
}

// Reverses the order of numbers; NaN stays NaN.
at::Tensor Reversed(const at::Tensor& x) {
  return at::isFloatingType(x.scalar_type()) ? at::neg(x) : at::bitwise_not(x);
}

// The largest or smallest element for each position: elements are sorted by value and then, by a stable sort, by index,
// so that the last one of an index is the largest. Equal elements share the gradient, as in ATen's formula
// (scatter_reduce_backward in torch/csrc/autograd/FunctionsManual.cpp).
struct SortedExtreme : torch::autograd::Function<SortedExtreme> {
  using Context = torch::autograd::AutogradContext;

  static at::Tensor forward(Context* context, const at::Tensor& own, int64_t dim, const at::Tensor& index,
                            const at::Tensor& src, bool is_largest, bool include_self) {
    const auto [values, by_value] = at::sort(is_largest ? src : Reversed(src), dim);
    const at::Tensor by_index =
        std::get<1>(at::sort(at::gather(index, dim, by_value), /*stable=*/true, dim, /*descending=*/false));
    const at::Tensor sorted = at::gather(values, dim, by_index);
    const at::Tensor arrivals = Arrivals(own, dim, index);
    const at::Tensor ends = at::cumsum(arrivals, dim);
    const at::Tensor last = at::gather(sorted, dim, at::clamp(ends - 1, 0));
    const at::Tensor arrives = at::gt(arrivals, 0);
    const at::Tensor extreme = is_largest ? last : Reversed(last);
    const at::Tensor both = is_largest ? at::maximum(own, extreme) : at::minimum(own, extreme);
    const at::Tensor result = at::where(arrives, include_self ? both : extreme, own);
    context->save_for_backward({index, src, result, include_self ? at::eq(own, result) : at::logical_not(arrives)});
    context->saved_data["dim"] = dim;
    return result;
  }

  static torch::autograd::variable_list backward(Context* context, const torch::autograd::variable_list& gradients) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const int64_t dim = context->saved_data["dim"].toInt();
    const at::Tensor &index = saved[0], &result = saved[2], &own_counts = saved[3];
    const at::Tensor src_counts = at::eq(saved[1], at::gather(result, dim, index));
    const at::ScalarType dtype = result.scalar_type();
    const at::Tensor share = gradients[0] / own_counts.to(dtype).scatter_add(dim, index, src_counts.to(dtype));
    return {own_counts * share, {}, {}, src_counts * at::gather(share, dim, index), {}, {}};
  }
};

// Reduces the elements that indices can reach.
at::Tensor Reduced(const at::Tensor& own, int64_t dim, const at::Tensor& index, const at::Tensor& src,
                   const std::string& reduce, bool include_self) {
  if (reduce == "prod" || own.size(dim) <= kFewPositions || index.numel() == 0) {
    return ByComparison(own, dim, index, src, reduce, include_self);
  }
  return SortedExtreme::apply(own, dim, index, src, reduce == "amax", include_self);
}

// Puts what indices can reach back among the other elements of `self`.
at::Tensor PutBack(const at::Tensor& reduced, const at::Tensor& self, int64_t dim, const at::Tensor& index) {
  at::Tensor result = reduced;
  std::vector<at::Tensor> outer = {self};
  std::vector<int64_t> dims;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (d == dim || self.size(d) == index.size(d)) continue;
    dims.push_back(d);
    outer.push_back(outer.back().slice(d, 0, index.size(d)));
  }
  for (size_t k = dims.size(); k-- > 0;) {
    result = at::slice_scatter(outer[k], result, dims[k], 0, index.size(dims[k]));
  }
  return result;
}

at::Tensor ScatterReduce(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& src,
                         std::string_view reduce, bool include_self) {
  const std::string kind(reduce);
  TORCH_CHECK(self.scalar_type() == src.scalar_type(), "scatter_reduce: 'src' has dtype ", src.scalar_type(),
              ", but 'self' has ", self.scalar_type());
  if (self.dim() == 0 || index.dim() == 0) {
    const auto row = [](const at::Tensor& t) { return t.dim() == 0 ? t.unsqueeze(0) : t; };
    return ScatterReduce(row(self), 0, row(index), row(src), reduce, include_self).view(self.sizes());
  }
  dim = at::maybe_wrap_dim(dim, self.dim());
  const at::Tensor rows = Cropped(src, index, -1);
  if (kind == "sum" || kind == "mean") return SumOrMean(self, dim, index, rows, kind == "mean", include_self);
  TORCH_CHECK(kind == "prod" || kind == "amax" || kind == "amin", "unsupported scatter_reduce reduction '", kind, "'");
  const at::Tensor own = Cropped(self, index, dim);
  return PutBack(Reduced(own, dim, index, rows, kind, include_self), self, dim, index);
}

// The gradient reads the values before the write.
at::Tensor& ScatterReduceInPlace(at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& src,
                                 std::string_view reduce, bool include_self) {
  return self.copy_(ScatterReduce(self.clone(), dim, index, src, reduce, include_self));
}

// The k-th element that the mask selects is the k-th of `source`.
at::Tensor MaskedScatter(const at::Tensor& self, const at::Tensor& mask, const at::Tensor& source) {
  TORCH_CHECK(self.scalar_type() == source.scalar_type(), "masked_scatter: 'source' has dtype ", source.scalar_type(),
              ", but 'self' has ", self.scalar_type());
  const std::vector<at::Tensor> both = at::broadcast_tensors({self, mask});
  if (both[0].numel() == 0) return both[0].clone();
  const at::Tensor flat = both[1].reshape({-1});
  const at::Tensor place = at::clamp(at::cumsum(flat.to(at::kLong), 0) - 1, 0);
  const at::Tensor taken = at::index_select(source.reshape({-1}), 0, at::where(flat, place, at::Scalar(0)));
  return at::where(both[1], taken.view(both[0].sizes()), both[0]);
}

at::Tensor& MaskedScatterInPlace(at::Tensor& self, const at::Tensor& mask, const at::Tensor& source) {
  return self.copy_(MaskedScatter(self, mask, source));
}

at::Tensor OneHot(const at::Tensor& self, int64_t num_classes) {
  TORCH_CHECK(self.scalar_type() == at::kLong, "one_hot: 'self' has dtype ", self.scalar_type(),
              ", but has to have Long");
  if (num_classes < 0) {
    CurrentRecorder()->ReportUnsupported("aten.one_hot.default",
                                         "it requires num_classes: otherwise the shape depends on data");
    return self.unsqueeze(-1).clone();
  }
  TORCH_CHECK(num_classes > 0, "one_hot: 'num_classes' is 0, but there has to be a class");
  const at::Tensor classes = at::arange(num_classes, at::TensorOptions(at::kLong));
  // Each class is looked up, which checks its range.
  const at::Tensor checked = at::index_select(classes, 0, self.reshape({-1})).view(self.sizes());
  return at::eq(checked.unsqueeze(-1), classes).to(at::kLong);
}

// Counts the elements in each of `bins` equal ranges between min and max, or between the extremes of the data if both
// are equal; then the call ends with an error for data that is not finite. Elements outside of the ranges, NaN
// included, do not count.
at::Tensor Histc(const at::Tensor& self, int64_t bins, const at::Scalar& min, const at::Scalar& max) {
  TORCH_CHECK(bins > 0, "histc expects bins > 0, but got ", bins);
  TORCH_CHECK(self.is_floating_point(), "histc expects a floating point dtype, but got ", self.scalar_type());
  TORCH_CHECK(std::isfinite(min.toDouble()) && std::isfinite(max.toDouble()) && min.toDouble() <= max.toDouble(),
              "histc expects finite bounds with min <= max, but got min=", min.toDouble(), ", max=", max.toDouble());
  const at::Tensor x = self.detach().flatten();
  if (x.numel() == 0) return at::zeros({bins}, x.options());
  at::Tensor low = at::full({}, min, x.options()), high = at::full({}, max, x.options());
  if (min.toDouble() == max.toDouble()) {
    const at::Tensor least = at::amin(x), most = at::amax(x);
    Assert(at::logical_and(at::isfinite(least), at::isfinite(most)), "histc",
           "the data has an infinity or NaN, and no range is given");
    const at::Tensor widen = at::eq(least, most).to(x.scalar_type());
    low = least - widen;
    high = most + widen;
  }
  const at::Tensor inside = at::logical_and(at::ge(x, low), at::le(x, high));
  const at::Tensor place = at::where(inside, (x - low) / (high - low) * bins, at::Scalar(0));
  const at::Tensor index = at::clamp(place.to(at::kLong), 0, bins - 1);
  return at::zeros({bins}, x.options()).scatter_add(0, index, inside.to(x.scalar_type()));
}

// The segments of an axis.
struct Segments {
  at::Tensor begin;  // of the first one, i64 [..., 1]; undefined: 0
  at::Tensor ends;   // of each, i64 [..., segments]
};

// The call ends with an error for lengths that eager refuses. Like eager, it takes offsets as they are.
Segments SegmentsOf(const std::optional<at::Tensor>& lengths, const std::optional<at::Tensor>& offsets, int64_t size,
                    bool unsafe) {
  if (offsets.has_value()) {
    const at::Tensor all = offsets->to(at::kLong);
    return {all.slice(-1, 0, 1), all.slice(-1, 1).contiguous()};
  }
  if (!unsafe) {
    Assert(at::ge(*lengths, 0), "segment_reduce", "a length is negative");
    Assert(at::eq(lengths->sum(-1), size), "segment_reduce", "the lengths do not add up to the size of the axis");
  }
  return {at::Tensor(), at::cumsum(*lengths, -1, at::kLong)};
}

// Returns the number of the segment of each element of the axis, i64 [..., size]; that of the last one plus 1 for
// elements of none.
at::Tensor SegmentNumbers(const Segments& segments, int64_t size) {
  std::vector<int64_t> sizes = segments.ends.sizes().vec();
  sizes.back() = size;
  const at::Tensor place = at::arange(size, at::TensorOptions(at::kLong)).expand(sizes).contiguous();
  const at::Tensor number = at::searchsorted(segments.ends, place, /*out_int32=*/false, /*right=*/true);
  if (!segments.begin.defined()) return number;
  return at::where(at::lt(place, segments.begin), at::Scalar(segments.ends.size(-1)), number);
}

// Scatters the elements to their segments, along the last dimension of lengths or offsets. Elements of no segment go to
// one more, which is cut off.
at::Tensor SegmentReduce(const at::Tensor& data, std::string_view reduce, const std::optional<at::Tensor>& lengths,
                         const std::optional<at::Tensor>& indices, const std::optional<at::Tensor>& offsets,
                         int64_t axis, bool unsafe, const std::optional<at::Scalar>& initial) {
  const bool adds = reduce == "sum" || reduce == "mean";
  TORCH_CHECK(adds || reduce == "prod" || reduce == "max" || reduce == "min", "unsupported segment_reduce '",
              std::string(reduce), "'");
  TORCH_CHECK(!indices.has_value() && lengths.has_value() != offsets.has_value(),
              "segment_reduce expects either lengths or offsets, and no indices");
  axis = at::maybe_wrap_dim(axis, data.dim());
  const int64_t rank = (lengths.has_value() ? lengths : offsets)->dim();
  TORCH_CHECK(axis == rank - 1, "segment_reduce expects axis=", rank - 1,
              ", the last dimension of lengths or offsets, but got ", axis);
  const Segments segments = SegmentsOf(lengths, offsets, data.size(axis), unsafe);
  const int64_t count = segments.ends.size(-1);
  std::vector<int64_t> sizes = data.sizes().vec();
  std::vector<int64_t> outer(sizes.begin(), sizes.begin() + rank);
  outer.resize(sizes.size(), 1);
  const at::Tensor index = SegmentNumbers(segments, data.size(axis)).view(outer).expand(sizes);
  sizes[static_cast<size_t>(axis)] = count + 1;
  const std::string kind = adds ? "sum" : reduce == "prod" ? "prod" : reduce == "max" ? "amax" : "amin";
  const at::Scalar identity = adds ? at::Scalar(0) : Identity(kind, data.scalar_type());
  const at::Tensor start = at::full(sizes, initial.value_or(identity), data.options());
  const auto without_last = [&](const at::Tensor& x) { return x.slice(axis, 0, count); };
  const at::Tensor reduced = without_last(ScatterReduce(start, axis, index, data, kind, /*include_self=*/true));
  if (reduce != "mean") return reduced.clone(at::MemoryFormat::Contiguous);
  const at::Tensor elements = without_last(Arrivals(start, axis, index)).to(data.scalar_type());
  // The mean of an empty segment is NaN, or the initial value.
  if (!initial.has_value()) return reduced / elements;
  return at::where(elements > 0, reduced / at::clamp(elements, 1), *initial);
}

}  // namespace

void AddScatterRewrites(torch::Library& library) {
  library.impl("scatter_reduce.two", ScatterReduce);
  library.impl("scatter_reduce_.two", ScatterReduceInPlace);
  library.impl("masked_scatter", MaskedScatter);
  library.impl("masked_scatter_", MaskedScatterInPlace);
  library.impl("one_hot", OneHot);
  library.impl("histc", Histc);
  library.impl("segment_reduce", SegmentReduce);
}

}  // namespace cotan::aot
