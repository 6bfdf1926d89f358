// SPDX-License-Identifier: Apache-2.0

// An expression compiled for one set of sizes and strides: the program that the kernel executes.
//
// The domain is cut into tiles, small dense arrays that fit in cache. A *chunk* is one tile of work, a *unit*
// a block of reduced results with all chunks that it depends on (see Tiling). A *phase* is one pass over the
// chunks of a unit: a reduction must be complete before a value that depends on it, so each level of
// dependent reductions adds a phase. A *total* is the accumulator of a reduction.
//
// Values are in *slots*, pointers that a worker sets up: registers in its scratch, memory of operands whose
// tiles are dense, or values that all tiles share and that are computed once per run. Steps are grouped by
// how often they run:
//
//   shared steps                          once per run
//   for each unit:
//     unit_start                          reduced values that need no reduction
//     for each phase:
//       start                             spreads reduced values over a tile
//       for each chunk: steps             one tile; reductions accumulate it
//       finish                            reduced values from the totals
//
// A value that a later phase needs again is recomputed, or *kept* for all chunks of the unit if it is
// expensive and the kept values fit in the cache.
#ifndef COTAN_KERNELS_CPU_EXPR_PLAN_H_
#define COTAN_KERNELS_CPU_EXPR_PLAN_H_

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/api/expr_program.h"
#include "kernels/api/kernel.h"
#include "kernels/cpu/expr/geometry.h"
#include "kernels/cpu/expr/tile_loop.h"
#include "kernels/cpu/expr/tile_ops.h"

namespace cotan::cpu::expr {

// An operand that tiles address with strides.
struct PlanOperand {
  enum class Kind : uint8_t {
    kInput,
    kOutput,
    kPosition,  // no memory: the value is the offset itself (iota, random positions)
  };
  Kind kind = Kind::kPosition;
  int index = 0;  // of the op's input or output
  int64_t item_bytes = 0;
};

// The place of a value; a worker turns it into a pointer.
struct Slot {
  enum class Kind : uint8_t {
    kConstant,  // offset in Plan::constants
    kShared,    // offset in the run's shared scratch
    kRegister,  // offset in the worker's scratch
    kKept,      // offset in the worker's scratch, plus the chunk's number times `step`
    kUnit,      // offset in the reduced values of the unit
    kMemory,    // the tile in the memory of operand `operand`
    kStreamed,  // the same, or `offset` in the worker's scratch if the run streams (see Plan::streams)
    kBase,      // the first element of operand `operand`
  };
  Kind kind = Kind::kRegister;
  int operand = 0;
  int64_t offset = 0;  // bytes
  int64_t step = 0;    // bytes
};

// One call of an inner loop on a tile, or on a block of reduced values.
struct Step {
  enum class Kind : uint8_t {
    kCompute,      // out = fn(in...)
    kLoad,         // out = operand, strided
    kStore,        // operand = in[0], strided
    kStream,       // operand = in[0], past the caches; nothing if the run does not stream
    kSpread,       // out[r, c] = in[0][r * row_stride + c * col_stride]
    kReduce,       // reduction `index` accumulates in[0]
    kSumProducts,  // reduction `index` accumulates in[0] * in[1]
    kFinishRows,   // reduction `index` accumulates in[0], a vector of generated code per row
    kRandom,       // out = draws at positions of `operand`, state in op input `index`
    kIota,         // out = positions of `operand`
    kChain,        // runs Plan::chain_ops from `index` on, `count` of them
    kCode,         // runs `code`, on whole tiles only
  };
  Kind kind = Kind::kCompute;
  DType dtype = DType::kUndefined;         // kIota, kSpread; kCompute: of the operands (of a select, its branches)
  DType result_dtype = DType::kUndefined;  // kCompute: of a cast
  uint16_t out = 0;
  std::array<uint16_t, 3> in = {0, 0, 0};
  int operand = 0;
  int index = 0;
  int count = 0;
  // kCompute: what fn computes, unless it rounds; bit k of `scalars` is set if operand k is one element for all.
  serialization::ScalarFn function = serialization::SCALAR_FN_UNSPECIFIED;
  Contraction contraction = Contraction::kNone;
  uint8_t scalars = 0;
  // kLoad: in[0] is the memory, a dense tile of bf16; kStore: `out` is; kCompute: rounds to bf16.
  bool bfloat16 = false;
  bool is_dense = false;  // kStore of f32 or bools: `out` is the memory, a dense tile
  TileFn fn = nullptr;
  CopyFn copy = nullptr;
  TileCodeFn code = nullptr;
  int64_t row_stride = 0;
  int64_t col_stride = 0;
  uint64_t slice = 0;        // kRandom: first block, relative to the state's offset
  int64_t state_stride = 0;  // kRandom: elements between seed and offset
};

// Returns the function of a step if it is one of f32, otherwise SCALAR_FN_UNSPECIFIED.
inline serialization::ScalarFn F32FunctionOf(const Step& step) {
  return step.dtype == DType::kFloat32 ? step.function : serialization::SCALAR_FN_UNSPECIFIED;
}

// A reduction, its result and its accumulator.
struct Reduction {
  serialization::ScalarFn function = serialization::SCALAR_FN_UNSPECIFIED;
  DType dtype = DType::kUndefined;  // of the registers
  ReduceFns fns;
  uint16_t out = 0;          // a unit slot
  int64_t total_offset = 0;  // byte offset in the totals of a unit
  TileFn round = nullptr;    // rounds the result to f16 or bf16
};

// One pass over the chunks of a unit.
struct Phase {
  std::vector<Step> start;
  std::vector<Step> steps;
  std::vector<Step> whole_tile_start;  // the same as `start` and `steps` for whole tiles, with generated code
  std::vector<Step> whole_tile_steps;
  std::vector<int> reductions;  // indexes into Plan::reductions
  std::vector<Step> finish;
};

// A compiled expression, immutable. Scratch sizes are bytes, multiples of 64.
struct Plan {
  Tiling tiling;
  std::vector<PlanOperand> operands;
  std::vector<Slot> slots;
  // Indexes of the slots whose addresses change: those of kind kUnit, kMemory, kStreamed and kKept.
  std::vector<uint16_t> unit_slots;
  std::vector<uint16_t> memory_slots;
  std::vector<uint16_t> streamed_slots;
  std::vector<uint16_t> kept_slots;
  std::vector<Step> shared_uniform;  // on one element
  std::vector<Step> shared_tile;     // on a whole tile
  std::vector<Step> unit_start;
  std::vector<Phase> phases;
  std::vector<Reduction> reductions;
  std::vector<ChainOp> chain_ops;        // of all steps of kind kChain
  std::shared_ptr<const TileCode> code;  // of steps of kind kCode; null if there is no generator
  // True if the operands do not fit in the caches. Chains then prefetch them.
  bool exceeds_caches = false;
  // True if outputs may be written past the caches, because `exceeds_caches` and the processor has such stores, which
  // do not read the line first. A run does so unless an output shares memory with an input, which has read it.
  bool streams = false;
  // Number of ranges into which the chunks of a unit are divided, so that several workers can share a unit.
  // It does not depend on the thread count.
  int64_t splits = 1;

  struct alignas(64) Block {
    char bytes[64];
  };
  std::vector<Block> constants;
  int64_t shared_bytes = 0;
  int64_t register_bytes = 0;  // per worker: registers and kept values
  int64_t unit_bytes = 0;      // per unit in flight: reduced values
  int64_t total_bytes = 0;     // per unit in flight and split
  double cost_ns = 0;          // rough estimate of a run on one thread
};

// Compiles `program`, the resolved op of `request`. `ops` outlives the plan.
// Unimplemented: `ops` lacks a function for a dtype; the message names both.
absl::StatusOr<Plan> CompilePlan(const ExprProgram& program, const KernelRequest& request, const TileOps& ops);

}  // namespace cotan::cpu::expr

#endif  // COTAN_KERNELS_CPU_EXPR_PLAN_H_
