// SPDX-License-Identifier: Apache-2.0

#include "planning/copy_expr.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace cotan {

using serialization::Expr;
using serialization::ExprInstruction;
using serialization::FN_INPUT;
using serialization::FN_RANDOM_UNIFORM;

bool ReadsInput(const ExprInstruction& instruction) {
  return instruction.fn() == FN_INPUT || instruction.fn() == FN_RANDOM_UNIFORM;
}

std::vector<bool> NeededBy(const Expr& expr, const std::vector<int>& outputs, const std::vector<int>& replaced) {
  std::vector<bool> needed(static_cast<size_t>(expr.instructions_size()));
  for (const int output : outputs) needed[expr.outputs(output)] = true;
  for (int i = expr.instructions_size(); i-- > 0;) {
    if (!needed[static_cast<size_t>(i)] || replaced[static_cast<size_t>(i)] >= 0) continue;
    for (const uint32_t operand : expr.instructions(i).operands()) needed[operand] = true;
  }
  return needed;
}

Expr CopyNeeded(const Expr& expr, const std::vector<int>& outputs, const std::vector<int>& replaced,
                absl::FunctionRef<int(int)> input) {
  const std::vector<bool> needed = NeededBy(expr, outputs, replaced);
  Expr result;
  std::vector<uint32_t> place(needed.size());
  for (int i = 0; i < expr.instructions_size(); ++i) {
    const auto at = static_cast<size_t>(i);
    if (!needed[at]) continue;
    place[at] = static_cast<uint32_t>(result.instructions_size());
    ExprInstruction& instruction = *result.add_instructions();
    if (replaced[at] >= 0) {
      instruction.set_fn(FN_INPUT);
      instruction.set_dtype(expr.instructions(i).dtype());
      instruction.set_index(static_cast<uint32_t>(replaced[at]));
      continue;
    }
    instruction = expr.instructions(i);
    for (uint32_t& operand : *instruction.mutable_operands()) operand = place[operand];
    if (ReadsInput(instruction)) {
      instruction.set_index(static_cast<uint32_t>(input(static_cast<int>(instruction.index()))));
    }
  }
  for (const int output : outputs) result.add_outputs(place[expr.outputs(output)]);
  *result.mutable_domain_sizes() = expr.domain_sizes();
  return result;
}

std::vector<int> InputsOf(const Expr& expr, const std::vector<int>& outputs, const std::vector<int>& replaced) {
  std::vector<int> inputs;
  CopyNeeded(expr, outputs, replaced, [&](int input) { return NumberIn(inputs, input); });
  return inputs;
}

int NumberIn(std::vector<int>& list, int input) {
  const auto at = std::find(list.begin(), list.end(), input);
  const auto number = static_cast<int>(at - list.begin());
  if (at == list.end()) list.push_back(input);
  return number;
}

}  // namespace cotan
