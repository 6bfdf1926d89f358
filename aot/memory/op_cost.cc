// SPDX-License-Identifier: Apache-2.0

#include "aot/memory/op_cost.h"

#include <algorithm>
#include <vector>

#include "base/layout.h"
#include "planning/op_work.h"

namespace cotan::aot {
namespace {

using serialization::Op;

// Rates of one core with vectors of 8 to 16 floats.
constexpr double kFlopsPerNs = 80;
constexpr double kBytesPerNs = 8;
constexpr double kNsPerFunction = 0.1;  // per element and instruction
constexpr double kNsPerCall = 200;

double Elements(const Operand& operand) { return static_cast<double>(NumElements(operand.geometry.layout.sizes)); }

}  // namespace

double OpCost(const Op& op, const ScheduledStep& step) {
  if (op.has_view()) return 0;
  const OpWork work = WorkOf(op, step);
  double elements = 0;  // of the largest operand or result
  for (const std::vector<Operand>* operands : {&step.inputs, &step.outputs}) {
    for (const Operand& operand : *operands) elements = std::max(elements, Elements(operand));
  }
  const double functions = op.has_expr() ? elements * op.expr().instructions_size() : 0;
  return kNsPerCall + static_cast<double>(work.flops) / kFlopsPerNs + static_cast<double>(work.bytes) / kBytesPerNs +
         functions * kNsPerFunction;
}

}  // namespace cotan::aot
