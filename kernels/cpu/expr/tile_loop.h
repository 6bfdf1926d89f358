// SPDX-License-Identifier: Apache-2.0

// A loop over the vectors of a tile, as operations in static single assignment form: what a run of steps of a phase
// does, without the memory between the steps. plan_loops.h makes it, tile_code.h generates machine code for it.
#ifndef COTAN_KERNELS_CPU_EXPR_TILE_LOOP_H_
#define COTAN_KERNELS_CPU_EXPR_TILE_LOOP_H_

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "kernels/cpu/expr/code_memory.h"

namespace cotan::cpu::expr {

// Operations on vectors of f32, i32 or bools. Values are numbers of operations; x, y and z are the arguments.
enum class LoopFn : uint8_t {
  kNone,
  // Leaves. They read `slot`.
  kLoad,
  kLoadBFloat16,
  kLoadFlags,  // bools
  kSplat,      // one element for all
  kRowValue,   // element r of the slot for all of row r
  // They write x to `slot`.
  kStore,
  kStoreBFloat16,  // x has that precision
  kStoreFlags,
  kReduce,  // reduction `reduction` accumulates x
  // Functions of x and y.
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMaximum,
  kMinimum,
  // Comparisons of x and y: bools.
  kEq,
  kNe,
  kLt,
  kLe,
  kIntEq,
  kIntNe,
  kIntLt,
  kIntLe,
  // Functions of bools x and y.
  kAnd,
  kOr,
  kXor,
  kSelect,  // y where bools x hold, else z
  kNot,     // of bools x
  kFlagsToFloat,
  // Functions of x.
  kIntToFloat,
  kNeg,
  kAbs,
  kRelu,
  kSqrt,
  kRsqrt,
  kReciprocal,
  kExp,
  kExpm1,
  kLog,
  kLog1p,
  kTanh,
  kErf,
  kLogistic,
  kRoundToBFloat16,
};

struct LoopOp {
  LoopFn fn = LoopFn::kNone;
  bool prefetch = false;  // kLoad, kLoadBFloat16: the operand is not in cache
  uint16_t slot = 0;
  int reduction = 0;  // index in TileLoop::reductions
  std::array<int, 3> args = {-1, -1, -1};
};

// Returns the number of arguments.
inline int NumArgs(LoopFn fn) {
  if (fn <= LoopFn::kRowValue) return 0;
  if (fn <= LoopFn::kReduce) return 1;
  if (fn <= LoopFn::kXor) return 2;
  return fn == LoopFn::kSelect ? 3 : 1;
}

// Returns true if the value of an operation is bools.
inline bool IsFlags(LoopFn fn) {
  return fn == LoopFn::kLoadFlags || fn == LoopFn::kNot || (fn >= LoopFn::kEq && fn <= LoopFn::kXor);
}

// Returns true if an operation is a function of one vector.
inline bool IsVectorFunction(LoopFn fn) { return fn >= LoopFn::kIntToFloat; }

// A reduction of the columns or rows of the tile.
struct LoopReduction {
  bool is_maximum = false;   // of rows; else a sum
  int64_t total_offset = 0;  // of columns: byte offset of the totals, `cols` of f64, in those of a unit
  uint16_t slot = 0;         // of rows: for a vector per row, whose elements are yet to be reduced
};

// A loop over all elements of a dense tile [rows, cols].
struct TileLoop {
  int64_t rows = 1;
  int64_t cols = 1;
  bool reduces_rows = false;  // else columns
  std::vector<LoopOp> ops;    // with values of rows, or reductions of them, only if HasRowCode(cols)
  std::vector<LoopReduction> reductions;
};

// Code of a loop. `slots` are the addresses of all slots, `registers` the memory of those of kind kRegister, `totals`
// those of the unit.
using TileCodeFn = void (*)(char* const* slots, char* registers, char* totals);

// The code of several loops.
struct TileCode {
  CodeMemory memory;
  std::vector<TileCodeFn> loops;  // null for loops without code
};

// Generates code for loops; tile_code.h.
using GenerateTileCodeFn = std::shared_ptr<const TileCode> (*)(absl::Span<const TileLoop> loops,
                                                               absl::Span<const int64_t> register_offsets);

// Elements of the vectors of generated code.
inline constexpr int64_t kCodeLanes = 16;

// Returns how many rows of `cols` columns, a multiple of kCodeLanes, a sum of columns processes as one. The order of
// additions is that of ReduceColsOf() in tile_reduce.h.
int64_t StackedRows(int64_t rows, int64_t cols);

// Returns true if loops may reduce the columns of tiles [rows, cols].
bool CanReduceColumns(int64_t rows, int64_t cols);

// Returns true if loops may go row by row over tiles with rows of `cols` elements, to reduce them or to use one value
// for each: at most a third more elements are computed than there are, because the last vector of a row overlaps.
bool HasRowCode(int64_t cols);

}  // namespace cotan::cpu::expr

#endif  // COTAN_KERNELS_CPU_EXPR_TILE_LOOP_H_
