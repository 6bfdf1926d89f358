// SPDX-License-Identifier: Apache-2.0

#include "planning/lifetimes.h"

namespace cotan {
namespace {

// Returns the lifetimes of the arena buffers on the host or on the device.
std::vector<BufferLifetime> LifetimesIn(bool on_host, const Schedule& schedule) {
  std::vector<BufferLifetime> lifetimes(schedule.buffers.size());
  std::vector<bool> touched(schedule.buffers.size());
  for (size_t i = 0; i < schedule.steps.size(); ++i) {
    const auto step = static_cast<int>(i);
    const auto touch = [&](const Operand& operand) {
      const auto index = static_cast<size_t>(operand.buffer);
      const Buffer& buffer = schedule.buffers[index];
      if (buffer.kind != BufferKind::kArena || buffer.on_host != on_host) return;
      if (!touched[index]) lifetimes[index] = {.bytes = buffer.bytes, .first = step, .last = step};
      touched[index] = true;
      lifetimes[index].last = step;
    };
    for (const Operand& input : schedule.steps[i].inputs) touch(input);
    for (const Operand& output : schedule.steps[i].outputs) touch(output);
  }
  return lifetimes;
}

}  // namespace

std::vector<BufferLifetime> ArenaLifetimes(const Schedule& schedule, absl::Span<const int64_t> scratch_bytes) {
  std::vector<BufferLifetime> lifetimes = LifetimesIn(/*on_host=*/false, schedule);
  for (size_t i = 0; i < scratch_bytes.size(); ++i) {
    lifetimes.push_back({.bytes = scratch_bytes[i], .first = static_cast<int>(i), .last = static_cast<int>(i)});
  }
  return lifetimes;
}

std::vector<BufferLifetime> HostLifetimes(const Schedule& schedule) { return LifetimesIn(/*on_host=*/true, schedule); }

}  // namespace cotan
