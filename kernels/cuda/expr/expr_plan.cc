// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/expr/expr_plan.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "kernels/cuda/expr/analysis.h"
#include "kernels/cuda/expr/kernel_part.h"
#include "kernels/cuda/expr/kernel_writer.h"
#include "kernels/cuda/expr/launch_text.h"

namespace cotan::cuda {
namespace {

using expr::KernelPart;
using OpParts = std::vector<KernelPart>;  // one per launch

// Renumbers the operands of an op's parts for a group.
void MoveArguments(int inputs_before, int outputs_before, OpParts& op) {
  for (KernelPart& part : op) {
    for (expr::KernelParameter& parameter : part.parameters) {
      KernelArgument& argument = parameter.argument;
      if (argument.kind == KernelArgument::Kind::kInput) argument.index += inputs_before;
      if (argument.kind == KernelArgument::Kind::kOutput) argument.index += outputs_before;
    }
  }
}

// Adds launches of `parts`, all with the same number of threads, to a plan.
absl::Status AddLaunches(absl::Span<const KernelPart* const> parts, KernelPlan& plan) {
  size_t begin = 0;
  while (begin < parts.size()) {
    size_t end = begin;
    size_t parameters = 0;
    int64_t blocks = 0;
    while (end < parts.size()) {
      parameters += parts[end]->parameters.size();
      blocks += parts[end]->blocks;
      if (end > begin && (parameters > expr::kMaxParameters || blocks > std::numeric_limits<int32_t>::max())) break;
      ++end;
    }
    if (end - begin == 1) {
      COTAN_ASSIGN_OR_RETURN(KernelLaunch launch, LaunchOf(*parts[begin]));
      plan.steps.emplace_back(std::move(launch));
    } else {
      plan.steps.emplace_back(expr::LaunchOfAll(parts.subspan(begin, end - begin)));
    }
    begin = end;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<KernelPlan> PlanExpr(const KernelRequest& request) { return PlanExprWith(request, {}); }

absl::StatusOr<KernelPlan> PlanExprWith(const KernelRequest& request, const expr::ScheduleOptions& options) {
  COTAN_ASSIGN_OR_RETURN(const expr::Problem problem, expr::AnalyzeExpr(request));
  const OpParts op = expr::WriteKernels(problem, options);
  KernelPlan plan;
  for (const KernelPart& part : op) {
    COTAN_ASSIGN_OR_RETURN(KernelLaunch launch, LaunchOf(part));
    plan.steps.emplace_back(std::move(launch));
  }
  return plan;
}

absl::StatusOr<KernelPlan> PlanExprGroup(absl::Span<const KernelRequest> requests) {
  std::vector<OpParts> ops;
  int inputs = 0;
  int outputs = 0;
  size_t num_launches = 0;
  for (const KernelRequest& request : requests) {
    COTAN_ASSIGN_OR_RETURN(const expr::Problem problem, expr::AnalyzeExpr(request));
    OpParts op = expr::WriteKernels(problem, {});
    MoveArguments(inputs, outputs, op);
    inputs += static_cast<int>(request.inputs.size());
    outputs += static_cast<int>(request.outputs.size());
    num_launches = std::max(num_launches, op.size());
    ops.push_back(std::move(op));
  }
  KernelPlan plan;
  for (size_t n = 0; n < num_launches; ++n) {
    std::map<int, std::vector<const KernelPart*>> by_threads;
    for (const OpParts& op : ops) {
      if (n < op.size()) by_threads[op[n].threads].push_back(&op[n]);
    }
    for (const auto& [threads, parts] : by_threads) COTAN_RETURN_IF_ERROR(AddLaunches(parts, plan));
  }
  return plan;
}

}  // namespace cotan::cuda
