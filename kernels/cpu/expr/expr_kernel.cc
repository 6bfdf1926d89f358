// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/expr/expr_kernel.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "kernels/api/expr_program.h"
#include "kernels/cpu/expr/dequantize.h"
#include "kernels/cpu/expr/plan.h"
#include "kernels/cpu/expr/transposition.h"
#include "kernels/cpu/expr/worker.h"
#include "kernels/cpu/threading/parallel.h"

namespace cotan::cpu {
namespace expr {
namespace {

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
    if (!plan_.shared_uniform.empty() || !plan_.shared_tile.empty()) MakeWorker(0).RunShared();
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
    worker.Finish();
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
    worker.Finish();
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
  expr::Transposition transposition(request, plan);
  if (!transposition.IsNeeded()) {
    return std::make_unique<expr::ExprKernel>(std::move(plan), request.threads, ns_per_thread, ops);
  }
  const KernelRequest in_order = transposition.InOrder(request);
  COTAN_ASSIGN_OR_RETURN(const ExprProgram program_in_order, ResolveExpr(in_order));
  COTAN_ASSIGN_OR_RETURN(plan, expr::CompilePlan(program_in_order, in_order, ops));
  return transposition.Around(std::make_unique<expr::ExprKernel>(std::move(plan), request.threads, ns_per_thread, ops),
                              request);
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
