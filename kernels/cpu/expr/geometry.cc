// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/expr/geometry.h"

#include <algorithm>
#include <utility>

#include "base/rounding.h"

namespace cotan::cpu::expr {
namespace {

// Returns true if dimension `a` belongs outside of `b`.
bool IsOuter(const LoopDim& a, const LoopDim& b, absl::Span<const int> priority) {
  for (const int operand : priority) {
    const int64_t stride_a = a.strides[static_cast<size_t>(operand)];
    const int64_t stride_b = b.strides[static_cast<size_t>(operand)];
    if (stride_a == 0 || stride_b == 0 || stride_a == stride_b) continue;
    return stride_a > stride_b;
  }
  return true;  // the order in the domain
}

bool CanMerge(const LoopDim& outer, const LoopDim& inner) {
  if (outer.reduced != inner.reduced) return false;
  for (size_t k = 0; k < outer.strides.size(); ++k) {
    if (outer.strides[k] != inner.strides[k] * inner.size) return false;
  }
  return true;
}

PerOperand Scaled(const PerOperand& strides, int64_t factor) {
  PerOperand scaled = strides;
  for (int64_t& stride : scaled) stride *= factor;
  return scaled;
}

void AddLoop(Tiling::Loop loop, std::vector<Tiling::Loop>& loops) {
  if (loop.count != 1) loops.push_back(std::move(loop));
}

int64_t Product(const std::vector<Tiling::Loop>& loops) {
  int64_t product = 1;
  for (const Tiling::Loop& loop : loops) product *= loop.count;
  return product;
}

// Moves the longest reduced dimension to the innermost place, if that has a short one: rows of tiles are reduced, and
// have one dimension.
void MoveShortReductionOut(std::vector<LoopDim>& dims) {
  constexpr int64_t kShort = 16;
  if (dims.empty() || !dims.back().reduced || dims.back().size >= kShort) return;
  const auto is_shorter = [](const LoopDim& a, const LoopDim& b) {
    return (a.reduced ? a.size : 0) < (b.reduced ? b.size : 0);
  };
  const auto longest = std::max_element(dims.begin(), dims.end(), is_shorter);
  std::rotate(longest, longest + 1, dims.end());
}

// Returns the index of the innermost dimension, other than the last, that is reduced if `reduced` and not
// reduced otherwise; -1 if there is none.
int InnermostOuter(absl::Span<const LoopDim> dims, bool reduced) {
  for (int d = static_cast<int>(dims.size()) - 2; d >= 0; --d) {
    if (dims[static_cast<size_t>(d)].reduced == reduced) return d;
  }
  return -1;
}

}  // namespace

std::vector<LoopDim> OrderLoops(absl::Span<const int64_t> domain_sizes, const std::vector<bool>& reduced,
                                absl::Span<const DimVector> operand_strides, absl::Span<const int> priority) {
  std::vector<LoopDim> dims;
  for (size_t d = 0; d < domain_sizes.size(); ++d) {
    if (domain_sizes[d] == 1) continue;
    LoopDim dim{domain_sizes[d], reduced[d], {}, {static_cast<int64_t>(d)}};
    for (const DimVector& strides : operand_strides) dim.strides.push_back(strides[d]);
    // The stable insertion keeps the domain's order where strides do not decide.
    size_t at = dims.size();
    while (at > 0 && !IsOuter(dims[at - 1], dim, priority)) --at;
    dims.insert(dims.begin() + static_cast<int64_t>(at), std::move(dim));
  }
  std::vector<LoopDim> merged;
  for (LoopDim& dim : dims) {
    if (!merged.empty() && CanMerge(merged.back(), dim)) {
      merged.back().size *= dim.size;
      merged.back().strides = dim.strides;
      merged.back().domain_dims.insert(merged.back().domain_dims.end(), dim.domain_dims.begin(), dim.domain_dims.end());
    } else {
      merged.push_back(std::move(dim));
    }
  }
  MoveShortReductionOut(merged);
  return merged;
}

Tiling MakeTiling(absl::Span<const LoopDim> dims, int num_operands, int64_t max_tile) {
  Tiling tiling;
  tiling.row_strides.assign(static_cast<size_t>(num_operands), 0);
  tiling.col_strides.assign(static_cast<size_t>(num_operands), 0);
  for (const LoopDim& dim : dims) {
    tiling.domain_dims.insert(tiling.domain_dims.end(), dim.domain_dims.begin(), dim.domain_dims.end());
  }
  if (dims.empty()) return tiling;
  const LoopDim& inner = dims.back();
  const bool any_reduced = std::any_of(dims.begin(), dims.end(), [](const LoopDim& dim) { return dim.reduced; });
  if (any_reduced) tiling.mode = inner.reduced ? TileMode::kRows : TileMode::kColumns;
  const int row_dim = InnermostOuter(dims, tiling.mode == TileMode::kColumns);

  tiling.col_size = inner.size;
  tiling.col_strides = inner.strides;
  if (row_dim >= 0) {
    tiling.row_size = dims[static_cast<size_t>(row_dim)].size;
    tiling.row_strides = dims[static_cast<size_t>(row_dim)].strides;
  }
  if (tiling.col_size > max_tile) {
    // Blocks of about equal size, each a multiple of 64 elements.
    const int64_t blocks = CeilDiv(tiling.col_size, max_tile);
    tiling.col_block = std::min(max_tile, CeilDiv(CeilDiv(tiling.col_size, blocks), 64) * 64);
  } else {
    tiling.col_block = std::max<int64_t>(tiling.col_size, 1);
    tiling.row_block = std::clamp<int64_t>(max_tile / tiling.col_block, 1, std::max<int64_t>(tiling.row_size, 1));
  }
  for (int d = 0; d + 1 < static_cast<int>(dims.size()); ++d) {
    const LoopDim& dim = dims[static_cast<size_t>(d)];
    if (d != row_dim) AddLoop({dim.size, dim.strides}, dim.reduced ? tiling.chunk_loops : tiling.unit_loops);
  }
  tiling.rows_in_units = tiling.mode != TileMode::kColumns;
  tiling.cols_in_units = tiling.mode != TileMode::kRows;
  AddLoop(
      {CeilDiv(tiling.row_size, tiling.row_block), Scaled(tiling.row_strides, tiling.row_block), Tiling::Axis::kRows},
      tiling.rows_in_units ? tiling.unit_loops : tiling.chunk_loops);
  AddLoop(
      {CeilDiv(tiling.col_size, tiling.col_block), Scaled(tiling.col_strides, tiling.col_block), Tiling::Axis::kCols},
      tiling.cols_in_units ? tiling.unit_loops : tiling.chunk_loops);
  tiling.units = Product(tiling.unit_loops);
  tiling.chunks = Product(tiling.chunk_loops);
  return tiling;
}

}  // namespace cotan::cpu::expr
