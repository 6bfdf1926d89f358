// SPDX-License-Identifier: Apache-2.0

#include "serialization/schema/expr_inputs.h"

#include <utility>

#include "absl/container/btree_set.h"

namespace cotan {

std::vector<std::vector<uint32_t>> InputsOfOutputs(const serialization::Expr& expr) {
  std::vector<absl::btree_set<uint32_t>> reached;  // by instruction
  for (const serialization::ExprInstruction& instruction : expr.instructions()) {
    absl::btree_set<uint32_t> inputs;
    if (instruction.fn() == serialization::FN_INPUT || instruction.fn() == serialization::FN_RANDOM_UNIFORM) {
      inputs.insert(instruction.index());
    }
    for (const uint32_t operand : instruction.operands()) {
      inputs.insert(reached[operand].begin(), reached[operand].end());
    }
    reached.push_back(std::move(inputs));
  }
  std::vector<std::vector<uint32_t>> result;
  for (const uint32_t output : expr.outputs()) {
    result.emplace_back(reached[output].begin(), reached[output].end());
  }
  return result;
}

}  // namespace cotan
