// SPDX-License-Identifier: Apache-2.0

// The index space of an expression as the engine iterates over it: dimensions in the order of memory, merged
// where every operand allows it, cut into tiles.
#ifndef COTAN_KERNELS_CPU_EXPR_GEOMETRY_H_
#define COTAN_KERNELS_CPU_EXPR_GEOMETRY_H_

#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "base/layout.h"

namespace cotan::cpu::expr {

// One number per operand, e.g. a stride in elements.
using PerOperand = absl::InlinedVector<int64_t, 8>;

// A dimension of the domain, or several merged ones, with the stride of each operand.
struct LoopDim {
  int64_t size = 0;
  bool reduced = false;
  PerOperand strides;
  DimVector domain_dims = {};  // outermost first
};

// Orders the domain's dimensions, outermost first, by the strides of the operands (operands earlier in `priority` take
// precedence), drops dimensions of size 1 and merges adjacent ones that are both reduced or both not and that every
// operand addresses with one stride. If the innermost dimension is reduced and short, a longer reduced one takes its
// place. operand_strides[k] has one stride per domain dimension, in elements.
std::vector<LoopDim> OrderLoops(absl::Span<const int64_t> domain_sizes, const std::vector<bool>& reduced,
                                absl::Span<const DimVector> operand_strides, absl::Span<const int> priority);

// The position of reduced dimensions in a tile.
enum class TileMode : uint8_t {
  kElements,  // no reduced dimension (or all have size 1)
  kRows,      // each row of a tile is reduced
  kColumns,   // each column of a tile is reduced
};

// The domain as units x chunks x tile. A *unit* is a block of reduced results; its chunks, one tile each,
// cover all elements that the block depends on. A tile is a dense array [rows, cols] and has either all
// columns of the innermost dimension or one row, so that a tile cut short at the end of a dimension is a
// prefix of a whole one.
struct Tiling {
  // Names what a loop moves over: blocks of rows, blocks of columns, or another dimension.
  enum class Axis : uint8_t { kOther, kRows, kCols };
  struct Loop {
    int64_t count = 0;
    PerOperand steps;  // elements from one iteration to the next
    Axis axis = Axis::kOther;
  };
  TileMode mode = TileMode::kElements;
  int64_t row_size = 1;  // size of the dimension along the rows of tiles
  int64_t col_size = 1;
  int64_t row_block = 1;  // rows of a whole tile
  int64_t col_block = 1;
  PerOperand row_strides;
  PerOperand col_strides;
  // Outermost first, without loops of one iteration. The loops over blocks of rows and of columns come last, in this
  // order, each in the list that rows_in_units or cols_in_units selects.
  std::vector<Loop> unit_loops;
  std::vector<Loop> chunk_loops;
  bool rows_in_units = true;  // the loop over blocks of rows is in unit_loops
  bool cols_in_units = true;
  int64_t units = 1;
  int64_t chunks = 1;  // per unit
  // The dimensions of the domain in the order of the loops, outermost first, without those of size 1.
  DimVector domain_dims;

  // Returns the number of reduced results of a whole unit.
  int64_t unit_width() const {
    if (mode == TileMode::kElements) return row_block * col_block;
    return mode == TileMode::kRows ? row_block : col_block;
  }
};

// Cuts the dimensions of OrderLoops() into tiles of at most `max_tile` elements.
Tiling MakeTiling(absl::Span<const LoopDim> dims, int num_operands, int64_t max_tile);

}  // namespace cotan::cpu::expr

#endif  // COTAN_KERNELS_CPU_EXPR_GEOMETRY_H_
