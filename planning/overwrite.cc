// SPDX-License-Identifier: Apache-2.0

#include "planning/overwrite.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "kernels/api/in_place.h"

namespace cotan {
namespace {

using serialization::Method;

class Overwriter {
 public:
  Overwriter(const Method& method, absl::Span<const int64_t> symbols, absl::Span<const int> donated, Schedule& schedule)
      : method_(method), symbols_(symbols), donated_(donated), schedule_(schedule) {}

  void Run() {
    std::vector<int> last_use(schedule_.buffers.size(), -1);
    for (size_t i = 0; i < schedule_.steps.size(); ++i) {
      for (const Operand& input : schedule_.steps[i].inputs) {
        last_use[static_cast<size_t>(input.buffer)] = static_cast<int>(i);
      }
    }
    std::vector<int> moved_to(schedule_.buffers.size());
    for (size_t i = 0; i < moved_to.size(); ++i) moved_to[i] = static_cast<int>(i);
    for (size_t i = 0; i < schedule_.steps.size(); ++i) {
      ScheduledStep& step = schedule_.steps[i];
      for (Operand& input : step.inputs) input.buffer = moved_to[static_cast<size_t>(input.buffer)];
      absl::flat_hash_set<int> taken;
      for (size_t k = 0; k < step.outputs.size(); ++k) {
        Operand& output = step.outputs[k];
        const int from = output.buffer;
        const int to = DyingInput(step, static_cast<int>(i), static_cast<int>(k), last_use, taken);
        if (to < 0) continue;
        taken.insert(to);
        moved_to[static_cast<size_t>(from)] = to;
        last_use[static_cast<size_t>(to)] = last_use[static_cast<size_t>(from)];
        output.buffer = to;
        ++schedule_.stats.inputs_overwritten;
      }
    }
  }

 private:
  const Buffer& BufferOf(const Operand& operand) const {
    return schedule_.buffers[static_cast<size_t>(operand.buffer)];
  }

  // Returns whether results may overwrite the buffer after its last read.
  bool MayBeOverwritten(const Buffer& buffer) const {
    if (buffer.on_host) return false;
    return buffer.kind == BufferKind::kArena ||
           (buffer.kind == BufferKind::kInput &&
            std::find(donated_.begin(), donated_.end(), buffer.index) != donated_.end());
  }

  // Returns the buffer of an input that output `k` of the step may overwrite; -1 if there is none.
  int DyingInput(const ScheduledStep& step, int index, int k, const std::vector<int>& last_use,
                 const absl::flat_hash_set<int>& taken) {
    const Operand& output = step.outputs[static_cast<size_t>(k)];
    if (BufferOf(output).kind != BufferKind::kArena || BufferOf(output).on_host) return -1;
    for (const Operand& input : step.inputs) {
      const Buffer& buffer = BufferOf(input);
      if (!MayBeOverwritten(buffer) || buffer.bytes != BufferOf(output).bytes || taken.contains(input.buffer) ||
          last_use[static_cast<size_t>(input.buffer)] != index || input.geometry.layout.offset != 0) {
        continue;
      }
      bool safe = true;
      for (size_t i = 0; safe && i < step.inputs.size(); ++i) {
        safe =
            step.inputs[i].buffer != input.buffer || (step.inputs[i].geometry.layout.offset == 0 &&
                                                      IsSafeInPlace(method_, step, symbols_, static_cast<int>(i), k));
      }
      if (safe) return input.buffer;
    }
    return -1;
  }

  const Method& method_;
  const absl::Span<const int64_t> symbols_;
  const absl::Span<const int> donated_;
  Schedule& schedule_;
};

}  // namespace

std::vector<TensorSpec> SpecsOf(const std::vector<Operand>& operands) {
  std::vector<TensorSpec> specs;
  for (const Operand& operand : operands) specs.push_back(SpecOf(operand));
  return specs;
}

bool IsSafeInPlace(const Method& method, const ScheduledStep& step, absl::Span<const int64_t> symbols, int input,
                   int output) {
  const std::vector<TensorSpec> inputs = SpecsOf(step.inputs);
  const std::vector<TensorSpec> outputs = SpecsOf(step.outputs);
  return InPlaceSafe({.op = OpOf(method, step), .inputs = inputs, .outputs = outputs, .symbols = symbols}, input,
                     output);
}

void OverwriteDyingInputs(const Method& method, absl::Span<const int64_t> symbols, absl::Span<const int> donated,
                          Schedule& schedule) {
  Overwriter(method, symbols, donated, schedule).Run();
}

}  // namespace cotan
