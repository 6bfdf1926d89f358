// SPDX-License-Identifier: Apache-2.0

#include "planning/merge_launches.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/status_macros.h"
#include "kernels/api/matmul_epilogue.h"

namespace cotan {
namespace {

using serialization::Method;
using serialization::Op;

// Returns the dense row-major operand for `spec` in a new arena buffer.
Operand NewBuffer(const TensorSpec& spec, Schedule& schedule) {
  const int64_t bytes = NumElements(spec.layout.sizes) * static_cast<int64_t>(ByteSize(spec.dtype));
  schedule.buffers.push_back({BufferKind::kArena, 0, bytes});
  Operand operand;
  operand.buffer = static_cast<int>(schedule.buffers.size()) - 1;
  operand.geometry.dtype = spec.dtype;
  operand.geometry.layout = spec.layout;
  return operand;
}

absl::Status SplitEpilogues(const Method& method, absl::Span<const int64_t> symbols, Schedule& schedule) {
  std::vector<ScheduledStep> steps;
  for (ScheduledStep& step : schedule.steps) {
    const Op& op = OpOf(method, step);
    if (!op.has_matmul() || !op.matmul().has_epilogue()) {
      steps.push_back(std::move(step));
      continue;
    }
    std::vector<TensorSpec> inputs;
    std::vector<TensorSpec> outputs;
    for (const Operand& input : step.inputs) inputs.push_back(SpecOf(input));
    for (const Operand& output : step.outputs) outputs.push_back(SpecOf(output));
    COTAN_ASSIGN_OR_RETURN(MatmulParts parts,
                           TakeApartMatmul({.op = op, .inputs = inputs, .outputs = outputs, .symbols = symbols}));
    const Operand product = NewBuffer(parts.expr_inputs[0], schedule);
    steps.push_back({.op = step.op,
                     .inputs = {step.inputs[0], step.inputs[1]},
                     .outputs = {product},
                     .part = std::make_shared<const Op>(std::move(parts.product_op))});
    ScheduledStep epilogue = {.op = step.op,
                              .inputs = {product},
                              .outputs = std::move(step.outputs),
                              .part = std::make_shared<const Op>(std::move(parts.expr_op))};
    epilogue.inputs.insert(epilogue.inputs.end(), step.inputs.begin() + 2, step.inputs.end());
    steps.push_back(std::move(epilogue));
  }
  schedule.steps = std::move(steps);
  return absl::OkStatus();
}

// Errors of these depend on data, or the host sees their order.
bool IsOrdered(const Op& op) {
  switch (op.kind_case()) {
    case Op::kEffect:
    case Op::kCheckedIndex:
    case Op::kGather:
    case Op::kScatterAdd:
    case Op::kMaxPoolBackward:
      return true;
    default:
      return false;
  }
}

// Orders the steps by their dependencies.
class Merger {
 public:
  Merger(const Method& method, Schedule& schedule)
      : method_(method), schedule_(schedule), waits_for_(schedule.steps.size()), followers_(schedule.steps.size()) {}

  void Merge() {
    AddDependencies();
    for (size_t i = 0; i < waits_for_.size(); ++i) {
      if (waits_for_[i] == 0) AddReady(static_cast<int>(i));
    }
    while (!ready_.empty() || !ready_expressions_.empty()) {
      if (!ready_.empty()) {
        // The first one in the original order.
        const auto first = std::min_element(ready_.begin(), ready_.end());
        const int step = *first;
        ready_.erase(first);
        Emit({step});
      } else {
        Emit(std::exchange(ready_expressions_, {}));
      }
    }
    schedule_.steps = std::move(merged_);
  }

 private:
  // The steps that access a buffer since its last write.
  struct Accesses {
    int writer = -1;
    std::vector<int> readers;
  };

  // Buffers of one state, argument or result are the same memory.
  void FindMemory() {
    absl::flat_hash_map<std::pair<BufferKind, int>, int> first;
    for (size_t i = 0; i < schedule_.buffers.size(); ++i) {
      const Buffer& buffer = schedule_.buffers[i];
      const int own = static_cast<int>(i);
      memory_.push_back(buffer.kind == BufferKind::kArena
                            ? own
                            : first.try_emplace(std::pair(buffer.kind, buffer.index), own).first->second);
    }
  }

  void AddDependencies() {
    FindMemory();
    accesses_.resize(schedule_.buffers.size());
    int last_ordered = -1;
    for (size_t i = 0; i < schedule_.steps.size(); ++i) {
      const ScheduledStep& step = schedule_.steps[i];
      const int index = static_cast<int>(i);
      for (const Operand& input : step.inputs) Read(input.buffer, index);
      for (const Operand& output : step.outputs) Write(output.buffer, index);
      if (IsOrdered(OpOf(method_, step))) {
        AddEdge(last_ordered, index);
        last_ordered = index;
      } else if (WritesLastingMemory(step)) {
        AddEdge(last_ordered, index);
      }
    }
  }

  bool WritesLastingMemory(const ScheduledStep& step) const {
    return std::any_of(step.outputs.begin(), step.outputs.end(), [&](const Operand& output) {
      const BufferKind kind = schedule_.buffers[static_cast<size_t>(output.buffer)].kind;
      return kind == BufferKind::kState || kind == BufferKind::kInput;
    });
  }

  void Read(int buffer, int step) {
    Accesses& accesses = AccessesOf(buffer);
    AddEdge(accesses.writer, step);
    accesses.readers.push_back(step);
  }

  void Write(int buffer, int step) {
    Accesses& accesses = AccessesOf(buffer);
    AddEdge(accesses.writer, step);
    for (int reader : accesses.readers) AddEdge(reader, step);
    accesses = {.writer = step, .readers = {}};
  }

  Accesses& AccessesOf(int buffer) { return accesses_[static_cast<size_t>(memory_[static_cast<size_t>(buffer)])]; }

  void AddEdge(int from, int to) {
    if (from < 0 || from == to) return;
    followers_[static_cast<size_t>(from)].push_back(to);
    ++waits_for_[static_cast<size_t>(to)];
  }

  void AddReady(int step) {
    const bool is_expression = OpOf(method_, schedule_.steps[static_cast<size_t>(step)]).has_expr();
    (is_expression ? ready_expressions_ : ready_).push_back(step);
  }

  // Appends one step that executes `steps`, which are ready.
  void Emit(std::vector<int> steps) {
    std::sort(steps.begin(), steps.end());
    ScheduledStep merged = std::move(schedule_.steps[static_cast<size_t>(steps[0])]);
    if (steps.size() > 1) merged.members.push_back(MemberOf(merged));
    for (size_t i = 1; i < steps.size(); ++i) {
      ScheduledStep& step = schedule_.steps[static_cast<size_t>(steps[i])];
      merged.members.push_back(MemberOf(step));
      std::move(step.inputs.begin(), step.inputs.end(), std::back_inserter(merged.inputs));
      std::move(step.outputs.begin(), step.outputs.end(), std::back_inserter(merged.outputs));
    }
    merged_.push_back(std::move(merged));
    for (int step : steps) {
      for (int follower : followers_[static_cast<size_t>(step)]) {
        if (--waits_for_[static_cast<size_t>(follower)] == 0) AddReady(follower);
      }
    }
  }

  static GroupMember MemberOf(const ScheduledStep& step) {
    return {.op = step.op,
            .part = step.part,
            .num_inputs = static_cast<int>(step.inputs.size()),
            .num_outputs = static_cast<int>(step.outputs.size())};
  }

  const Method& method_;
  Schedule& schedule_;
  std::vector<int> waits_for_;               // by step: number of steps before it that are not emitted yet
  std::vector<std::vector<int>> followers_;  // by step
  std::vector<int> memory_;                  // by buffer: the first buffer with the same memory
  std::vector<Accesses> accesses_;           // by buffer
  std::vector<int> ready_;
  std::vector<int> ready_expressions_;
  std::vector<ScheduledStep> merged_;
};

}  // namespace

absl::Status MergeLaunches(const Method& method, absl::Span<const int64_t> symbols, Schedule& schedule) {
  COTAN_RETURN_IF_ERROR(SplitEpilogues(method, symbols, schedule));
  Merger(method, schedule).Merge();
  return absl::OkStatus();
}

}  // namespace cotan
