// SPDX-License-Identifier: Apache-2.0

#include "planning/host_copies.h"

#include "absl/container/flat_hash_set.h"

namespace cotan {
namespace {

const Buffer& BufferOf(const Schedule& schedule, const Operand& operand) {
  return schedule.buffers[static_cast<size_t>(operand.buffer)];
}

}  // namespace

bool IsHostCopy(const Schedule& schedule, const ScheduledStep& step) {
  return step.inputs.size() == 1 && step.outputs.size() == 1 &&
         (BufferOf(schedule, step.inputs[0]).on_host || BufferOf(schedule, step.outputs[0]).on_host);
}

void DropUnreadHostCopies(Schedule& schedule) {
  absl::flat_hash_set<int> read;
  for (const ScheduledStep& step : schedule.steps) {
    for (const Operand& input : step.inputs) read.insert(input.buffer);
  }
  std::erase_if(schedule.steps, [&](const ScheduledStep& step) {
    if (!IsHostCopy(schedule, step)) return false;
    const Buffer& target = BufferOf(schedule, step.outputs[0]);
    return target.on_host && target.kind == BufferKind::kArena && !read.contains(step.outputs[0].buffer);
  });
}

}  // namespace cotan
