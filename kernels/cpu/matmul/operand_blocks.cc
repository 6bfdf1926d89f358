// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/matmul/operand_blocks.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "kernels/api/expr_program.h"
#include "kernels/cpu/matmul/matmul_steps.h"

namespace cotan::cpu {
namespace {

// A block of kDepth x kWidth floats has 128 KiB: with its packed form and as many rows of the left matrix, half of a
// second-level cache of 1 MiB. Both kernels of products cut sums at multiples of kDepth.
constexpr int64_t kDepth = 512;
constexpr int64_t kWidth = 64;
constexpr int64_t kMaxElements = 2 * kDepth * kWidth;

// Products read a block that is stored by columns across its rows. The gap spreads them over the sets of a cache.
constexpr int64_t kGap = 16;

// Returns the first dimension in [begin, end) that is not 1, with the product of those after it.
OperandSide SideOf(absl::Span<const int64_t> sizes, size_t begin, size_t end) {
  while (begin + 1 < end && sizes[begin] == 1) ++begin;
  OperandSide side = {.dim = static_cast<int>(begin)};
  for (size_t d = begin + 1; d < end; ++d) side.unit *= sizes[d];
  return side;
}

// Finds the sides of a matrix [rows, columns] that is stored row by row in the order of the domain.
bool FindSides(absl::Span<const int64_t> sizes, int64_t rows, int64_t columns, OperandBlocks& blocks) {
  int64_t outer = 1;
  size_t split = 0;
  while (split < sizes.size() && outer < rows) outer *= sizes[split++];
  if (outer != rows || split == 0 || split == sizes.size() || NumElements(sizes) != rows * columns) return false;
  blocks.num_row_dims = split;
  (blocks.by_columns ? blocks.n : blocks.k) = SideOf(sizes, 0, split);
  (blocks.by_columns ? blocks.k : blocks.n) = SideOf(sizes, split, sizes.size());
  return true;
}

// Returns true if no value depends on others, or on random numbers.
bool IsPointwise(const ExprProgram& program) {
  return !program.has_reduce_dims && std::none_of(program.nodes.begin(), program.nodes.end(), [](const ExprNode& node) {
    return node.fn == serialization::FN_RANDOM_UNIFORM;
  });
}

// Makes a side of `extent` rows or columns one unit if values depend on the position along its dimension.
void KeepPositions(const ExprProgram& program, int64_t extent, OperandSide& side) {
  const bool has_position = std::any_of(program.nodes.begin(), program.nodes.end(), [&](const ExprNode& node) {
    return node.fn == serialization::FN_IOTA && node.index == side.dim;
  });
  if (has_position) side = {.dim = -1, .unit = extent};
}

// Sets the sizes of a block. Returns false if it would be too large, or the whole operand.
bool ChooseSizes(OperandBlocks& blocks) {
  const int64_t k = blocks.geometry.k;
  const int64_t n = blocks.geometry.n;
  if (k * n <= kDepth * kWidth) return false;
  blocks.depth = k <= kDepth || kDepth % blocks.k.unit != 0 ? k : kDepth;
  const int64_t most = std::min(kWidth, kMaxElements / blocks.depth);
  blocks.width = std::max(most / blocks.n.unit, int64_t{1}) * blocks.n.unit;
  return blocks.depth * blocks.width <= kMaxElements;
}

bool IsMatmulOfFloats(const KernelRequest& product) {
  if (!product.op.has_matmul() || product.op.matmul().has_epilogue() || product.inputs.size() < 2) return false;
  return product.outputs.size() == 1 && product.outputs[0].dtype == DType::kFloat32;
}

}  // namespace

int64_t OperandBlocks::RowStride(int64_t length) const { return by_columns ? length + kGap : length; }

std::optional<OperandBlocks> FindOperandBlocks(const ComputedOperandRequest& request) {
  if (!IsMatmulOfFloats(request.product)) return std::nullopt;
  absl::StatusOr<MatmulGeometry> geometry = AnalyzeMatmul(request.product);
  if (!geometry.ok() || geometry->IsEmpty() || geometry->k == 0 || RepeatsProducts(*geometry)) return std::nullopt;
  const bool has_one_matrix =
      std::all_of(geometry->batch.begin(), geometry->batch.end(), [](const BatchLoop& loop) { return loop.b == 0; });
  if (!has_one_matrix) return std::nullopt;
  OperandBlocks blocks;
  blocks.geometry = *std::move(geometry);
  const MatmulGeometry& g = blocks.geometry;
  if (!IsRowMajor(g.n, NormalizeUnitStrides(g.m, g.n, g.c))) return std::nullopt;
  const MatrixStrides strides = NormalizeUnitStrides(g.k, g.n, g.b);
  const bool by_rows = strides.column == 1 && strides.row == g.n;
  blocks.by_columns = !by_rows && strides.row == 1 && strides.column == g.k;
  if (!by_rows && !blocks.by_columns) return std::nullopt;
  const absl::StatusOr<ExprProgram> program = ResolveExpr(request.expression);
  if (!program.ok() || request.expression.outputs[0].dtype != DType::kFloat32) return std::nullopt;
  const bool has_sides = FindSides(program->domain_sizes, by_rows ? g.k : g.n, by_rows ? g.n : g.k, blocks);
  if (!has_sides || !IsPointwise(*program)) return std::nullopt;
  KeepPositions(*program, g.k, blocks.k);
  KeepPositions(*program, g.n, blocks.n);
  return ChooseSizes(blocks) ? std::optional(std::move(blocks)) : std::nullopt;
}

BlockExpression ExpressionOfBlock(const OperandBlocks& blocks, const KernelRequest& expression, int64_t rows,
                                  int64_t columns) {
  BlockExpression block = {
      .op = expression.op, .inputs = {}, .output = expression.outputs[0], .symbols = expression.symbols};
  const int rank = block.output.layout.rank();
  for (const auto& [side, extent] : {std::pair(blocks.k, rows), std::pair(blocks.n, columns)}) {
    if (side.dim >= 0) block.output.layout.sizes[static_cast<size_t>(side.dim)] = extent / side.unit;
  }
  block.output.layout.strides = ContiguousStrides(block.output.layout.sizes);
  const int64_t length = blocks.by_columns ? rows : columns;
  for (size_t d = 0; d < blocks.num_row_dims; ++d) {
    int64_t& stride = block.output.layout.strides[d];
    stride = stride / length * blocks.RowStride(length);
  }
  for (int d = 0; d < rank; ++d) {
    block.op.mutable_expr()->set_domain_sizes(d, absl::StrCat(block.output.layout.sizes[static_cast<size_t>(d)]));
  }
  for (TensorSpec input : expression.inputs) {
    const int missing = rank - input.layout.rank();
    for (const OperandSide& side : {blocks.k, blocks.n}) {
      if (side.dim < 0 || side.dim < missing) continue;
      int64_t& size = input.layout.sizes[static_cast<size_t>(side.dim - missing)];
      if (size != 1) size = block.output.layout.sizes[static_cast<size_t>(side.dim)];
    }
    block.inputs.push_back(std::move(input));
  }
  return block;
}

}  // namespace cotan::cpu
