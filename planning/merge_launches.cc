// SPDX-License-Identifier: Apache-2.0

#include "planning/merge_launches.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "planning/epilogues.h"
#include "planning/host_copies.h"

namespace cotan {
namespace {

using serialization::Method;
using serialization::Op;

// An expression with inputs of more bytes does not wait for the end: the time to read them is longer than a launch
// takes, and they take memory meanwhile.
constexpr int64_t kMaxWaitingBytes = int64_t{8} << 20;

// Returns true if the inputs of the step that only the plan has memory for are few bytes.
bool HasSmallInputs(const ScheduledStep& step, const Schedule& schedule) {
  int64_t bytes = 0;
  for (const Operand& input : step.inputs) {
    const Buffer& buffer = schedule.buffers[static_cast<size_t>(input.buffer)];
    if (buffer.kind == BufferKind::kArena) bytes += buffer.bytes;
  }
  return bytes <= kMaxWaitingBytes;
}

bool Uses(const std::vector<Operand>& operands, int buffer) {
  return std::any_of(operands.begin(), operands.end(), [&](const Operand& o) { return o.buffer == buffer; });
}

void Rename(std::vector<Operand>& operands, int from, int to) {
  for (Operand& operand : operands) {
    if (operand.buffer == from) operand.buffer = to;
  }
}

// Gives results that overwrite an input of an expression that may wait a buffer of their own.
class WaitingInputs {
 public:
  WaitingInputs(const Method& method, Schedule& schedule)
      : method_(method), schedule_(schedule), memory_(FindSharedMemory(schedule)) {}

  void Keep() {
    for (size_t i = 0; i < schedule_.steps.size(); ++i) {
      const ScheduledStep& step = schedule_.steps[i];
      if (!OpOf(method_, step).has_expr() || !HasSmallInputs(step, schedule_) || IsUsedLater(i)) continue;
      const std::vector<Operand> inputs = step.inputs;
      for (const Operand& input : inputs) KeepAfter(i, input.buffer);
    }
  }

 private:
  int MemoryOf(const Operand& operand) const { return memory_[static_cast<size_t>(operand.buffer)]; }

  // Returns true if a step after `step` accesses an output of it.
  bool IsUsedLater(size_t step) const {
    const std::vector<Operand>& outputs = schedule_.steps[step].outputs;
    const auto is_output = [&](const Operand& operand) {
      return std::any_of(outputs.begin(), outputs.end(),
                         [&](const Operand& output) { return MemoryOf(output) == MemoryOf(operand); });
    };
    return std::any_of(schedule_.steps.begin() + static_cast<std::ptrdiff_t>(step) + 1, schedule_.steps.end(),
                       [&](const ScheduledStep& later) {
                         return std::any_of(later.inputs.begin(), later.inputs.end(), is_output) ||
                                std::any_of(later.outputs.begin(), later.outputs.end(), is_output);
                       });
  }

  // Lets steps after `step` leave an arena buffer as it is, unless `step` itself overwrites it.
  void KeepAfter(size_t step, int buffer) {
    std::vector<ScheduledStep>& steps = schedule_.steps;
    const Buffer kept = schedule_.buffers[static_cast<size_t>(buffer)];
    if (kept.kind != BufferKind::kArena || Uses(steps[step].outputs, buffer)) return;
    size_t writer = step + 1;
    while (writer < steps.size() && !Uses(steps[writer].outputs, buffer)) ++writer;
    if (writer == steps.size()) return;
    const auto own = static_cast<int>(schedule_.buffers.size());
    schedule_.buffers.push_back(kept);
    memory_.push_back(own);
    Rename(steps[writer].outputs, buffer, own);
    for (size_t i = writer + 1; i < steps.size(); ++i) {
      Rename(steps[i].inputs, buffer, own);
      Rename(steps[i].outputs, buffer, own);
    }
  }

  const Method& method_;
  Schedule& schedule_;
  std::vector<int> memory_;  // by buffer
};

// Errors of these depend on data, or the host sees their order.
bool IsOrdered(const Op& op) {
  switch (op.kind_case()) {
    case Op::kEffect:
    case Op::kCollective:
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
      : method_(method),
        schedule_(schedule),
        waits_for_(schedule.steps.size()),
        followers_(schedule.steps.size()),
        memory_(FindSharedMemory(schedule)) {}

  void Merge() {
    AddDependencies();
    for (size_t i = 0; i < waits_for_.size(); ++i) {
      if (waits_for_[i] == 0) AddReady(static_cast<int>(i));
    }
    while (!ready_.empty() || !ready_expressions_.empty() || !ready_host_values_.empty()) {
      if (!ready_.empty()) {
        Emit(WithChecksAfter(TakeFirst(ready_)));
      } else if (!ready_host_values_.empty() && OnlyWaitingExpressions()) {
        Emit({TakeFirst(ready_host_values_)});
      } else {
        Emit(TakeExpressions());
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

  void AddDependencies() {
    accesses_.resize(schedule_.buffers.size());
    next_ordered_.assign(schedule_.steps.size(), -1);
    int last_ordered = -1;
    for (size_t i = 0; i < schedule_.steps.size(); ++i) {
      const ScheduledStep& step = schedule_.steps[i];
      const int index = static_cast<int>(i);
      for (const Operand& input : step.inputs) Read(input.buffer, index);
      for (const Operand& output : step.outputs) Write(output.buffer, index);
      if (IsOrdered(OpOf(method_, step))) {
        AddEdge(last_ordered, index);
        if (last_ordered >= 0) next_ordered_[static_cast<size_t>(last_ordered)] = index;
        last_ordered = index;
      } else if (WritesLastingMemory(step)) {
        AddEdge(last_ordered, index);
      }
    }
  }

  const Buffer& BufferOf(const Operand& operand) const {
    return schedule_.buffers[static_cast<size_t>(operand.buffer)];
  }

  bool WritesLastingMemory(const ScheduledStep& step) const {
    return std::any_of(step.outputs.begin(), step.outputs.end(), [&](const Operand& output) {
      const BufferKind kind = BufferOf(output).kind;
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
    const ScheduledStep& ready = schedule_.steps[static_cast<size_t>(step)];
    const bool is_on_host = IsHostCopy(schedule_, ready) && BufferOf(ready.inputs[0]).on_host;
    const bool is_expression = OpOf(method_, ready).has_expr();
    (is_on_host ? ready_host_values_ : is_expression ? ready_expressions_ : ready_).push_back(step);
  }

  // Removes and returns the first one in the original order.
  static int TakeFirst(std::vector<int>& steps) {
    const auto first = std::min_element(steps.begin(), steps.end());
    const int step = *first;
    steps.erase(first);
    return step;
  }

  // Returns whether no expression is ready that others wait for.
  bool OnlyWaitingExpressions() const {
    return std::all_of(ready_expressions_.begin(), ready_expressions_.end(), [&](int step) { return MayWait(step); });
  }

  // Returns true if nothing depends on the step, and its inputs do not take much memory while it waits.
  bool MayWait(int step) const {
    return followers_[static_cast<size_t>(step)].empty() &&
           HasSmallInputs(schedule_.steps[static_cast<size_t>(step)], schedule_);
  }

  // Removes the ready expressions of the next group: all, except those that may wait if there are others.
  std::vector<int> TakeExpressions() {
    const auto waiting =
        std::partition(ready_expressions_.begin(), ready_expressions_.end(), [&](int step) { return !MayWait(step); });
    std::vector<int> waiting_steps;
    if (waiting != ready_expressions_.begin()) waiting_steps.assign(waiting, ready_expressions_.end());
    ready_expressions_.resize(ready_expressions_.size() - waiting_steps.size());
    return std::exchange(ready_expressions_, std::move(waiting_steps));
  }

  // Returns true if the step checks an index and writes temporary memory only.
  bool IsCheck(int step) const {
    const ScheduledStep& checked = schedule_.steps[static_cast<size_t>(step)];
    return OpOf(method_, checked).has_checked_index() && !WritesLastingMemory(checked);
  }

  // Returns a ready step; if it checks an index, with the checks that would be next and wait for nothing else.
  std::vector<int> WithChecksAfter(int step) const {
    std::vector<int> steps = {step};
    while (IsCheck(steps.back())) {
      const int next = next_ordered_[static_cast<size_t>(steps.back())];
      if (next < 0 || waits_for_[static_cast<size_t>(next)] != 1 || !IsCheck(next)) break;
      steps.push_back(next);
    }
    return steps;
  }

  // Appends one step that executes `steps`, which are ready or wait for others of them.
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
        if (std::binary_search(steps.begin(), steps.end(), follower)) continue;
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
  std::vector<int> next_ordered_;            // by step that is ordered: the next one; -1: none
  std::vector<int> memory_;                  // by buffer: the first buffer with the same memory
  std::vector<Accesses> accesses_;           // by buffer
  std::vector<int> ready_;
  std::vector<int> ready_expressions_;
  std::vector<int> ready_host_values_;  // copies from the host, each made when nothing goes on without one
  std::vector<ScheduledStep> merged_;
};

}  // namespace

absl::Status MergeLaunches(const Method& method, absl::Span<const int64_t> symbols, Schedule& schedule) {
  COTAN_RETURN_IF_ERROR(PlaceEpilogues(method, symbols, schedule));
  WaitingInputs(method, schedule).Keep();
  Merger(method, schedule).Merge();
  return absl::OkStatus();
}

}  // namespace cotan
