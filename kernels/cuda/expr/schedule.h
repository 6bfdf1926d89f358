// SPDX-License-Identifier: Apache-2.0

// How an expression is spread over blocks and threads. Depends on the expression and its geometry alone.
//
// An expression with reductions is one launch, in one of two forms:
// - A block has all of the reduced axis for its kept indices, and runs all phases.
// - The blocks of a *team* have a part each of the reduced axis for the same kept indices. They run all phases, too,
// and
//   exchange the totals of each, see Team in reduce.cuh.
// In both, values stay in registers between phases if they fit: then each operand passes between memory and the block
// once. Otherwise each phase reads its inputs again, mostly from the L2 cache. Where kept indices are consecutive in
// memory, a block has as few of them as are 32 bytes, the unit of accesses, until the GPU is filled.
//
// The first form uses few multiprocessors if there are few kept indices; the second one waits between phases. The form
// of lower cost is taken, where costs are estimates in instructions of threads: a multiprocessor of an H100 executes
// some 200,000 in a microsecond.
#ifndef COTAN_KERNELS_CUDA_EXPR_SCHEDULE_H_
#define COTAN_KERNELS_CUDA_EXPR_SCHEDULE_H_

#include <cstdint>
#include <vector>

#include "kernels/cuda/expr/analysis.h"
#include "kernels/cuda/expr/geometry.h"

namespace cotan::cuda::expr {

// Choices that tests change, to have small operands take every way.
struct ScheduleOptions {
  // Threads of most blocks: a power of two, at least 32.
  int threads = 256;
  // Multiprocessors of the GPU for which grids are sized: an H100. A constant: results do not depend on the device.
  int processors = 132;
  // Instructions that a multiprocessor executes while blocks exchange totals, of which a thread reads none: half a
  // microsecond. Each total that a thread reads adds half of that.
  int64_t wait_instructions = 100'000;
  // Packs that each thread of a part has at least.
  int64_t min_part_steps = 2;
};

// A *group* of `lanes` threads handles the reduced axis of one kept index; a block has `groups` of them, of consecutive
// kept indices.
struct Schedule {
  enum class Kind : uint8_t {
    kPointwise,  // no reductions: `reduced` has all dimensions, `kept` none
    kRows,       // neighbouring threads are lanes of a group: reduced indices are consecutive in memory
    kColumns,    // neighbouring threads are of different groups: kept indices are consecutive in memory
  };
  Kind kind = Kind::kPointwise;
  Axis kept;
  Axis reduced;
  bool wide = false;  // indices need 64 bits
  int pack = 1;       // consecutive reduced indices per thread and step
  int threads = 256;  // of a block
  int lanes = 1;
  int groups = 1;
  // Kept indices that a group handles one after another. Inputs that are the same for all of them stay in registers.
  int rows = 1;
  // If not 0, a thread handles this many packs, whose values stay in registers from phase to phase. Otherwise threads
  // loop over packs and compute values again in each phase.
  int steps = 0;
  Keep keep = Keep::kNothing;  // of steps
  // Parts of the reduced axis, which blocks of their own handle.
  int64_t parts = 1;
  int64_t part_size = 0;
  // Blocks for which a multiprocessor needs registers at the same time.
  int resident = 1;

  int64_t KeptCount() const { return kept.Count(); }
  int64_t ReducedCount() const { return reduced.Count(); }
  int64_t KeptPerBlock() const { return static_cast<int64_t>(groups) * rows; }
  // Returns the number of blocks, of those with the same part.
  int64_t Tiles() const { return (KeptCount() + KeptPerBlock() - 1) / KeptPerBlock(); }
  bool ExactGroups() const { return KeptCount() % KeptPerBlock() == 0; }
  // Returns true if values in registers leave no room for addresses.
  bool RenewsLane() const { return steps * pack > 16; }
  // Returns the most packs that a thread handles in a phase.
  int64_t PacksPerThread() const {
    const int64_t unit = int64_t{lanes} * pack;
    return ((parts > 1 ? part_size : ReducedCount()) + unit - 1) / unit;
  }
  bool WholePacks() const { return ReducedCount() % pack == 0; }
  // Returns true if all threads with a valid kept index have `steps` whole packs; all threads have one if also
  // ExactGroups().
  bool ExactSteps() const { return steps > 0 && ReducedCount() == parts * lanes * steps * pack; }
};

// Returns the schedule of an expression with reductions. The domain has kept indices.
Schedule ScheduleReduction(const Problem& problem, const ScheduleOptions& options);

// Returns the schedule of values of one level of an expression without reductions: of all dimensions, or of those that
// are not reduced.
Schedule SchedulePointwise(const Problem& problem, bool full, const ScheduleOptions& options);

}  // namespace cotan::cuda::expr

#endif  // COTAN_KERNELS_CUDA_EXPR_SCHEDULE_H_
