// SPDX-License-Identifier: Apache-2.0

// Executes a plan (plan.h) on one thread.
#ifndef COTAN_KERNELS_CPU_EXPR_WORKER_H_
#define COTAN_KERNELS_CPU_EXPR_WORKER_H_

#include <cstdint>
#include <vector>

#include "kernels/api/kernel.h"
#include "kernels/cpu/expr/plan.h"
#include "kernels/cpu/expr/tile_ops.h"

namespace cotan::cpu::expr {

// The memory of one run.
struct RunMemory {
  const KernelArgs* args = nullptr;
  char* shared = nullptr;  // Plan::shared_bytes
};

// Executes parts of a plan on one thread. It is constructed for each range of units; its arrays are in the
// scratch. The order of the calls is that of plan.h; Finish() comes last.
class Worker {
 public:
  // Returns the bytes of scratch of one worker, registers included.
  static int64_t ScratchBytes(const Plan& plan);

  Worker(const Plan& plan, const TileOps& ops, const RunMemory& memory, char* scratch);

  // Computes the values that all tiles share.
  void RunShared();

  // Selects the current unit and the memory of its reduced values.
  void EnterUnit(int64_t unit, char* unit_values);

  void StartUnit() { Execute(plan_.unit_start, UnitExtent()); }

  // Runs one phase over chunks [begin, end) of the current unit. Reductions start with their neutral elements
  // in `totals`.
  void RunPhase(const Phase& phase, int64_t begin, int64_t end, char* totals);

  // Converts totals to reduced values and runs the steps that depend on them.
  void FinishPhase(const Phase& phase, const char* totals);

  // Combines the totals of the unit's other ranges into the first one, in order.
  void CombineTotals(const Phase& phase, char* totals);

  // Makes the results visible to other threads.
  void Finish();

 private:
  // The extent of a tile, or of a block of reduced values.
  struct Extent {
    int64_t rows = 1;
    int64_t cols = 1;
    int64_t count() const { return rows * cols; }
  };

  // The iteration that nested loops are at.
  struct Cursor {
    int64_t position = kNowhere;
    int64_t inner = 0;  // iteration of the innermost loop
  };
  static constexpr int64_t kNowhere = -2;  // no position follows it

  char* FixedAddress(const Slot& slot) const;
  bool CanStream() const;
  void Seek(const std::vector<Tiling::Loop>& loops, int64_t position, const int64_t* start, int64_t* offsets,
            Cursor& cursor);
  void SetExtent(const Tiling::Loop& loop, int64_t at);
  Extent UnitExtent() const;
  bool IsWholeTile() const { return extent_.rows == plan_.tiling.row_block && extent_.cols == plan_.tiling.col_block; }
  void EnterChunk(int64_t chunk);
  void MoveMemorySlots();
  char* OperandAddress(int operand) const {
    const auto k = static_cast<size_t>(operand);
    return bases_[k] + offsets_[k] * plan_.operands[k].item_bytes;
  }

  void Execute(const std::vector<Step>& steps, const Extent& extent);
  void ExecuteRare(const Step& step, const Extent& extent);
  void Reduce(const Step& step, const Extent& extent);
  void SumProducts(const Step& step, const Extent& extent);
  void Draw(const Step& step, const Extent& extent);

  const Plan& plan_;
  const TileOps& ops_;
  const KernelArgs& args_;
  char* const shared_;
  char** slots_ = nullptr;
  char** bases_ = nullptr;           // per operand, its memory
  int64_t* unit_offsets_ = nullptr;  // per operand, elements
  int64_t* offsets_ = nullptr;       // per operand, of the current chunk, elements
  char* registers_ = nullptr;
  char* totals_ = nullptr;
  bool streams_ = false;  // outputs are written past the caches
  Cursor unit_;
  Cursor chunk_;
  Extent extent_;  // of the current tile
};

}  // namespace cotan::cpu::expr

#endif  // COTAN_KERNELS_CPU_EXPR_WORKER_H_
