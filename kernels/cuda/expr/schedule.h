// SPDX-License-Identifier: Apache-2.0

// How an expression is spread over blocks and threads. Depends on the expression and its geometry alone.
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
  // Elements of a block from which it is worth another launch to divide them among more blocks.
  int64_t min_split_elements = 65536;
  // Packs that each thread of a part then has at least.
  int64_t min_part_steps = 4;
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
  // If not 0, all phases are one launch and a thread handles this many packs, whose values stay in registers from phase
  // to phase. Otherwise threads loop over packs and compute values again in each phase.
  int steps = 0;
  // Parts of the reduced axis, which blocks of their own handle. With more than one, each phase is a launch that
  // leaves totals in scratch memory; the next one adds them.
  int64_t parts = 1;
  int64_t part_size = 0;

  int64_t KeptCount() const { return kept.Count(); }
  int64_t ReducedCount() const { return reduced.Count(); }
  bool ExactGroups() const { return KeptCount() % groups == 0; }
  // Returns true if all packs are whole, and all threads have `steps` of them.
  bool WholePacks() const { return ReducedCount() % pack == 0; }
  bool ExactSteps() const {
    return steps > 0 && ExactGroups() && ReducedCount() == static_cast<int64_t>(lanes) * steps * pack;
  }
};

// Returns the schedule of an expression with reductions. The domain has kept indices.
Schedule ScheduleReduction(const Problem& problem, const ScheduleOptions& options);

// Returns the schedule of values of one level of an expression without reductions: of all dimensions, or of those that
// are not reduced.
Schedule SchedulePointwise(const Problem& problem, bool full, const ScheduleOptions& options);

}  // namespace cotan::cuda::expr

#endif  // COTAN_KERNELS_CUDA_EXPR_SCHEDULE_H_
