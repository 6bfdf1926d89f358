// SPDX-License-Identifier: Apache-2.0

#include "planning/expr_parts.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "planning/copy_expr.h"

namespace cotan {
namespace {

using serialization::Expr;
using serialization::ExprInstruction;
using serialization::FN_INPUT;

// Returns, by instruction, whether it has the property or depends on one that has it.
template <typename Property>
std::vector<bool> DependOn(const Expr& expr, Property has) {
  std::vector<bool> depends(static_cast<size_t>(expr.instructions_size()));
  for (int i = 0; i < expr.instructions_size(); ++i) {
    const ExprInstruction& instruction = expr.instructions(i);
    depends[static_cast<size_t>(i)] =
        has(instruction) || std::any_of(instruction.operands().begin(), instruction.operands().end(),
                                        [&](uint32_t operand) { return depends[operand]; });
  }
  return depends;
}

}  // namespace

std::optional<ExprParts> SplitExpr(const Expr& expr, const ExprProgram& program, const std::vector<bool>& is_product,
                                   DType dtype) {
  const std::vector<bool> reads_product = DependOn(expr, [&](const ExprInstruction& instruction) {
    return ReadsInput(instruction) && is_product[instruction.index()];
  });
  const std::vector<bool> reduces =
      DependOn(expr, [](const ExprInstruction& instruction) { return IsExprReduction(instruction.fn()); });
  ExprParts parts;
  for (int k = 0; k < expr.outputs_size(); ++k) {
    const uint32_t stored = expr.outputs(k);
    const bool is_elementwise = program.nodes[stored].level == ExprLevel::kFull && !reduces[stored];
    const bool is_fused = !program.has_reduce_dims || (is_elementwise && reads_product[stored]);
    (is_fused ? parts.fused_outputs : parts.rest_outputs).push_back(k);
  }
  const auto has_dtype = [&](int output) { return program.nodes[expr.outputs(output)].dtype == dtype; };
  const auto first = std::find_if(parts.fused_outputs.begin(), parts.fused_outputs.end(), has_dtype);
  if (first == parts.fused_outputs.end()) return std::nullopt;
  std::iter_swap(first, parts.fused_outputs.begin());

  const std::vector<int> none(static_cast<size_t>(expr.instructions_size()), -1);
  for (const int input : InputsOf(expr, parts.fused_outputs, none)) {
    if (!is_product[static_cast<size_t>(input)]) parts.fused_inputs.push_back(input);
  }
  parts.fused = CopyNeeded(expr, parts.fused_outputs, none, [&](int input) {
    return is_product[static_cast<size_t>(input)] ? 0 : 1 + NumberIn(parts.fused_inputs, input);
  });
  parts.has_rest = !parts.rest_outputs.empty();
  if (!parts.has_rest) return parts;

  // Two visits: the numbers of the outputs follow those of the inputs.
  std::vector<int> replaced = none;
  for (const int output : parts.fused_outputs) replaced[expr.outputs(output)] = 0;
  parts.rest_inputs = InputsOf(expr, parts.rest_outputs, replaced);
  const bool reads = std::any_of(parts.rest_inputs.begin(), parts.rest_inputs.end(),
                                 [&](int input) { return is_product[static_cast<size_t>(input)]; });
  if (reads) return std::nullopt;
  for (size_t k = 0; k < parts.fused_outputs.size(); ++k) {
    replaced[expr.outputs(parts.fused_outputs[k])] = static_cast<int>(parts.rest_inputs.size() + k);
  }
  parts.rest =
      CopyNeeded(expr, parts.rest_outputs, replaced, [&](int input) { return NumberIn(parts.rest_inputs, input); });
  *parts.rest.mutable_reduce_dims() = expr.reduce_dims();
  return parts;
}

Expr EpilogueOf(const ExprParts& parts, bool has_addend, DType dtype) {
  if (!has_addend) return parts.fused;
  Expr result;
  const auto type = static_cast<serialization::DTypeProto>(dtype);
  for (const uint32_t index : {0u, 1u}) {
    ExprInstruction& input = *result.add_instructions();
    input.set_fn(FN_INPUT);
    input.set_dtype(type);
    input.set_index(index);
  }
  ExprInstruction& sum = *result.add_instructions();
  sum.set_fn(serialization::FN_ADD);
  sum.set_dtype(type);
  sum.add_operands(0);
  sum.add_operands(1);
  std::vector<uint32_t> place;
  for (const ExprInstruction& from : parts.fused.instructions()) {
    if (from.fn() == FN_INPUT && from.index() == 0) {
      place.push_back(2);
      continue;
    }
    place.push_back(static_cast<uint32_t>(result.instructions_size()));
    ExprInstruction& instruction = *result.add_instructions();
    instruction = from;
    for (uint32_t& operand : *instruction.mutable_operands()) operand = place[operand];
    if (ReadsInput(from)) instruction.set_index(from.index() + 1);
  }
  for (const uint32_t output : parts.fused.outputs()) result.add_outputs(place[output]);
  *result.mutable_domain_sizes() = parts.fused.domain_sizes();
  return result;
}

}  // namespace cotan
