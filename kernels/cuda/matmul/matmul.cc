// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/matmul/matmul.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "base/layout.h"
#include "base/status_macros.h"
#include "kernels/api/matmul_epilogue.h"
#include "kernels/api/op_check.h"
#include "kernels/cuda/expr/analysis.h"
#include "kernels/cuda/matmul/library_matmul.h"
#include "kernels/cuda/matmul/matmul_problem.h"
#include "kernels/cuda/matmul/strided_copy.h"
#include "kernels/cuda/matmul/tiled_matmul.h"

namespace cotan::cuda {
namespace {

constexpr int64_t kScratchAlignment = 64;

enum class Kernels : uint8_t { kFastest, kTiled };

// Returns whether the tiled kernel is expected to be faster than `num_launches` with cuBLASLt.
bool PrefersTiled(const MatmulProblem& problem, int64_t num_launches) {
  const double pairs = static_cast<double>(problem.m) * static_cast<double>(problem.n) *
                       static_cast<double>(problem.k) * static_cast<double>(problem.BatchSize());
  return IsSmallProduct(problem.dtype, pairs, static_cast<double>(problem.k), static_cast<double>(num_launches - 1));
}

// Sets d to c, or to 0.
KernelLaunch PlanSumOverNothing(const MatmulProblem& problem, bool is_guarded) {
  StridedCopy copy = {.element_bytes = ByteSize(problem.dtype),
                      .dimensions = {},
                      .from = std::nullopt,
                      .to = problem[kMatmulD].argument,
                      .is_guarded = is_guarded};
  if (problem.has_c) copy.from = problem[kMatmulC].argument;
  const MatmulMatrix& c = problem[kMatmulC];
  const MatmulMatrix& d = problem[kMatmulD];
  copy.dimensions = {{problem.m, c.row_stride, d.row_stride}, {problem.n, c.column_stride, d.column_stride}};
  for (const MatmulBatch& dimension : problem.batch) {
    copy.dimensions.push_back({dimension.size, dimension.strides[kMatmulC], dimension.strides[kMatmulD]});
  }
  return PlanStridedCopy(copy);
}

KernelPlan PlanProblem(const MatmulProblem& problem, Kernels kernels, bool is_guarded, int64_t scratch_begin) {
  KernelPlan plan;
  plan.scratch_bytes = static_cast<size_t>(scratch_begin);
  if (problem.IsEmpty()) return plan;
  if (problem.k == 0) {
    plan.steps.emplace_back(PlanSumOverNothing(problem, is_guarded));
    return plan;
  }
  if (kernels == Kernels::kFastest) {
    std::optional<LibraryMatmulPlan> library = PlanLibraryProduct(problem, is_guarded, scratch_begin);
    if (library && !PrefersTiled(problem, library->num_launches)) return std::move(library->plan);
  }
  plan.steps.emplace_back(PlanTiledProduct(problem, is_guarded));
  return plan;
}

// Changes the arguments of an epilogue's step to those of the op: its input 0 and its scratch are in the op's scratch.
void MoveArguments(PlanStep& step, int64_t product, int64_t scratch) {
  const auto move = [&](KernelArgument& argument) {
    if (argument.kind == KernelArgument::Kind::kScratch) {
      argument.offset += scratch;
    } else if (argument.kind == KernelArgument::Kind::kInput && argument.index == 0) {
      argument = ScratchArgument(product + argument.offset);
    } else if (argument.kind == KernelArgument::Kind::kInput) {
      ++argument.index;
    }
  };
  struct Mover {
    const decltype(move)& move_one;
    void operator()(KernelLaunch& launch) const {
      std::for_each(launch.arguments.begin(), launch.arguments.end(), move_one);
    }
    void operator()(LibraryCall& call) const { std::for_each(call.arguments.begin(), call.arguments.end(), move_one); }
    void operator()(MemorySet& set) const { move_one(set.to); }
    void operator()(MemoryCopy& copy) const {
      move_one(copy.to);
      move_one(copy.from);
    }
  };
  std::visit(Mover{move}, step);
}

absl::StatusOr<KernelPlan> PlanWithEpilogue(const KernelRequest& request, Kernels kernels, PlanKernel plan_epilogue) {
  COTAN_RETURN_IF_ERROR(CheckOp(request));
  COTAN_ASSIGN_OR_RETURN(const MatmulParts parts, TakeApartMatmul(request));
  COTAN_ASSIGN_OR_RETURN(MatmulProblem problem, AnalyzeMatmul(parts.Product(request)));
  const TensorSpec& product = parts.expr_inputs[0];
  const KernelRequest epilogue_request = parts.Epilogue(request);
  if (kernels == Kernels::kTiled || IsSmallProduct(request.inputs[0], product, /*spared_launches=*/1)) {
    KernelPlan plan;
    if (problem.IsEmpty()) return plan;
    COTAN_ASSIGN_OR_RETURN(const expr::Problem epilogue, expr::AnalyzeExpr(epilogue_request));
    plan.steps.emplace_back(PlanTiledProduct(problem, epilogue));
    return plan;
  }
  problem[kMatmulD].argument = ScratchArgument(0);
  const int64_t bytes = NumElements(product.layout.sizes) * static_cast<int64_t>(ByteSize(product.dtype));
  const int64_t rest = (bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
  KernelPlan plan = PlanProblem(problem, kernels, /*is_guarded=*/false, rest);

  COTAN_ASSIGN_OR_RETURN(KernelPlan epilogue, plan_epilogue(epilogue_request));
  for (PlanStep& step : epilogue.steps) {
    MoveArguments(step, /*product=*/0, /*scratch=*/rest);
    plan.steps.push_back(std::move(step));
  }
  plan.scratch_bytes = std::max(plan.scratch_bytes, static_cast<size_t>(rest) + epilogue.scratch_bytes);
  plan.error_at = std::move(epilogue.error_at);
  return plan;
}

absl::StatusOr<KernelPlan> PlanWith(const KernelRequest& request, Kernels kernels, PlanKernel plan_epilogue) {
  if (request.op.matmul().has_epilogue()) return PlanWithEpilogue(request, kernels, plan_epilogue);
  COTAN_ASSIGN_OR_RETURN(const MatmulProblem problem, AnalyzeMatmul(request));
  return PlanProblem(problem, kernels, request.guarded_outputs, /*scratch_begin=*/0);
}

}  // namespace

absl::StatusOr<KernelPlan> PlanMatmul(const KernelRequest& request, PlanKernel plan_epilogue) {
  return PlanWith(request, Kernels::kFastest, plan_epilogue);
}

absl::StatusOr<KernelPlan> PlanTiledMatmul(const KernelRequest& request, PlanKernel plan_epilogue) {
  return PlanWith(request, Kernels::kTiled, plan_epilogue);
}

}  // namespace cotan::cuda
