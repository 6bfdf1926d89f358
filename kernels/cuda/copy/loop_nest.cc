// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/copy/loop_nest.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace cotan::cuda {
namespace {

// Numbers up to this one fit 32 bits with room for the indices of threads beyond the last element.
constexpr int64_t kLargestNarrow = std::numeric_limits<int32_t>::max() - (int64_t{1} << 20);

}  // namespace

LoopNest::LoopNest(absl::Span<const int64_t> sizes, std::initializer_list<absl::Span<const int64_t>> strides) {
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 1) continue;
    LoopDim dim{.size = sizes[d]};
    for (const absl::Span<const int64_t> operand : strides) dim.strides.push_back(operand[d]);
    dims_.push_back(std::move(dim));
  }
}

LoopNest::LoopNest(absl::Span<const LoopDim> dims) {
  absl::c_copy_if(dims, std::back_inserter(dims_), [](const LoopDim& dim) { return dim.size != 1; });
}

void LoopNest::Simplify(size_t operand) {
  std::stable_sort(dims_.begin(), dims_.end(),
                   [operand](const LoopDim& a, const LoopDim& b) { return a.strides[operand] > b.strides[operand]; });
  Merge();
}

void LoopNest::Merge() {
  std::vector<LoopDim> merged;
  for (LoopDim& dim : dims_) {
    bool joins = !merged.empty();
    for (size_t k = 0; joins && k < dim.strides.size(); ++k) {
      joins = merged.back().strides[k] == dim.strides[k] * dim.size;
    }
    if (!joins) {
      merged.push_back(std::move(dim));
      continue;
    }
    merged.back().size *= dim.size;
    merged.back().strides = dim.strides;
  }
  dims_ = std::move(merged);
}

int64_t LoopNest::count() const {
  int64_t count = 1;
  for (const LoopDim& dim : dims_) count *= dim.size;
  return count;
}

int64_t LoopNest::Extent(size_t operand) const {
  int64_t extent = 1;
  for (const LoopDim& dim : dims_) extent += (dim.size - 1) * dim.strides[operand];
  return extent;
}

int64_t LoopNest::VectorSize(absl::Span<const size_t> operands, int64_t max) const {
  if (dims_.empty()) return 1;
  const LoopDim& inner = dims_.back();
  if (!absl::c_all_of(operands, [&](size_t k) { return inner.strides[k] == 1; })) return 1;
  const auto fits = [&](int64_t vector) {
    if (inner.size % vector != 0) return false;
    for (size_t d = 0; d + 1 < dims_.size(); ++d) {
      for (const size_t k : operands) {
        if (dims_[d].strides[k] % vector != 0) return false;
      }
    }
    return true;
  };
  int64_t vector = 1;
  while (vector * 2 <= max && fits(vector * 2)) vector *= 2;
  return vector;
}

LoopNest LoopNest::OfVectors(absl::Span<const size_t> operands, int64_t vector) const {
  LoopNest result = *this;
  if (vector == 1) return result;
  for (LoopDim& dim : result.dims_) {
    for (const size_t k : operands) dim.strides[k] /= vector;
  }
  LoopDim& inner = result.dims_.back();
  for (const size_t k : operands) inner.strides[k] = 1;
  inner.size /= vector;
  if (inner.size == 1) result.dims_.pop_back();
  return result;
}

LoopDim LoopNest::Take(size_t dim) {
  LoopDim taken = std::move(dims_[dim]);
  dims_.erase(dims_.begin() + static_cast<int64_t>(dim));
  return taken;
}

std::string LoopNest::Text() const {
  std::vector<std::string> dims;
  for (size_t d = dims_.size(); d-- > 0;) {
    dims.push_back(absl::StrCat("cotan::Dim<", dims_[d].size, ", ", absl::StrJoin(dims_[d].strides, ", "), ">"));
  }
  return absl::StrCat("cotan::Dims<", absl::StrJoin(dims, ", "), ">");
}

absl::string_view IndexTypeFor(int64_t largest) {
  return largest <= kLargestNarrow ? "cotan::uint32" : "cotan::uint64";
}

std::string Literal(int64_t value) {
  if (value == std::numeric_limits<int64_t>::min()) return "(-9223372036854775807LL - 1)";
  return absl::StrCat(value, "LL");
}

}  // namespace cotan::cuda
