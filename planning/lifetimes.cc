// SPDX-License-Identifier: Apache-2.0

#include "planning/lifetimes.h"

namespace cotan {

std::vector<BufferLifetime> ArenaLifetimes(const Schedule& schedule, absl::Span<const int64_t> scratch_bytes) {
  std::vector<BufferLifetime> lifetimes(schedule.buffers.size());
  std::vector<bool> touched(schedule.buffers.size());
  for (size_t i = 0; i < schedule.steps.size(); ++i) {
    const auto step = static_cast<int>(i);
    const auto touch = [&](const Operand& operand) {
      const auto index = static_cast<size_t>(operand.buffer);
      const Buffer& buffer = schedule.buffers[index];
      if (buffer.kind != BufferKind::kArena) return;
      if (!touched[index]) lifetimes[index] = {.bytes = buffer.bytes, .first = step, .last = step};
      touched[index] = true;
      lifetimes[index].last = step;
    };
    for (const Operand& input : schedule.steps[i].inputs) touch(input);
    for (const Operand& output : schedule.steps[i].outputs) touch(output);
  }
  for (size_t i = 0; i < scratch_bytes.size(); ++i) {
    lifetimes.push_back({.bytes = scratch_bytes[i], .first = static_cast<int>(i), .last = static_cast<int>(i)});
  }
  return lifetimes;
}

}  // namespace cotan
