// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/expr/expr_kernel.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "kernels/api/expr_program.h"
#include "kernels/cpu/expr/dequantize.h"
#include "kernels/cpu/expr/plan.h"
#include "kernels/cpu/threading/parallel.h"

namespace cotan::cpu {
namespace expr {
namespace {

int64_t Align(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// The extent of a tile, or of a block of reduced values.
struct Extent {
  int64_t rows = 1;
  int64_t cols = 1;
  int64_t count() const { return rows * cols; }
};

template <typename T>
void WritePositions(void* out, const Extent& extent, int64_t start, int64_t row_stride, int64_t col_stride) {
  auto* to = static_cast<T*>(out);
  for (int64_t r = 0; r < extent.rows; ++r) {
    for (int64_t c = 0; c < extent.cols; ++c) *to++ = static_cast<T>(start + r * row_stride + c * col_stride);
  }
}

void WriteIota(DType dtype, void* out, const Extent& extent, int64_t start, int64_t row_stride, int64_t col_stride) {
  switch (dtype) {
    case DType::kUInt8:
    case DType::kInt8:
      return WritePositions<uint8_t>(out, extent, start, row_stride, col_stride);
    case DType::kInt16:
      return WritePositions<int16_t>(out, extent, start, row_stride, col_stride);
    case DType::kInt32:
      return WritePositions<int32_t>(out, extent, start, row_stride, col_stride);
    case DType::kInt64:
      return WritePositions<int64_t>(out, extent, start, row_stride, col_stride);
    case DType::kFloat64:
      return WritePositions<double>(out, extent, start, row_stride, col_stride);
    default:
      return WritePositions<float>(out, extent, start, row_stride, col_stride);
  }
}

// The memory of one run.
struct RunMemory {
  const KernelArgs* args = nullptr;
  char* shared = nullptr;
};

// Executes parts of a plan on one thread. It is constructed for each range of units; its arrays are in the
// scratch.
class Worker {
 public:
  // Returns the bytes of scratch of one worker, registers included.
  static int64_t ScratchBytes(const Plan& plan) {
    const auto pointers = static_cast<int64_t>(sizeof(void*));
    return Align(static_cast<int64_t>(plan.slots.size()) * pointers) +
           Align(static_cast<int64_t>(plan.operands.size()) * pointers) * 2 + plan.register_bytes;
  }

  Worker(const Plan& plan, const TileOps& ops, const RunMemory& memory, char* scratch)
      : plan_(plan), ops_(ops), args_(*memory.args), shared_(memory.shared) {
    const auto pointers = static_cast<int64_t>(sizeof(void*));
    slots_ = reinterpret_cast<char**>(scratch);
    scratch += Align(static_cast<int64_t>(plan.slots.size()) * pointers);
    unit_offsets_ = reinterpret_cast<int64_t*>(scratch);
    scratch += Align(static_cast<int64_t>(plan.operands.size()) * pointers);
    offsets_ = reinterpret_cast<int64_t*>(scratch);
    scratch += Align(static_cast<int64_t>(plan.operands.size()) * pointers);
    registers_ = scratch;
    for (size_t k = 0; k < plan_.operands.size(); ++k) unit_offsets_[k] = offsets_[k] = 0;
    for (size_t s = 0; s < plan_.slots.size(); ++s) slots_[s] = FixedAddress(plan_.slots[s]);
  }

  // Computes the values that all tiles share.
  void RunShared() {
    Execute(plan_.shared_uniform, Extent{});
    Execute(plan_.shared_tile, Extent{plan_.tiling.row_block, plan_.tiling.col_block});
  }

  // Selects the current unit and the memory of its reduced values.
  void EnterUnit(int64_t unit, char* unit_values) {
    const Tiling& tiling = plan_.tiling;
    std::fill_n(unit_offsets_, plan_.operands.size(), 0);
    const Block block = AddOffsets(tiling.unit_loops, unit, unit_offsets_);
    if (tiling.rows_in_units) extent_.rows = Cut(tiling.row_size, tiling.row_block, block.row);
    if (tiling.cols_in_units) extent_.cols = Cut(tiling.col_size, tiling.col_block, block.col);
    std::copy_n(unit_offsets_, plan_.operands.size(), offsets_);
    for (size_t s = 0; s < plan_.slots.size(); ++s) {
      if (plan_.slots[s].kind == Slot::Kind::kUnit) slots_[s] = unit_values + plan_.slots[s].offset;
    }
  }

  void StartUnit() { Execute(plan_.unit_start, UnitExtent()); }

  // Runs one phase over chunks [begin, end) of the current unit. Reductions start with their neutral elements
  // in `totals`.
  void RunPhase(const Phase& phase, int64_t begin, int64_t end, char* totals) {
    totals_ = totals;
    for (const int r : phase.reductions) {
      const Reduction& reduction = plan_.reductions[static_cast<size_t>(r)];
      reduction.fns.init(totals + reduction.total_offset, UnitExtent().count());
    }
    // Reduced values are spread over a whole tile, of which the current one may be a prefix (see Tiling).
    const Extent whole = {plan_.tiling.rows_in_units ? extent_.rows : plan_.tiling.row_block,
                          plan_.tiling.cols_in_units ? extent_.cols : plan_.tiling.col_block};
    Execute(phase.start, whole);
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      EnterChunk(chunk);
      Execute(phase.steps, extent_);
    }
  }

  // Converts totals to reduced values and runs the steps that depend on them.
  void FinishPhase(const Phase& phase, const char* totals) {
    const Extent extent = UnitExtent();
    for (const int r : phase.reductions) {
      const Reduction& reduction = plan_.reductions[static_cast<size_t>(r)];
      char* const out = slots_[reduction.out];
      reduction.fns.finish(out, totals + reduction.total_offset, extent.count());
      if (reduction.round != nullptr) reduction.round(out, out, nullptr, nullptr, extent.count());
    }
    Execute(phase.finish, extent);
  }

  // Combines the totals of the unit's other ranges into the first one, in order.
  void CombineTotals(const Phase& phase, char* totals) {
    for (int64_t split = 1; split < plan_.splits; ++split) {
      for (const int r : phase.reductions) {
        const Reduction& reduction = plan_.reductions[static_cast<size_t>(r)];
        reduction.fns.combine(totals + reduction.total_offset,
                              totals + split * plan_.total_bytes + reduction.total_offset, UnitExtent().count());
      }
    }
  }

 private:
  // The block of rows and the block of columns that the innermost loops are at.
  struct Block {
    int64_t row = 0;
    int64_t col = 0;
  };

  static int64_t Cut(int64_t size, int64_t block, int64_t number) { return std::min(block, size - block * number); }

  char* OperandBase(int operand) const {
    const PlanOperand& o = plan_.operands[static_cast<size_t>(operand)];
    void* const* pointers = o.kind == PlanOperand::Kind::kOutput ? args_.outputs : args_.inputs;
    return static_cast<char*>(pointers[o.index]);
  }

  char* FixedAddress(const Slot& slot) const {
    switch (slot.kind) {
      case Slot::Kind::kConstant:
        return const_cast<char*>(plan_.constants.data()->bytes) + slot.offset;
      case Slot::Kind::kShared:
        return shared_ + slot.offset;
      case Slot::Kind::kRegister:
      case Slot::Kind::kKept:
        return registers_ + slot.offset;
      case Slot::Kind::kMemory:
      case Slot::Kind::kBase:
        return OperandBase(slot.operand);
      case Slot::Kind::kUnit:
        break;
    }
    return nullptr;
  }

  // Adds the offsets of iteration `position` of the loops to `offsets`.
  Block AddOffsets(const std::vector<Tiling::Loop>& loops, int64_t position, int64_t* offsets) const {
    Block block;
    for (size_t l = loops.size(); l-- > 0;) {
      const Tiling::Loop& loop = loops[l];
      if (loop.count == 1) continue;
      const bool last = position < loop.count;
      const int64_t at = last ? position : position % loop.count;
      position = last ? 0 : position / loop.count;
      if (at != 0) {
        for (size_t k = 0; k < plan_.operands.size(); ++k) offsets[k] += at * loop.steps[k];
      }
      SetBlock(loop, at, block);
    }
    return block;
  }

  void SetBlock(const Tiling::Loop& loop, int64_t at, Block& block) const {
    const Tiling& tiling = plan_.tiling;
    if (&loop == RowLoop(tiling)) block.row = at;
    if (&loop == ColLoop(tiling)) block.col = at;
  }

  static const Tiling::Loop* RowLoop(const Tiling& tiling) {
    if (!tiling.rows_in_units) return &tiling.chunk_loops.back();
    return tiling.cols_in_units ? &tiling.unit_loops[tiling.unit_loops.size() - 2] : &tiling.unit_loops.back();
  }
  static const Tiling::Loop* ColLoop(const Tiling& tiling) {
    return tiling.cols_in_units ? &tiling.unit_loops.back() : &tiling.chunk_loops.back();
  }

  Extent UnitExtent() const {
    switch (plan_.tiling.mode) {
      case TileMode::kElements:
        return extent_;
      case TileMode::kRows:
        return {1, extent_.rows};
      case TileMode::kColumns:
        break;
    }
    return {1, extent_.cols};
  }

  void EnterChunk(int64_t chunk) {
    const Tiling& tiling = plan_.tiling;
    if (!tiling.chunk_loops.empty()) {
      std::copy_n(unit_offsets_, plan_.operands.size(), offsets_);
      const Block block = AddOffsets(tiling.chunk_loops, chunk, offsets_);
      if (!tiling.rows_in_units) extent_.rows = Cut(tiling.row_size, tiling.row_block, block.row);
      if (!tiling.cols_in_units) extent_.cols = Cut(tiling.col_size, tiling.col_block, block.col);
    }
    for (size_t s = 0; s < plan_.slots.size(); ++s) {
      const Slot& slot = plan_.slots[s];
      if (slot.kind == Slot::Kind::kMemory) {
        slots_[s] = OperandAddress(slot.operand);
      } else if (slot.kind == Slot::Kind::kKept) {
        slots_[s] = registers_ + slot.offset + chunk * slot.step;
      }
    }
  }

  char* OperandAddress(int operand) const {
    const auto k = static_cast<size_t>(operand);
    return OperandBase(operand) + offsets_[k] * plan_.operands[k].item_bytes;
  }

  void Execute(const std::vector<Step>& steps, const Extent& extent) {
    const int64_t count = extent.count();
    for (const Step& step : steps) {
      switch (step.kind) {
        case Step::Kind::kCompute:
          step.fn(slots_[step.out], slots_[step.in[0]], slots_[step.in[1]], slots_[step.in[2]], count);
          break;
        case Step::Kind::kLoad:
          step.copy(slots_[step.out], OperandAddress(step.operand), extent.rows, extent.cols, step.row_stride,
                    step.col_stride);
          break;
        case Step::Kind::kStore:
          step.copy(OperandAddress(step.operand), slots_[step.in[0]], extent.rows, extent.cols, step.row_stride,
                    step.col_stride);
          break;
        case Step::Kind::kSpread:
          step.copy(slots_[step.out], slots_[step.in[0]], extent.rows, extent.cols, step.row_stride, step.col_stride);
          break;
        case Step::Kind::kReduce:
          Reduce(step, extent);
          break;
        case Step::Kind::kRandom:
          Draw(step, extent);
          break;
        case Step::Kind::kIota:
          WriteIota(step.dtype, slots_[step.out], extent, offsets_[static_cast<size_t>(step.operand)], step.row_stride,
                    step.col_stride);
          break;
      }
    }
  }

  void Reduce(const Step& step, const Extent& extent) {
    const Reduction& reduction = plan_.reductions[static_cast<size_t>(step.index)];
    char* const total = totals_ + reduction.total_offset;
    const char* const tile = slots_[step.in[0]];
    switch (plan_.tiling.mode) {
      case TileMode::kRows:
        return reduction.fns.rows(total, tile, extent.rows, extent.cols);
      case TileMode::kColumns:
        return reduction.fns.cols(total, tile, extent.rows, extent.cols);
      case TileMode::kElements:
        return reduction.fns.cols(total, tile, 1, extent.count());
    }
  }

  void Draw(const Step& step, const Extent& extent) {
    const char* const state = static_cast<const char*>(args_.inputs[step.index]);
    RandomRequest request;
    uint64_t offset = 0;
    std::memcpy(&request.seed, state, sizeof(uint64_t));
    std::memcpy(&offset, state + step.state_stride * static_cast<int64_t>(sizeof(uint64_t)), sizeof(uint64_t));
    request.first_block = offset + step.slice;
    request.index = offsets_[static_cast<size_t>(step.operand)];
    request.rows = extent.rows;
    request.cols = extent.cols;
    request.row_stride = step.row_stride;
    request.col_stride = step.col_stride;
    if (request.col_stride == 1 && (request.rows == 1 || request.row_stride == request.cols)) {
      request.cols *= request.rows;
      request.rows = 1;
    }
    ops_.random(reinterpret_cast<float*>(slots_[step.out]), request);
  }

  const Plan& plan_;
  const TileOps& ops_;
  const KernelArgs& args_;
  char* const shared_;
  char** slots_ = nullptr;
  int64_t* unit_offsets_ = nullptr;  // per operand, elements
  int64_t* offsets_ = nullptr;       // per operand, of the current chunk, elements
  char* registers_ = nullptr;
  char* totals_ = nullptr;
  Extent extent_;  // of the current tile
};

class ExprKernel final : public Kernel {
 public:
  ExprKernel(Plan plan, int threads, double ns_per_thread, const TileOps& ops) : plan_(std::move(plan)), ops_(ops) {
    const double useful = plan_.cost_ns / ns_per_thread;
    threads_ = useful < threads ? std::max(1, static_cast<int>(useful)) : threads;
    // A worker that processes whole units has their reduced values and totals in its own scratch.
    worker_bytes_ = Worker::ScratchBytes(plan_);
    if (plan_.splits == 1) {
      worker_bytes_ += plan_.unit_bytes + plan_.total_bytes;
    } else {
      units_bytes_ = plan_.tiling.units * (plan_.unit_bytes + plan_.splits * plan_.total_bytes);
    }
    scratch_bytes_ = static_cast<size_t>(plan_.shared_bytes + threads_ * worker_bytes_ + units_bytes_);
  }

  absl::Status Run(const KernelArgs& args) override {
    memory_ = {&args, static_cast<char*>(args.scratch)};
    MakeWorker(0).RunShared();
    if (plan_.splits == 1) {
      const int64_t grain = std::max<int64_t>((plan_.tiling.units + threads_ - 1) / threads_, 1);
      ParallelForWorker(threads_, plan_.tiling.units, grain,
                        [this](int worker, int64_t begin, int64_t end) { RunUnits(worker, begin, end); });
    } else {
      RunSplit();
    }
    return absl::OkStatus();
  }

 private:
  char* WorkerScratch(int worker) const { return memory_.shared + plan_.shared_bytes + worker * worker_bytes_; }
  Worker MakeWorker(int worker) const { return Worker(plan_, ops_, memory_, WorkerScratch(worker)); }

  // Runs all phases of units [begin, end), one unit after the other.
  void RunUnits(int number, int64_t begin, int64_t end) const {
    Worker worker = MakeWorker(number);
    char* const values = WorkerScratch(number) + Worker::ScratchBytes(plan_);
    char* const totals = values + plan_.unit_bytes;
    for (int64_t unit = begin; unit < end; ++unit) {
      worker.EnterUnit(unit, values);
      worker.StartUnit();
      for (const Phase& phase : plan_.phases) {
        worker.RunPhase(phase, 0, plan_.tiling.chunks, totals);
        worker.FinishPhase(phase, totals);
      }
    }
  }

  char* UnitValues(int64_t unit) const {
    return memory_.shared + plan_.shared_bytes + threads_ * worker_bytes_ +
           unit * (plan_.unit_bytes + plan_.splits * plan_.total_bytes);
  }
  char* UnitTotals(int64_t unit) const { return UnitValues(unit) + plan_.unit_bytes; }

  // Runs one phase after the other, each over all units with their chunks divided into ranges.
  void RunSplit() const {
    const int64_t units = plan_.tiling.units;
    Worker first = MakeWorker(0);
    for (int64_t unit = 0; unit < units; ++unit) {
      first.EnterUnit(unit, UnitValues(unit));
      first.StartUnit();
    }
    for (const Phase& phase : plan_.phases) {
      ParallelForWorker(threads_, units * plan_.splits, 1, [&](int worker, int64_t begin, int64_t end) {
        for (int64_t part = begin; part < end; ++part) RunPart(phase, worker, part);
      });
      Worker last = MakeWorker(0);
      for (int64_t unit = 0; unit < units; ++unit) {
        last.EnterUnit(unit, UnitValues(unit));
        last.CombineTotals(phase, UnitTotals(unit));
        last.FinishPhase(phase, UnitTotals(unit));
      }
    }
  }

  void RunPart(const Phase& phase, int number, int64_t part) const {
    const int64_t unit = part / plan_.splits;
    const int64_t split = part % plan_.splits;
    const int64_t chunks = plan_.tiling.chunks;
    Worker worker = MakeWorker(number);
    worker.EnterUnit(unit, UnitValues(unit));
    worker.RunPhase(phase, chunks * split / plan_.splits, chunks * (split + 1) / plan_.splits,
                    UnitTotals(unit) + split * plan_.total_bytes);
  }

  const Plan plan_;
  const TileOps& ops_;
  int threads_ = 1;
  int64_t worker_bytes_ = 0;
  int64_t units_bytes_ = 0;
  RunMemory memory_;  // of the run in progress
};

}  // namespace
}  // namespace expr

namespace {

absl::StatusOr<std::unique_ptr<Kernel>> MakeTiled(const ExprProgram& program, const KernelRequest& request,
                                                  const expr::TileOps& ops, double ns_per_thread) {
  COTAN_ASSIGN_OR_RETURN(expr::Plan plan, expr::CompilePlan(program, request, ops));
  return std::make_unique<expr::ExprKernel>(std::move(plan), request.threads, ns_per_thread, ops);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeExprOn(const KernelRequest& request, const expr::TileOps& ops,
                                                   double ns_per_thread) {
  COTAN_ASSIGN_OR_RETURN(const ExprProgram program, ResolveExpr(request));
  return MakeTiled(program, request, ops, ns_per_thread);
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeExprWith(const KernelRequest& request, const ExprOptions& options) {
  return MakeExprOn(request, options.ops != nullptr ? *options.ops : expr::BestTileOps(), options.ns_per_thread);
}

namespace {
absl::StatusOr<std::unique_ptr<Kernel>> MakeByTiles(const KernelRequest& request) { return MakeExprWith(request, {}); }
}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeExpr(const KernelRequest& request) {
  COTAN_ASSIGN_OR_RETURN(const ExprProgram program, ResolveExpr(request));
  COTAN_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, expr::MakeDequantize(program, request, MakeByTiles));
  if (kernel != nullptr) return kernel;
  return MakeTiled(program, request, expr::BestTileOps(), ExprOptions{}.ns_per_thread);
}

absl::Status RegisterExprKernels(KernelRegistry& registry) {
  for (const DType dtype :
       {DType::kBool, DType::kUInt8, DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64, DType::kFloat16,
        DType::kBFloat16, DType::kFloat32, DType::kFloat64, DType::kFloat8E4m3fn, DType::kFloat8E5m2}) {
    COTAN_RETURN_IF_ERROR(registry.Register(DeviceType::kCpu, serialization::Op::kExpr, dtype, MakeExpr));
  }
  return absl::OkStatus();
}

}  // namespace cotan::cpu
