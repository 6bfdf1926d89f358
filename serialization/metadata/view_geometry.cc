// SPDX-License-Identifier: Apache-2.0

#include "serialization/metadata/view_geometry.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "serialization/schema/tensor_type.h"

namespace cotan {
namespace {

using ProtoStep = serialization::ViewStep;
using SizeTexts = google::protobuf::RepeatedPtrField<std::string>;
using Symbols = absl::Span<const int64_t>;

std::string StepAndSource(const ViewStep& step, const ViewGeometry& source) {
  return absl::StrCat("view ", ToString(step), " of ", DTypeName(source.dtype), ToString(source.layout));
}

// Returns the error for a `step` that does not fit `source`.
absl::Status Misfit(const ViewStep& step, const ViewGeometry& source, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(StepAndSource(step, source), ": ", why));
}

bool HasDim(const StridedLayout& layout, int dim) { return dim >= 0 && dim < layout.rank(); }

// Avoids the call for constants.
absl::StatusOr<int64_t> Evaluate(const SymInt& value, Symbols symbols) {
  if (value.is_constant()) return value.constant();
  return value.Evaluate(symbols);
}

absl::StatusOr<DimVector> Evaluate(const SymIntVector& values, Symbols symbols) {
  DimVector result(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    COTAN_ASSIGN_OR_RETURN(result[i], Evaluate(values[i], symbols));
  }
  return result;
}

void EraseDim(int dim, StridedLayout& layout) {
  layout.sizes.erase(layout.sizes.begin() + dim);
  layout.strides.erase(layout.strides.begin() + dim);
}

void AppendDim(int64_t size, int64_t stride, StridedLayout& layout) {
  layout.sizes.push_back(size);
  layout.strides.push_back(stride);
}

// A run of dimensions that are contiguous among themselves.
struct Block {
  int64_t size = 1;
  int64_t stride = 1;  // of its innermost element
};

// Returns the blocks of the layout, innermost first. Dimensions of size 1 fit any block.
std::vector<Block> Blocks(const StridedLayout& layout) {
  std::vector<Block> blocks;
  for (size_t i = layout.sizes.size(); i-- > 0;) {
    if (blocks.empty() || (layout.sizes[i] != 1 && layout.strides[i] != blocks.back().stride * blocks.back().size)) {
      blocks.push_back({layout.sizes[i], layout.strides[i]});
    } else {
      blocks.back().size *= layout.sizes[i];
    }
  }
  if (blocks.empty()) blocks.push_back({});
  return blocks;
}

// Dimensions of size 1 get the strides that they have in PyTorch.
absl::StatusOr<ViewGeometry> Apply(const view::View& step, ViewGeometry source, Symbols symbols) {
  COTAN_ASSIGN_OR_RETURN(DimVector sizes, Evaluate(step.sizes, symbols));
  const int64_t count = NumElements(source.layout.sizes);
  if (BoundedElements(sizes) != count) return Misfit(step, source, "another number of elements");
  if (count == 0 && sizes == source.layout.sizes) return source;
  StridedLayout result = {.sizes = sizes, .strides = ContiguousStrides(sizes), .offset = source.layout.offset};
  if (count == 0) return ViewGeometry{source.dtype, std::move(result)};

  const std::vector<Block> blocks = Blocks(source.layout);
  size_t next = 1;
  Block block = blocks[0];  // what is left of the current block
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] != 1 && block.size == 1) block = blocks[next++];
    if (block.size % sizes[i] != 0) {
      return absl::FailedPreconditionError(StepAndSource(step, source) +
                                           ": the view is not expressible with strides; a copy is required");
    }
    result.strides[i] = block.stride;
    block.stride *= sizes[i];
    block.size /= sizes[i];
  }
  return ViewGeometry{source.dtype, std::move(result)};
}

absl::StatusOr<ViewGeometry> Apply(const view::Permute& step, ViewGeometry source, Symbols symbols) {
  const size_t rank = source.layout.sizes.size();
  std::vector<bool> seen(rank);
  if (step.dims.size() != rank) return Misfit(step, source, "not one entry for each dimension");
  ViewGeometry result{source.dtype, {.sizes = {}, .strides = {}, .offset = source.layout.offset}};
  for (const int dim : step.dims) {
    const auto d = static_cast<size_t>(dim);
    if (!HasDim(source.layout, dim) || seen[d]) return Misfit(step, source, "not a permutation");
    seen[d] = true;
    AppendDim(source.layout.sizes[d], source.layout.strides[d], result.layout);
  }
  return result;
}

absl::StatusOr<ViewGeometry> Apply(const view::Expand& step, ViewGeometry source, Symbols symbols) {
  COTAN_ASSIGN_OR_RETURN(DimVector sizes, Evaluate(step.sizes, symbols));
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
  for (size_t i = added; i-- > 0;) {  // new dimensions of size 1 have the strides that PyTorch gives them
    if (sizes[i] == 1 && rank != 0) result.strides[i] = sizes[i + 1] * result.strides[i + 1];
  }
  return ViewGeometry{source.dtype, std::move(result)};
}

absl::StatusOr<ViewGeometry> Apply(const view::Slice& step, ViewGeometry source, Symbols symbols) {
  COTAN_ASSIGN_OR_RETURN(const int64_t start, Evaluate(step.start, symbols));
  COTAN_ASSIGN_OR_RETURN(const int64_t end, Evaluate(step.end, symbols));
  COTAN_ASSIGN_OR_RETURN(const int64_t every, Evaluate(step.step, symbols));
  if (!HasDim(source.layout, step.dim)) return Misfit(step, source, "no such dimension");
  int64_t& size = source.layout.sizes[static_cast<size_t>(step.dim)];
  int64_t& stride = source.layout.strides[static_cast<size_t>(step.dim)];
  if (start < 0 || start > end || end > size) return Misfit(step, source, "the range leaves the dimension");
  if (every < 1) return Misfit(step, source, "the step is not positive");
  const int64_t count = end == start ? 0 : (end - start - 1) / every + 1;
  source.layout.offset += start * stride;
  // A step beyond the range has no effect, and its product with the stride may overflow.
  stride *= std::min(every, std::max<int64_t>(size, 1));
  size = count;
  return source;
}

absl::StatusOr<ViewGeometry> Apply(const view::Select& step, ViewGeometry source, Symbols symbols) {
  COTAN_ASSIGN_OR_RETURN(const int64_t index, Evaluate(step.index, symbols));
  if (!HasDim(source.layout, step.dim)) return Misfit(step, source, "no such dimension");
  const auto dim = static_cast<size_t>(step.dim);
  if (index < 0 || index >= source.layout.sizes[dim]) return Misfit(step, source, "the index leaves the dimension");
  source.layout.offset += index * source.layout.strides[dim];
  EraseDim(step.dim, source.layout);
  return source;
}

absl::StatusOr<ViewGeometry> Apply(const view::AsStrided& step, ViewGeometry source, Symbols symbols) {
  StridedLayout result;
  COTAN_ASSIGN_OR_RETURN(result.sizes, Evaluate(step.sizes, symbols));
  COTAN_ASSIGN_OR_RETURN(result.strides, Evaluate(step.strides, symbols));
  COTAN_ASSIGN_OR_RETURN(result.offset, Evaluate(step.offset, symbols));
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

absl::StatusOr<ViewGeometry> Apply(const view::Squeeze& step, ViewGeometry source, Symbols symbols) {
  std::vector<bool> drop(source.layout.sizes.size());
  for (const int dim : step.dims) {
    if (!HasDim(source.layout, dim)) return Misfit(step, source, "no such dimension");
    if (source.layout.sizes[static_cast<size_t>(dim)] != 1) {
      return Misfit(step, source, absl::StrCat("dimension ", dim, " is not of size 1"));
    }
    drop[static_cast<size_t>(dim)] = true;
  }
  for (int dim = source.layout.rank(); dim-- > 0;) {
    if (drop[static_cast<size_t>(dim)]) EraseDim(dim, source.layout);
  }
  return source;
}

absl::StatusOr<ViewGeometry> Apply(const view::Unsqueeze& step, ViewGeometry source, Symbols symbols) {
  StridedLayout& layout = source.layout;
  if (step.dim < 0 || step.dim > layout.rank()) return Misfit(step, source, "no such dimension");
  const auto dim = static_cast<size_t>(step.dim);
  const int64_t stride = HasDim(layout, step.dim) ? layout.strides[dim] * layout.sizes[dim] : 1;
  layout.sizes.insert(layout.sizes.begin() + step.dim, 1);
  layout.strides.insert(layout.strides.begin() + step.dim, stride);
  return source;
}

absl::StatusOr<ViewGeometry> Apply(const view::Diagonal& step, ViewGeometry source, Symbols symbols) {
  StridedLayout& layout = source.layout;
  if (!HasDim(layout, step.dim1) || !HasDim(layout, step.dim2) || step.dim1 == step.dim2) {
    return Misfit(step, source, "no two such dimensions");
  }
  const auto dim1 = static_cast<size_t>(step.dim1);
  const auto dim2 = static_cast<size_t>(step.dim2);
  // Start of the diagonal along either dimension, clamped to the dimension's size.
  const int64_t rows = layout.sizes[dim1];
  const int64_t columns = layout.sizes[dim2];
  const int64_t offset = std::clamp(step.offset, -rows, columns);
  const int64_t row = std::max<int64_t>(-offset, 0);
  const int64_t column = std::max<int64_t>(offset, 0);
  const int64_t count = std::max<int64_t>(std::min(rows - row, columns - column), 0);
  const int64_t row_stride = layout.strides[dim1];
  const int64_t column_stride = layout.strides[dim2];
  if (count != 0) layout.offset += row * row_stride + column * column_stride;
  EraseDim(std::max(step.dim1, step.dim2), layout);
  EraseDim(std::min(step.dim1, step.dim2), layout);
  AppendDim(count, row_stride + column_stride, layout);
  return source;
}

absl::StatusOr<ViewGeometry> Apply(const view::Unfold& step, ViewGeometry source, Symbols symbols) {
  StridedLayout& layout = source.layout;
  if (!HasDim(layout, step.dim)) return Misfit(step, source, "no such dimension");
  int64_t& size = layout.sizes[static_cast<size_t>(step.dim)];
  int64_t& stride = layout.strides[static_cast<size_t>(step.dim)];
  if (step.size < 0 || step.size > size) return Misfit(step, source, "the window leaves the dimension");
  if (step.step < 1) return Misfit(step, source, "the step is not positive");
  const int64_t windows = (size - step.size) / step.step + 1;
  const int64_t element_stride = stride;
  stride *= std::min(step.step, std::max<int64_t>(size, 1));
  size = windows;
  AppendDim(step.size, element_stride, layout);
  if (BoundedElements(layout.sizes) < 0) return Misfit(step, source, "too many elements");
  return source;
}

// Splits each element into `ratio` smaller ones.
absl::StatusOr<ViewGeometry> SplitElements(const view::DTypeView& step, ViewGeometry source, int64_t ratio) {
  StridedLayout& layout = source.layout;
  if (layout.sizes.empty() || layout.strides.back() != 1) {
    return Misfit(step, source, "the last dimension does not have stride 1");
  }
  for (size_t i = 0; i + 1 < layout.strides.size(); ++i) layout.strides[i] *= ratio;
  layout.sizes.back() *= ratio;
  layout.offset *= ratio;
  return ViewGeometry{step.dtype, std::move(layout)};
}

absl::StatusOr<ViewGeometry> MergeElements(const view::DTypeView& step, ViewGeometry source, int64_t ratio) {
  StridedLayout& layout = source.layout;
  bool divisible = !layout.sizes.empty() && layout.strides.back() == 1 && layout.sizes.back() % ratio == 0 &&
                   layout.offset % ratio == 0;
  for (size_t i = 0; divisible && i + 1 < layout.strides.size(); ++i) divisible = layout.strides[i] % ratio == 0;
  if (!divisible)
    return Misfit(step, source, absl::StrCat("not divisible into elements of ", ratio, " times the size"));
  for (size_t i = 0; i + 1 < layout.strides.size(); ++i) layout.strides[i] /= ratio;
  layout.sizes.back() /= ratio;
  layout.offset /= ratio;
  return ViewGeometry{step.dtype, std::move(layout)};
}

absl::StatusOr<ViewGeometry> Apply(const view::DTypeView& step, ViewGeometry source, Symbols symbols) {
  const auto from = static_cast<int64_t>(ByteSize(source.dtype));
  const auto to = static_cast<int64_t>(ByteSize(step.dtype));
  if (to == 0) return Misfit(step, source, "an unknown dtype");
  if (from == to) return ViewGeometry{step.dtype, std::move(source.layout)};
  return from > to ? SplitElements(step, std::move(source), from / to)
                   : MergeElements(step, std::move(source), to / from);
}

absl::StatusOr<ViewGeometry> Apply(const view::ViewAsReal& step, ViewGeometry source, Symbols symbols) {
  if (!IsComplex(source.dtype)) return Misfit(step, source, "not complex");
  for (int64_t& stride : source.layout.strides) stride *= 2;
  source.layout.offset *= 2;
  AppendDim(2, 1, source.layout);
  source.dtype = source.dtype == DType::kComplex64 ? DType::kFloat32 : DType::kFloat64;
  return source;
}

absl::StatusOr<ViewGeometry> Apply(const view::ViewAsComplex& step, ViewGeometry source, Symbols symbols) {
  StridedLayout& layout = source.layout;
  if (source.dtype != DType::kFloat32 && source.dtype != DType::kFloat64) return Misfit(step, source, "not f32 or f64");
  bool pairs =
      !layout.sizes.empty() && layout.sizes.back() == 2 && layout.strides.back() == 1 && layout.offset % 2 == 0;
  for (size_t i = 0; pairs && i + 1 < layout.strides.size(); ++i)
    pairs = layout.strides[i] % 2 == 0 || layout.sizes[i] == 1;
  if (!pairs)
    return Misfit(step, source,
                  "the last dimension must have size 2 and stride 1, the other strides and the offset must be even");
  EraseDim(layout.rank() - 1, layout);
  for (int64_t& stride : layout.strides) stride /= 2;
  layout.offset /= 2;
  source.dtype = source.dtype == DType::kFloat32 ? DType::kComplex64 : DType::kComplex128;
  return source;
}

absl::StatusOr<ViewGeometry> Apply(view::Conjugate step, ViewGeometry source, Symbols symbols) {
  if (!IsComplex(source.dtype)) return source;
  return absl::UnimplementedError("a conjugate view of complex numbers has no geometry of its own");
}

absl::StatusOr<ViewGeometry> Apply(view::Negate step, ViewGeometry source, Symbols symbols) {
  return absl::UnimplementedError("a negative view has no geometry of its own");
}

absl::StatusOr<ViewGeometry> Apply(view::Detach step, ViewGeometry source, Symbols symbols) { return source; }

absl::StatusOr<ViewGeometry> Apply(view::Alias step, ViewGeometry source, Symbols symbols) { return source; }

absl::Status CheckSizes(const SizeTexts& texts, int num_symbols) {
  for (const std::string& text : texts) COTAN_RETURN_IF_ERROR(ParseSize(text, num_symbols).status());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ViewGeometry> ApplyViewStep(const ViewStep& step, const ViewGeometry& source, Symbols symbols) {
  if (source.layout.rank() > kMaxRank) return Misfit(step, source, "too many dimensions");
  return std::visit([&](const auto& kind) { return Apply(kind, source, symbols); }, step);
}

absl::StatusOr<ViewGeometry> ApplyViewStep(const ProtoStep& step, const ViewGeometry& source, Symbols symbols) {
  COTAN_ASSIGN_OR_RETURN(const ViewStep typed, ParseViewStep(step, "view step"));
  return ApplyViewStep(typed, source, symbols);
}

absl::Status CheckViewStep(const ProtoStep& step, int num_symbols) {
  switch (step.kind_case()) {
    case ProtoStep::kView:
      return CheckSizes(step.view().sizes(), num_symbols);
    case ProtoStep::kExpand:
      return CheckSizes(step.expand().sizes(), num_symbols);
    case ProtoStep::kSlice:
      COTAN_RETURN_IF_ERROR(ParseSize(step.slice().start(), num_symbols).status());
      COTAN_RETURN_IF_ERROR(ParseSize(step.slice().end(), num_symbols).status());
      return ParseSize(step.slice().step(), num_symbols).status();
    case ProtoStep::kSelect:
      return ParseSize(step.select().index(), num_symbols).status();
    case ProtoStep::kAsStrided:
      COTAN_RETURN_IF_ERROR(CheckSizes(step.as_strided().sizes(), num_symbols));
      COTAN_RETURN_IF_ERROR(CheckSizes(step.as_strided().strides(), num_symbols));
      return ParseSize(step.as_strided().offset(), num_symbols).status();
    case ProtoStep::kDtypeView:
      if (ByteSize(ToDType(step.dtype_view().dtype())) != 0) return absl::OkStatus();
      return absl::InvalidArgumentError("a view step to an unknown dtype; a newer version may have written it");
    case ProtoStep::kPermute:
    case ProtoStep::kSqueeze:
    case ProtoStep::kUnsqueeze:
    case ProtoStep::kDiagonal:
    case ProtoStep::kUnfold:
    case ProtoStep::kViewAsReal:
    case ProtoStep::kViewAsComplex:
    case ProtoStep::kConjugate:
    case ProtoStep::kNegate:
    case ProtoStep::kDetach:
    case ProtoStep::kAlias:
      return absl::OkStatus();
    case ProtoStep::KIND_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("a view step of an unknown kind; a newer version may have written it");
}

std::string ViewStepText(const ProtoStep& step) {
  const auto list = [](const auto& items) { return absl::StrJoin(items, ", "); };
  switch (step.kind_case()) {
    case ProtoStep::kView:
      return absl::StrCat("view(", list(step.view().sizes()), ")");
    case ProtoStep::kPermute:
      return absl::StrCat("permute(", list(step.permute().dims()), ")");
    case ProtoStep::kExpand:
      return absl::StrCat("expand(", list(step.expand().sizes()), ")");
    case ProtoStep::kSlice:
      return absl::StrCat("slice(dim=", step.slice().dim(), ", ", step.slice().start(), ":", step.slice().end(), ":",
                          step.slice().step(), ")");
    case ProtoStep::kSelect:
      return absl::StrCat("select(dim=", step.select().dim(), ", ", step.select().index(), ")");
    case ProtoStep::kAsStrided:
      return absl::StrCat("as_strided([", list(step.as_strided().sizes()), "], [", list(step.as_strided().strides()),
                          "], ", step.as_strided().offset(), ")");
    case ProtoStep::kSqueeze:
      return absl::StrCat("squeeze(", list(step.squeeze().dims()), ")");
    case ProtoStep::kUnsqueeze:
      return absl::StrCat("unsqueeze(", step.unsqueeze().dim(), ")");
    case ProtoStep::kDiagonal:
      return absl::StrCat("diagonal(", step.diagonal().dim1(), ", ", step.diagonal().dim2(),
                          ", offset=", step.diagonal().offset(), ")");
    case ProtoStep::kUnfold:
      return absl::StrCat("unfold(dim=", step.unfold().dim(), ", size=", step.unfold().size(),
                          ", step=", step.unfold().step(), ")");
    case ProtoStep::kDtypeView:
      return absl::StrCat("dtype_view(", DTypeName(ToDType(step.dtype_view().dtype())), ")");
    case ProtoStep::kViewAsReal:
      return "view_as_real()";
    case ProtoStep::kViewAsComplex:
      return "view_as_complex()";
    case ProtoStep::kConjugate:
      return "conjugate()";
    case ProtoStep::kNegate:
      return "negate()";
    case ProtoStep::kDetach:
      return "detach()";
    case ProtoStep::kAlias:
      return "alias()";
    case ProtoStep::KIND_NOT_SET:
      break;
  }
  return "unknown()";
}

}  // namespace cotan
