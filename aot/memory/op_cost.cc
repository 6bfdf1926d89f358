// SPDX-License-Identifier: Apache-2.0

#include "aot/memory/op_cost.h"

#include <algorithm>
#include <vector>

#include "base/layout.h"
#include "kernels/api/expr_program.h"
#include "planning/op_work.h"

namespace cotan::aot {
namespace {

using serialization::Op;

// Rates of one core with vectors of 16 floats; bytes are those of caches.
constexpr double kFlopsPerNs = 150;
constexpr double kBytesPerNs = 75;
constexpr double kNsPerAddition = 0.01;  // per element
constexpr double kNsPerPoolTap = 0.08;
constexpr double kNsPerCall = 200;

// Returns the rough cost of a function in additions of f32. They are cheaper here than in the estimate of a kernel's
// plan, which counts time per thread: only ratios to products matter.
double AdditionsOf(serialization::ScalarFn fn) {
  switch (ExprCostOf(fn)) {
    case ExprCost::kAddition:
      return 1;
    case ExprCost::kDivision:
      return 3;
    case ExprCost::kFunction:
      return 12;
    case ExprCost::kRandom:
      return 60;
    case ExprCost::kQuotient:
    case ExprCost::kRemainder:
      return 20;
    case ExprCost::kLibrary:
      break;
  }
  return 60;
}

double Elements(const Operand& operand) { return static_cast<double>(NumElements(operand.geometry.layout.sizes)); }

// Returns the taps of all windows.
double TapsOf(const serialization::Pool& pool, const Operand& windows) {
  double taps = Elements(windows);
  for (const int64_t size : pool.kernel()) taps *= static_cast<double>(size);
  return taps;
}

// Returns the elements that the windows of a pool visit, 0 for another op.
double PoolTaps(const Op& op, const ScheduledStep& step) {
  switch (op.kind_case()) {
    case Op::kMaxPool:
      return TapsOf(op.max_pool(), step.outputs[0]);
    case Op::kMaxPoolBackward:
      return TapsOf(op.max_pool_backward(), step.inputs[0]);
    case Op::kAvgPool:
      return TapsOf(op.avg_pool(), step.outputs[0]);
    case Op::kAvgPoolBackward:
      return TapsOf(op.avg_pool_backward(), step.inputs[0]);
    default:
      return 0;
  }
}

}  // namespace

double OpCost(const Op& op, const ScheduledStep& step) {
  if (op.has_view()) return 0;
  const OpWork work = WorkOf(op, step);
  double elements = 0;  // of the largest operand or result
  for (const std::vector<Operand>* operands : {&step.inputs, &step.outputs}) {
    for (const Operand& operand : *operands) elements = std::max(elements, Elements(operand));
  }
  double additions = 0;
  for (const serialization::ExprInstruction& instruction : op.expr().instructions())
    additions += AdditionsOf(instruction.fn());
  return kNsPerCall + static_cast<double>(work.flops) / kFlopsPerNs + static_cast<double>(work.bytes) / kBytesPerNs +
         elements * additions * kNsPerAddition + PoolTaps(op, step) * kNsPerPoolTap;
}

}  // namespace cotan::aot
