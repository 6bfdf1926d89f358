// SPDX-License-Identifier: Apache-2.0

// How the right operand of a product is cut into blocks, each of which an expression computes.
#ifndef COTAN_KERNELS_CPU_MATMUL_OPERAND_BLOCKS_H_
#define COTAN_KERNELS_CPU_MATMUL_OPERAND_BLOCKS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "kernels/api/computed_operand.h"
#include "kernels/api/kernel.h"
#include "kernels/cpu/matmul/matmul_geometry.h"
#include "serialization/schema/program.pb.h"

namespace cotan::cpu {

// Rows or columns of the operand [k, n] as indices of the expression's domain: those of dimension `dim`, each with the
// `unit` rows or columns of the dimensions that follow. Without a dimension (-1) they are one unit, which is not cut.
struct OperandSide {
  int dim = -1;
  int64_t unit = 1;
};

// The blocks of an operand [k, n]: `depth` rows and `width` columns, multiples of the units except for the last block.
struct OperandBlocks {
  MatmulGeometry geometry;
  bool by_columns = false;  // a column of the operand is dense in memory, not a row
  size_t num_row_dims =
      0;  // the first dimensions of the domain, which are the rows in memory: of k, or by columns of n
  OperandSide k;
  OperandSide n;
  int64_t depth = 0;
  int64_t width = 0;

  // Returns the elements from one row to the next in the memory of a block with rows of `length` elements.
  int64_t RowStride(int64_t length) const;
  // Returns the most elements of a block's memory.
  int64_t BlockElements() const { return by_columns ? width * RowStride(depth) : depth * RowStride(width); }
};

// The expression of one block. Owns what the request borrows, except the symbols.
struct BlockExpression {
  serialization::Op op;
  std::vector<TensorSpec> inputs;
  TensorSpec output;
  absl::Span<const int64_t> symbols;

  KernelRequest Request() const { return {.op = op, .inputs = inputs, .outputs = {&output, 1}, .symbols = symbols}; }
};

// Returns the blocks of the computed operand, or nothing if the pair is better executed as two ops, or cannot be cut:
// - the product is of f32, with a row-major result and one right matrix for the whole batch;
// - the operand is larger than a block, and the rows and the columns are dimensions of the domain;
// - the expression has no reduction and no random number. Dimensions along which it uses the position are not cut.
// Sums are cut only where MakeAvx512Gemm() and PortableGemm() cut them, so that those give the bits of a whole product.
std::optional<OperandBlocks> FindOperandBlocks(const ComputedOperandRequest& request);

// Returns the expression of a block of `rows` x `columns` of the operand. Its output is in the order of the operand's
// memory, with rows RowStride() apart.
BlockExpression ExpressionOfBlock(const OperandBlocks& blocks, const KernelRequest& expression, int64_t rows,
                                  int64_t columns);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_MATMUL_OPERAND_BLOCKS_H_
