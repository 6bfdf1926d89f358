// SPDX-License-Identifier: Apache-2.0

#include "linking/index_input.h"

#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "serialization/schema/tensor_type.h"

namespace cotan {
namespace {

absl::Status CheckCount(int64_t count) {
  if (count >= 0 && count <= kMaxIndexElements) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a list of ", count, " indices: at most ", kMaxIndexElements));
}

// Returns the storage index of each element in row-major order.
absl::StatusOr<std::vector<int64_t>> Positions(absl::Span<const int64_t> sizes, absl::Span<const int64_t> strides,
                                               int64_t offset) {
  if (sizes.size() != strides.size()) {
    return absl::InvalidArgumentError(absl::StrCat(sizes.size(), " sizes and ", strides.size(), " strides"));
  }
  std::vector<int64_t> positions = {offset};
  for (size_t d = 0; d < sizes.size(); ++d) {
    COTAN_RETURN_IF_ERROR(CheckCount(sizes[d]));
    const int64_t count = static_cast<int64_t>(positions.size()) * sizes[d];
    COTAN_RETURN_IF_ERROR(CheckCount(count));
    std::vector<int64_t> next;
    next.reserve(static_cast<size_t>(count));
    for (const int64_t position : positions) {
      for (int64_t i = 0; i < sizes[d]; ++i) next.push_back(position + i * strides[d]);
    }
    positions = std::move(next);
  }
  return positions;
}

}  // namespace

serialization::IndexInput ToProto(int input, const view::AsStrided& place, const std::optional<SymInt>& extent) {
  serialization::IndexInput index;
  index.set_input(static_cast<uint32_t>(input));
  *index.mutable_place() = ToProto(ViewStep(place)).as_strided();
  if (extent.has_value()) index.set_extent(extent->ToString());
  return index;
}

absl::StatusOr<std::vector<int64_t>> IndexElements(const serialization::IndexInput& index,
                                                   absl::Span<const int64_t> symbols) {
  const serialization::ViewStep::AsStrided& place = index.place();
  COTAN_ASSIGN_OR_RETURN(const DimVector sizes, EvaluateSizes(place.sizes(), symbols));
  COTAN_ASSIGN_OR_RETURN(const DimVector strides, EvaluateSizes(place.strides(), symbols));
  COTAN_ASSIGN_OR_RETURN(const int64_t offset, EvaluateSize(place.offset(), symbols));
  COTAN_ASSIGN_OR_RETURN(std::vector<int64_t> positions, Positions(sizes, strides, offset));
  if (index.extent().empty()) return positions;
  COTAN_ASSIGN_OR_RETURN(const int64_t extent, EvaluateSize(index.extent(), symbols));
  COTAN_RETURN_IF_ERROR(CheckCount(extent));
  std::vector<int64_t> elements(static_cast<size_t>(extent));
  std::iota(elements.begin(), elements.end(), 0);
  int64_t next = extent;
  for (const int64_t position : positions) {
    if (position < 0 || position >= extent) {
      return absl::InvalidArgumentError(absl::StrCat("position ", position, " is outside of [0, ", extent, ")"));
    }
    elements[static_cast<size_t>(position)] = next++;
  }
  return elements;
}

}  // namespace cotan
