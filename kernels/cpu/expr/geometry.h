// The index space of an expression as the engine walks it: dimensions in the
// order of memory, merged where every operand allows it, cut into tiles.
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

struct LoopDim {
  int64_t size = 0;
  bool reduced = false;
  PerOperand strides;
};

// Orders the domain's dimensions, outermost first, by the strides of the
// operands (earlier operands in `priority` decide first), drops those of size 1
// and merges neighbours of the same kind that all operands walk as one.
// operand_strides[k] has one stride per domain dimension.
std::vector<LoopDim> OrderLoops(absl::Span<const int64_t> domain_sizes, const std::vector<bool>& reduced,
                                absl::Span<const DimVector> operand_strides, absl::Span<const int> priority);

// How reduced dimensions lie in a tile.
enum class TileMode : uint8_t {
  kElements,  // nowhere: there are none (or all have size 1)
  kRows,      // along the columns of a tile: each of its rows is reduced
  kColumns,   // along the rows of a tile: each of its columns is reduced
};

// The domain as units x chunks x tile. A *unit* is a block of reduced results:
// all that they depend on is visited in its chunks, a tile each. A tile is
// dense as an array [rows, cols] and has either all columns of the innermost
// dimension or one row, so that tiles cut short at the end of a dimension are
// prefixes of whole ones.
struct Tiling {
  struct Loop {
    int64_t count = 0;
    PerOperand steps;  // elements from one iteration to the next
  };
  TileMode mode = TileMode::kElements;
  int64_t row_size = 1;  // of the dimension that the rows of tiles walk
  int64_t col_size = 1;
  int64_t row_block = 1;  // rows of a whole tile
  int64_t col_block = 1;
  PerOperand row_strides;
  PerOperand col_strides;
  // Outermost first. The loops over blocks of rows and columns come last, in
  // this order, in whichever of the lists they belong.
  std::vector<Loop> unit_loops;
  std::vector<Loop> chunk_loops;
  bool rows_in_units = true;  // the loop over blocks of rows is in unit_loops
  bool cols_in_units = true;
  int64_t units = 1;
  int64_t chunks = 1;  // per unit

  // Reduced results of a whole unit.
  int64_t unit_width() const {
    if (mode == TileMode::kElements) return row_block * col_block;
    return mode == TileMode::kRows ? row_block : col_block;
  }
};

Tiling MakeTiling(absl::Span<const LoopDim> dims, int num_operands, int64_t max_tile);

}  // namespace cotan::cpu::expr

#endif  // COTAN_KERNELS_CPU_EXPR_GEOMETRY_H_
