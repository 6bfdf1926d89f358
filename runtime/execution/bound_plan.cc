// SPDX-License-Identifier: Apache-2.0

#include "runtime/execution/bound_plan.h"

#include <chrono>

namespace cotan {
namespace {

// Tensors without elements have no memory.
void* At(void* base, int64_t offset) { return base == nullptr ? nullptr : static_cast<char*>(base) + offset; }

}  // namespace

BoundPlan::BoundPlan(const Plan& plan)
    : plan_(plan),
      pointers_(plan.pointers.size()),
      input_patches_(plan.inputs.size()),
      output_patches_(plan.outputs.size()) {
  for (size_t i = 0; i < plan.pointers.size(); ++i) {
    const PlannedPointer& pointer = plan.pointers[i];
    const auto index = static_cast<size_t>(pointer.index);
    if (pointer.kind == BufferKind::kInput) input_patches_[index].push_back({i, pointer.offset});
    if (pointer.kind == BufferKind::kOutput) output_patches_[index].push_back({i, pointer.offset});
  }
  steps_.reserve(plan.steps.size());
  for (const PlannedStep& step : plan.steps) {
    void* const* operands = pointers_.data() + step.first_pointer;
    steps_.push_back({step.kernel, {.inputs = operands, .outputs = operands + step.num_inputs}});
  }
}

void BoundPlan::Bind(const FixedAddresses& addresses) {
  for (size_t i = 0; i < pointers_.size(); ++i) {
    const PlannedPointer& pointer = plan_.pointers[i];
    if (pointer.kind == BufferKind::kArena) pointers_[i] = At(addresses.arena, pointer.offset);
    if (pointer.kind == BufferKind::kState) {
      pointers_[i] = At(addresses.states[static_cast<size_t>(pointer.index)], pointer.offset);
    }
  }
  for (size_t i = 0; i < steps_.size(); ++i)
    steps_[i].args.scratch = At(addresses.arena, plan_.steps[i].scratch_offset);
}

void BoundPlan::Patch(const std::vector<PatchPoint>& patches, void* address) {
  for (const PatchPoint& patch : patches) pointers_[patch.pointer] = At(address, patch.offset);
}

absl::Status BoundPlan::Execute(int& failed_step) {
  for (Step& step : steps_) {
    absl::Status status = step.kernel->Run(step.args);
    if (!status.ok()) {
      failed_step = static_cast<int>(&step - steps_.data());
      return status;
    }
  }
  return absl::OkStatus();
}

absl::Status BoundPlan::ExecuteTimed(Device& device, absl::Span<int64_t> nanoseconds, int& failed_step) {
  for (size_t i = 0; i < steps_.size(); ++i) {
    const auto start = std::chrono::steady_clock::now();
    absl::Status status = steps_[i].kernel->Run(steps_[i].args);
    if (status.ok()) status = device.Synchronize();
    if (!status.ok()) {
      failed_step = static_cast<int>(i);
      return status;
    }
    nanoseconds[i] =
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count();
  }
  return absl::OkStatus();
}

}  // namespace cotan
