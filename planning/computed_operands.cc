// SPDX-License-Identifier: Apache-2.0

#include "planning/computed_operands.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "planning/epilogues.h"
#include "planning/overwrite.h"

namespace cotan {
namespace {

using serialization::Method;
using serialization::Op;

constexpr size_t kRight = 1;  // the operand that may be computed

class OperandPlacer {
 public:
  OperandPlacer(const Method& method, absl::Span<const int64_t> symbols, const ComputedOperandKernels& kernels,
                Schedule& schedule)
      : method_(method),
        symbols_(symbols),
        kernels_(kernels),
        schedule_(schedule),
        memory_(FindSharedMemory(schedule)) {}

  void Place() {
    for (size_t i = 0; i < schedule_.steps.size();) {
      const std::optional<size_t> product = FindProduct(i);
      if (product && Takes(i, *product)) {
        Pair(i, *product);  // the next step is now at `i`
      } else {
        ++i;
      }
    }
  }

 private:
  const Buffer& BufferOf(const Operand& operand) const {
    return schedule_.buffers[static_cast<size_t>(operand.buffer)];
  }

  int MemoryOf(const Operand& operand) const { return memory_[static_cast<size_t>(operand.buffer)]; }

  bool Accesses(const std::vector<Operand>& operands, const Operand& operand) const {
    return std::any_of(operands.begin(), operands.end(),
                       [&](const Operand& other) { return MemoryOf(other) == MemoryOf(operand); });
  }

  // Returns true if the output fills a buffer of the arena, whose memory is worth sparing.
  bool SavesMemory(const ScheduledStep& expression) const {
    const Operand& value = expression.outputs[0];
    const Buffer& buffer = BufferOf(value);
    const StridedLayout& layout = value.geometry.layout;
    if (buffer.kind != BufferKind::kArena || buffer.on_host || !IsContiguous(layout) || layout.offset != 0) {
      return false;
    }
    int64_t kept = 0;
    for (const Operand& input : expression.inputs) {
      if (BufferOf(input).kind == BufferKind::kArena) kept += BufferOf(input).bytes;
    }
    return kept < buffer.bytes;
  }

  // Returns the product of which step `i`, if it is an expression, is the right operand and which alone reads it.
  std::optional<size_t> FindProduct(size_t i) const {
    const ScheduledStep& expression = schedule_.steps[i];
    const bool has_one_value = OpOf(method_, expression).has_expr() && expression.outputs.size() == 1;
    if (!has_one_value || !SavesMemory(expression)) return std::nullopt;
    const Operand& value = expression.outputs[0];
    std::optional<size_t> reader;
    bool inputs_change = false;
    for (size_t later = i + 1; later < schedule_.steps.size(); ++later) {
      const ScheduledStep& step = schedule_.steps[later];
      if (!reader) {
        inputs_change |= std::any_of(expression.inputs.begin(), expression.inputs.end(),
                                     [&](const Operand& input) { return Accesses(step.outputs, input); });
      }
      if (!Accesses(step.inputs, value)) continue;
      if (reader || inputs_change || !IsRightOperand(step, value)) return std::nullopt;
      reader = later;
    }
    return reader;
  }

  // Returns true if `step` is a product that reads `value` as its whole right operand only.
  bool IsRightOperand(const ScheduledStep& step, const Operand& value) const {
    const Op& op = OpOf(method_, step);
    if (!op.has_matmul() || op.matmul().has_epilogue() || step.computed != nullptr) return false;
    const auto reads = std::count_if(step.inputs.begin(), step.inputs.end(),
                                     [&](const Operand& input) { return MemoryOf(input) == MemoryOf(value); });
    const ViewGeometry& seen = step.inputs[kRight].geometry;
    return reads == 1 && MemoryOf(step.inputs[kRight]) == MemoryOf(value) && seen.dtype == value.geometry.dtype &&
           seen.layout.offset == 0 && IsDenseNonOverlapping(seen.layout) &&
           NumElements(seen.layout.sizes) == NumElements(value.geometry.layout.sizes);
  }

  bool Takes(size_t expression, size_t product) const {
    const ScheduledStep& first = schedule_.steps[expression];
    const ScheduledStep& second = schedule_.steps[product];
    const std::vector<TensorSpec> first_inputs = SpecsOf(first.inputs);
    const std::vector<TensorSpec> first_outputs = SpecsOf(first.outputs);
    const std::vector<TensorSpec> second_inputs = SpecsOf(second.inputs);
    const std::vector<TensorSpec> second_outputs = SpecsOf(second.outputs);
    const KernelRequest value = {
        .op = OpOf(method_, first), .inputs = first_inputs, .outputs = first_outputs, .symbols = symbols_};
    const KernelRequest result = {
        .op = OpOf(method_, second), .inputs = second_inputs, .outputs = second_outputs, .symbols = symbols_};
    return kernels_.takes({.product = result, .expression = value});
  }

  void Pair(size_t expression, size_t product) {
    ScheduledStep& from = schedule_.steps[expression];
    ScheduledStep& step = schedule_.steps[product];
    step.computed =
        std::make_shared<const ComputedOperand>(ComputedOperand{.op = from.op,
                                                                .num_inputs = static_cast<int>(from.inputs.size()),
                                                                .operand = SpecOf(step.inputs[kRight]),
                                                                .value = SpecOf(from.outputs[0])});
    step.inputs.erase(step.inputs.begin() + kRight);
    std::move(from.inputs.begin(), from.inputs.end(), std::back_inserter(step.inputs));
    schedule_.steps.erase(schedule_.steps.begin() + static_cast<std::ptrdiff_t>(expression));
  }

  const Method& method_;
  const absl::Span<const int64_t> symbols_;
  const ComputedOperandKernels& kernels_;
  Schedule& schedule_;
  const std::vector<int> memory_;  // by buffer: the first buffer with the same memory
};

}  // namespace

void PlaceComputedOperands(const Method& method, absl::Span<const int64_t> symbols,
                           const ComputedOperandKernels& kernels, Schedule& schedule) {
  OperandPlacer(method, symbols, kernels, schedule).Place();
}

}  // namespace cotan
