// SPDX-License-Identifier: Apache-2.0

#include "aot/memory/repeated_part.h"

#include <algorithm>
#include <cstddef>

#include "kernels/api/expr_program.h"
#include "planning/copy_expr.h"

namespace cotan::aot {
namespace {

using serialization::Expr;
using serialization::Method;
using serialization::Op;

bool HasReduction(const Expr& expr) {
  return std::any_of(expr.instructions().begin(), expr.instructions().end(),
                     [](const auto& instruction) { return IsExprReduction(instruction.fn()); });
}

// Returns whether the value has the sizes of the expression's domain.
bool FillsDomain(const Method& method, uint32_t value, const Expr& expr) {
  const auto& sizes = method.values(static_cast<int>(value)).type().sizes();
  return std::equal(sizes.begin(), sizes.end(), expr.domain_sizes().begin(), expr.domain_sizes().end());
}

}  // namespace

std::optional<RepeatedPart> PartFor(const std::vector<uint32_t>& results, const Method& method,
                                    const ScheduledStep& step, absl::FunctionRef<bool(uint32_t)> is_known) {
  const Op& whole = method.ops(step.op);
  if (!whole.has_expr() || step.computed != nullptr || !step.members.empty() || step.part != nullptr) {
    return std::nullopt;
  }
  const Expr& expr = whole.expr();
  std::vector<int> outputs;
  std::vector<int> known;
  for (int k = 0; k < whole.outputs_size(); ++k) {
    const uint32_t value = whole.outputs(k);
    if (std::find(results.begin(), results.end(), value) != results.end()) {
      if (!FillsDomain(method, value, expr)) return std::nullopt;
      outputs.push_back(k);
    } else if (is_known(value)) {
      known.push_back(k);
    }
  }
  if (outputs.size() == static_cast<size_t>(whole.outputs_size())) return std::nullopt;
  std::vector<int> replaced(static_cast<size_t>(expr.instructions_size()), -1);
  for (const int output : known) replaced[expr.outputs(output)] = 0;
  const std::vector<bool> needed = NeededBy(expr, outputs, replaced);

  RepeatedPart part;
  part.op.set_source(whole.source());
  part.step.op = step.op;
  std::vector<int> inputs = InputsOf(expr, outputs, replaced);
  for (const int input : inputs) {
    part.op.add_inputs(whole.inputs(input));
    part.step.inputs.push_back(step.inputs[static_cast<size_t>(input)]);
  }
  for (const int output : known) {
    const uint32_t stored = expr.outputs(output);
    if (!needed[stored] || replaced[stored] > 0) continue;  // two outputs may store one instruction
    replaced[stored] = part.op.inputs_size();
    part.op.add_inputs(whole.outputs(output));
    part.step.inputs.push_back(step.outputs[static_cast<size_t>(output)]);
  }
  for (const int output : outputs) {
    part.op.add_outputs(whole.outputs(output));
    part.step.outputs.push_back(step.outputs[static_cast<size_t>(output)]);
  }
  *part.op.mutable_expr() = CopyNeeded(expr, outputs, replaced, [&](int input) { return NumberIn(inputs, input); });
  if (HasReduction(part.op.expr())) return std::nullopt;
  return part;
}

}  // namespace cotan::aot
