#include "serialization/view_geometry.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "serialization/tensor_type.h"

namespace cotan {
namespace {

using serialization::ViewStep;
using SizeTexts = google::protobuf::RepeatedPtrField<std::string>;
using Symbols = absl::Span<const int64_t>;

// `step` does not fit `source`.
absl::Status Misfit(const ViewStep& step, const ViewGeometry& source, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("view ", ViewStepText(step), " of ", DTypeName(source.dtype), ToString(source.layout), ": ", why));
}

bool HasDim(const StridedLayout& layout, uint32_t dim) { return dim < layout.sizes.size(); }

void EraseDim(size_t dim, StridedLayout& layout) {
  layout.sizes.erase(layout.sizes.begin() + static_cast<std::ptrdiff_t>(dim));
  layout.strides.erase(layout.strides.begin() + static_cast<std::ptrdiff_t>(dim));
}

void AppendDim(int64_t size, int64_t stride, StridedLayout& layout) {
  layout.sizes.push_back(size);
  layout.strides.push_back(stride);
}

// A run of dimensions that are contiguous among themselves.
struct Block {
  int64_t size;
  int64_t stride;  // of its innermost element
};

// Innermost block first; dimensions of size 1 belong to none.
std::vector<Block> Blocks(const StridedLayout& layout) {
  std::vector<Block> blocks;
  for (size_t i = layout.sizes.size(); i-- > 0;) {
    if (layout.sizes[i] == 1) continue;
    if (!blocks.empty() && layout.strides[i] == blocks.back().stride * blocks.back().size) {
      blocks.back().size *= layout.sizes[i];
    } else {
      blocks.push_back({layout.sizes[i], layout.strides[i]});
    }
  }
  return blocks;
}

absl::StatusOr<ViewGeometry> ApplyView(const ViewStep& step, ViewGeometry source, Symbols symbols) {
  COTAN_ASSIGN_OR_RETURN(DimVector sizes, EvaluateSizes(step.view().sizes(), symbols));
  const int64_t count = NumElements(source.layout.sizes);
  if (BoundedElements(sizes) != count) return Misfit(step, source, "another number of elements");
  StridedLayout result = {.sizes = sizes, .strides = ContiguousStrides(sizes), .offset = source.layout.offset};
  if (count == 0) return ViewGeometry{source.dtype, std::move(result)};

  const std::vector<Block> blocks = Blocks(source.layout);
  size_t next = 0;
  Block block = {1, 1};  // what is left of the current block
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] != 1 && block.size == 1) block = blocks[next++];
    if (block.size % sizes[i] != 0) {
      return absl::FailedPreconditionError(absl::StrCat("view ", ViewStepText(step), " of ", DTypeName(source.dtype),
                                                        ToString(source.layout), ": only a copy can be seen so"));
    }
    result.strides[i] = block.stride;
    block.stride *= sizes[i];
    block.size /= sizes[i];
  }
  return ViewGeometry{source.dtype, std::move(result)};
}

absl::StatusOr<ViewGeometry> ApplyPermute(const ViewStep& step, const ViewGeometry& source) {
  const auto& dims = step.permute().dims();
  const size_t rank = source.layout.sizes.size();
  std::vector<bool> seen(rank);
  if (static_cast<size_t>(dims.size()) != rank) return Misfit(step, source, "not one entry for each dimension");
  ViewGeometry result{source.dtype, {.sizes = {}, .strides = {}, .offset = source.layout.offset}};
  for (uint32_t dim : dims) {
    if (!HasDim(source.layout, dim) || seen[dim]) return Misfit(step, source, "not a permutation");
    seen[dim] = true;
    AppendDim(source.layout.sizes[dim], source.layout.strides[dim], result.layout);
  }
  return result;
}

absl::StatusOr<ViewGeometry> ApplyExpand(const ViewStep& step, const ViewGeometry& source, Symbols symbols) {
  COTAN_ASSIGN_OR_RETURN(DimVector sizes, EvaluateSizes(step.expand().sizes(), symbols));
  const size_t rank = source.layout.sizes.size();
  if (sizes.size() < rank || sizes.size() > kMaxRank) return Misfit(step, source, "fewer or too many dimensions");
  if (BoundedElements(sizes) < 0) return Misfit(step, source, "a negative size or too many elements");
  StridedLayout result = {.sizes = sizes, .strides = DimVector(sizes.size(), 0), .offset = source.layout.offset};
  const size_t added = sizes.size() - rank;
  for (size_t i = 0; i < rank; ++i) {
    if (source.layout.sizes[i] == sizes[added + i]) {
      result.strides[added + i] = source.layout.strides[i];
    } else if (source.layout.sizes[i] != 1) {
      return Misfit(step, source, absl::StrCat("dimension ", i, " is not of size 1"));
    }
  }
  return ViewGeometry{source.dtype, std::move(result)};
}

absl::StatusOr<ViewGeometry> ApplySlice(const ViewStep& step, ViewGeometry source, Symbols symbols) {
  const ViewStep::Slice& slice = step.slice();
  COTAN_ASSIGN_OR_RETURN(const int64_t start, EvaluateSize(slice.start(), symbols));
  COTAN_ASSIGN_OR_RETURN(const int64_t end, EvaluateSize(slice.end(), symbols));
  COTAN_ASSIGN_OR_RETURN(const int64_t stride, EvaluateSize(slice.step(), symbols));
  if (!HasDim(source.layout, slice.dim())) return Misfit(step, source, "no such dimension");
  int64_t& size = source.layout.sizes[slice.dim()];
  if (start < 0 || start > end || end > size) return Misfit(step, source, "the range leaves the dimension");
  if (stride < 1) return Misfit(step, source, "the step is not positive");
  const int64_t count = end == start ? 0 : (end - start - 1) / stride + 1;
  source.layout.offset += start * source.layout.strides[slice.dim()];
  // A step beyond the range never matters; without it the product may overflow.
  source.layout.strides[slice.dim()] *= std::min(stride, std::max<int64_t>(size, 1));
  size = count;
  return source;
}

absl::StatusOr<ViewGeometry> ApplySelect(const ViewStep& step, ViewGeometry source, Symbols symbols) {
  COTAN_ASSIGN_OR_RETURN(const int64_t index, EvaluateSize(step.select().index(), symbols));
  const uint32_t dim = step.select().dim();
  if (!HasDim(source.layout, dim)) return Misfit(step, source, "no such dimension");
  if (index < 0 || index >= source.layout.sizes[dim]) return Misfit(step, source, "the index leaves the dimension");
  source.layout.offset += index * source.layout.strides[dim];
  EraseDim(dim, source.layout);
  return source;
}

absl::StatusOr<ViewGeometry> ApplyAsStrided(const ViewStep& step, const ViewGeometry& source, Symbols symbols) {
  const ViewStep::AsStrided& as_strided = step.as_strided();
  StridedLayout result;
  COTAN_ASSIGN_OR_RETURN(result.sizes, EvaluateSizes(as_strided.sizes(), symbols));
  COTAN_ASSIGN_OR_RETURN(result.strides, EvaluateSizes(as_strided.strides(), symbols));
  COTAN_ASSIGN_OR_RETURN(result.offset, EvaluateSize(as_strided.offset(), symbols));
  if (result.sizes.size() != result.strides.size()) return Misfit(step, source, "sizes and strides differ in length");
  if (BoundedElements(result.sizes) < 0) return Misfit(step, source, "a negative size or too many elements");
  int64_t last = result.offset;
  bool valid = last >= 0 && last <= kMaxElements;
  for (size_t i = 0; valid && i < result.sizes.size(); ++i) {
    int64_t reach = 0;
    valid = result.strides[i] >= 0 &&
            !__builtin_mul_overflow(result.strides[i], std::max<int64_t>(result.sizes[i], 1), &reach) &&
            !__builtin_add_overflow(last, reach, &last) && last <= kMaxElements;
  }
  if (!valid) return Misfit(step, source, "a negative stride or offset, or too far");
  return ViewGeometry{source.dtype, std::move(result)};
}

absl::StatusOr<ViewGeometry> ApplySqueeze(const ViewStep& step, ViewGeometry source) {
  std::vector<bool> drop(source.layout.sizes.size());
  for (uint32_t dim : step.squeeze().dims()) {
    if (!HasDim(source.layout, dim)) return Misfit(step, source, "no such dimension");
    if (source.layout.sizes[dim] != 1)
      return Misfit(step, source, absl::StrCat("dimension ", dim, " is not of size 1"));
    drop[dim] = true;
  }
  for (size_t i = drop.size(); i-- > 0;) {
    if (drop[i]) EraseDim(i, source.layout);
  }
  return source;
}

absl::StatusOr<ViewGeometry> ApplyUnsqueeze(const ViewStep& step, ViewGeometry source) {
  const uint32_t dim = step.unsqueeze().dim();
  StridedLayout& layout = source.layout;
  if (dim > layout.sizes.size()) return Misfit(step, source, "no such dimension");
  const int64_t stride = HasDim(layout, dim) ? layout.strides[dim] * std::max<int64_t>(layout.sizes[dim], 1) : 1;
  layout.sizes.insert(layout.sizes.begin() + dim, 1);
  layout.strides.insert(layout.strides.begin() + dim, stride);
  return source;
}

absl::StatusOr<ViewGeometry> ApplyDiagonal(const ViewStep& step, ViewGeometry source) {
  const ViewStep::Diagonal& diagonal = step.diagonal();
  StridedLayout& layout = source.layout;
  if (!HasDim(layout, diagonal.dim1()) || !HasDim(layout, diagonal.dim2()) || diagonal.dim1() == diagonal.dim2()) {
    return Misfit(step, source, "no two such dimensions");
  }
  // How far the diagonal starts along either dimension; no further than its end.
  const int64_t rows = layout.sizes[diagonal.dim1()];
  const int64_t columns = layout.sizes[diagonal.dim2()];
  const int64_t offset = std::clamp(diagonal.offset(), -rows, columns);
  const int64_t row = std::max<int64_t>(-offset, 0);
  const int64_t column = std::max<int64_t>(offset, 0);
  const int64_t count = std::max<int64_t>(std::min(rows - row, columns - column), 0);
  const int64_t row_stride = layout.strides[diagonal.dim1()];
  const int64_t column_stride = layout.strides[diagonal.dim2()];
  if (count != 0) layout.offset += row * row_stride + column * column_stride;
  EraseDim(std::max(diagonal.dim1(), diagonal.dim2()), layout);
  EraseDim(std::min(diagonal.dim1(), diagonal.dim2()), layout);
  AppendDim(count, row_stride + column_stride, layout);
  return source;
}

absl::StatusOr<ViewGeometry> ApplyUnfold(const ViewStep& step, ViewGeometry source) {
  const ViewStep::Unfold& unfold = step.unfold();
  StridedLayout& layout = source.layout;
  if (!HasDim(layout, unfold.dim())) return Misfit(step, source, "no such dimension");
  int64_t& size = layout.sizes[unfold.dim()];
  int64_t& stride = layout.strides[unfold.dim()];
  if (unfold.size() < 0 || unfold.size() > size) return Misfit(step, source, "the window leaves the dimension");
  if (unfold.step() < 1) return Misfit(step, source, "the step is not positive");
  const int64_t windows = (size - unfold.size()) / unfold.step() + 1;
  const int64_t element_stride = stride;
  stride *= std::min(unfold.step(), std::max<int64_t>(size, 1));
  size = windows;
  AppendDim(unfold.size(), element_stride, layout);
  if (BoundedElements(layout.sizes) < 0) return Misfit(step, source, "too many elements");
  return source;
}

// Elements of `from` bytes become `ratio` times as many smaller ones.
absl::StatusOr<ViewGeometry> SplitElements(const ViewStep& step, ViewGeometry source, DType dtype, int64_t ratio) {
  StridedLayout& layout = source.layout;
  if (layout.sizes.empty() || layout.strides.back() != 1) {
    return Misfit(step, source, "the last dimension does not have stride 1");
  }
  for (size_t i = 0; i + 1 < layout.strides.size(); ++i) layout.strides[i] *= ratio;
  layout.sizes.back() *= ratio;
  layout.offset *= ratio;
  return ViewGeometry{dtype, std::move(layout)};
}

absl::StatusOr<ViewGeometry> MergeElements(const ViewStep& step, ViewGeometry source, DType dtype, int64_t ratio) {
  StridedLayout& layout = source.layout;
  bool divisible = !layout.sizes.empty() && layout.strides.back() == 1 && layout.sizes.back() % ratio == 0 &&
                   layout.offset % ratio == 0;
  for (size_t i = 0; divisible && i + 1 < layout.strides.size(); ++i) divisible = layout.strides[i] % ratio == 0;
  if (!divisible)
    return Misfit(step, source, absl::StrCat("not divisible into elements of ", ratio, " times the size"));
  for (size_t i = 0; i + 1 < layout.strides.size(); ++i) layout.strides[i] /= ratio;
  layout.sizes.back() /= ratio;
  layout.offset /= ratio;
  return ViewGeometry{dtype, std::move(layout)};
}

absl::StatusOr<ViewGeometry> ApplyDTypeView(const ViewStep& step, ViewGeometry source) {
  const auto dtype = ToDType(step.dtype_view().dtype());
  const auto from = static_cast<int64_t>(ByteSize(source.dtype));
  const auto to = static_cast<int64_t>(ByteSize(dtype));
  if (to == 0) return Misfit(step, source, "an unknown dtype");
  if (from == to) return ViewGeometry{dtype, std::move(source.layout)};
  return from > to ? SplitElements(step, std::move(source), dtype, from / to)
                   : MergeElements(step, std::move(source), dtype, to / from);
}

absl::StatusOr<ViewGeometry> ApplyViewAsReal(const ViewStep& step, ViewGeometry source) {
  if (!IsComplex(source.dtype)) return Misfit(step, source, "not complex");
  for (int64_t& stride : source.layout.strides) stride *= 2;
  source.layout.offset *= 2;
  AppendDim(2, 1, source.layout);
  source.dtype = source.dtype == DType::kComplex64 ? DType::kFloat32 : DType::kFloat64;
  return source;
}

absl::StatusOr<ViewGeometry> ApplyViewAsComplex(const ViewStep& step, ViewGeometry source) {
  StridedLayout& layout = source.layout;
  if (source.dtype != DType::kFloat32 && source.dtype != DType::kFloat64) return Misfit(step, source, "not f32 or f64");
  bool pairs =
      !layout.sizes.empty() && layout.sizes.back() == 2 && layout.strides.back() == 1 && layout.offset % 2 == 0;
  for (size_t i = 0; pairs && i + 1 < layout.strides.size(); ++i) pairs = layout.strides[i] % 2 == 0;
  if (!pairs) return Misfit(step, source, "the last dimension is not pairs of neighbours");
  EraseDim(layout.sizes.size() - 1, layout);
  for (int64_t& stride : layout.strides) stride /= 2;
  layout.offset /= 2;
  source.dtype = source.dtype == DType::kFloat32 ? DType::kComplex64 : DType::kComplex128;
  return source;
}

absl::Status CheckSizes(const SizeTexts& texts, int num_symbols) {
  for (const std::string& text : texts) COTAN_RETURN_IF_ERROR(ParseSize(text, num_symbols).status());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ViewGeometry> ApplyViewStep(const ViewStep& step, const ViewGeometry& source, Symbols symbols) {
  if (source.layout.rank() > kMaxRank) return Misfit(step, source, "too many dimensions");
  switch (step.kind_case()) {
    case ViewStep::kView:
      return ApplyView(step, source, symbols);
    case ViewStep::kPermute:
      return ApplyPermute(step, source);
    case ViewStep::kExpand:
      return ApplyExpand(step, source, symbols);
    case ViewStep::kSlice:
      return ApplySlice(step, source, symbols);
    case ViewStep::kSelect:
      return ApplySelect(step, source, symbols);
    case ViewStep::kAsStrided:
      return ApplyAsStrided(step, source, symbols);
    case ViewStep::kSqueeze:
      return ApplySqueeze(step, source);
    case ViewStep::kUnsqueeze:
      return ApplyUnsqueeze(step, source);
    case ViewStep::kDiagonal:
      return ApplyDiagonal(step, source);
    case ViewStep::kUnfold:
      return ApplyUnfold(step, source);
    case ViewStep::kDtypeView:
      return ApplyDTypeView(step, source);
    case ViewStep::kViewAsReal:
      return ApplyViewAsReal(step, source);
    case ViewStep::kViewAsComplex:
      return ApplyViewAsComplex(step, source);
    case ViewStep::kConjugate:
      if (!IsComplex(source.dtype)) return source;
      return absl::UnimplementedError("a conjugate view of complex numbers is no geometry");
    case ViewStep::kNegate:
      return absl::UnimplementedError("a negative view is no geometry");
    case ViewStep::kDetach:
    case ViewStep::kAlias:
      return source;
    case ViewStep::KIND_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("a view step of a kind that this build does not know");
}

absl::Status CheckViewStep(const ViewStep& step, int num_symbols) {
  switch (step.kind_case()) {
    case ViewStep::kView:
      return CheckSizes(step.view().sizes(), num_symbols);
    case ViewStep::kExpand:
      return CheckSizes(step.expand().sizes(), num_symbols);
    case ViewStep::kSlice:
      COTAN_RETURN_IF_ERROR(ParseSize(step.slice().start(), num_symbols).status());
      COTAN_RETURN_IF_ERROR(ParseSize(step.slice().end(), num_symbols).status());
      return ParseSize(step.slice().step(), num_symbols).status();
    case ViewStep::kSelect:
      return ParseSize(step.select().index(), num_symbols).status();
    case ViewStep::kAsStrided:
      COTAN_RETURN_IF_ERROR(CheckSizes(step.as_strided().sizes(), num_symbols));
      COTAN_RETURN_IF_ERROR(CheckSizes(step.as_strided().strides(), num_symbols));
      return ParseSize(step.as_strided().offset(), num_symbols).status();
    case ViewStep::kDtypeView:
      if (ByteSize(ToDType(step.dtype_view().dtype())) != 0) return absl::OkStatus();
      return absl::InvalidArgumentError("a view step to a dtype that this build does not know");
    case ViewStep::kPermute:
    case ViewStep::kSqueeze:
    case ViewStep::kUnsqueeze:
    case ViewStep::kDiagonal:
    case ViewStep::kUnfold:
    case ViewStep::kViewAsReal:
    case ViewStep::kViewAsComplex:
    case ViewStep::kConjugate:
    case ViewStep::kNegate:
    case ViewStep::kDetach:
    case ViewStep::kAlias:
      return absl::OkStatus();
    case ViewStep::KIND_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("a view step of a kind that this build does not know");
}

std::string ViewStepText(const ViewStep& step) {
  const auto list = [](const auto& items) { return absl::StrJoin(items, ", "); };
  switch (step.kind_case()) {
    case ViewStep::kView:
      return absl::StrCat("view(", list(step.view().sizes()), ")");
    case ViewStep::kPermute:
      return absl::StrCat("permute(", list(step.permute().dims()), ")");
    case ViewStep::kExpand:
      return absl::StrCat("expand(", list(step.expand().sizes()), ")");
    case ViewStep::kSlice:
      return absl::StrCat("slice(dim=", step.slice().dim(), ", ", step.slice().start(), ":", step.slice().end(), ":",
                          step.slice().step(), ")");
    case ViewStep::kSelect:
      return absl::StrCat("select(dim=", step.select().dim(), ", ", step.select().index(), ")");
    case ViewStep::kAsStrided:
      return absl::StrCat("as_strided([", list(step.as_strided().sizes()), "], [", list(step.as_strided().strides()),
                          "], ", step.as_strided().offset(), ")");
    case ViewStep::kSqueeze:
      return absl::StrCat("squeeze(", list(step.squeeze().dims()), ")");
    case ViewStep::kUnsqueeze:
      return absl::StrCat("unsqueeze(", step.unsqueeze().dim(), ")");
    case ViewStep::kDiagonal:
      return absl::StrCat("diagonal(", step.diagonal().dim1(), ", ", step.diagonal().dim2(),
                          ", offset=", step.diagonal().offset(), ")");
    case ViewStep::kUnfold:
      return absl::StrCat("unfold(dim=", step.unfold().dim(), ", size=", step.unfold().size(),
                          ", step=", step.unfold().step(), ")");
    case ViewStep::kDtypeView:
      return absl::StrCat("dtype_view(", DTypeName(ToDType(step.dtype_view().dtype())), ")");
    case ViewStep::kViewAsReal:
      return "view_as_real()";
    case ViewStep::kViewAsComplex:
      return "view_as_complex()";
    case ViewStep::kConjugate:
      return "conjugate()";
    case ViewStep::kNegate:
      return "negate()";
    case ViewStep::kDetach:
      return "detach()";
    case ViewStep::kAlias:
      return "alias()";
    case ViewStep::KIND_NOT_SET:
      break;
  }
  return "unknown()";
}

}  // namespace cotan
