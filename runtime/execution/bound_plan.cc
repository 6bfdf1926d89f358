// SPDX-License-Identifier: Apache-2.0

#include "runtime/execution/bound_plan.h"

#include <algorithm>
#include <chrono>

#include "base/status_macros.h"

namespace cotan {
namespace {

// Tensors without elements have no memory.
void* At(void* base, int64_t offset) { return base == nullptr ? nullptr : static_cast<char*>(base) + offset; }

}  // namespace

BoundPlan::BoundPlan(const Plan& plan, Device& device)
    : plan_(plan),
      device_(device),
      records_(device.queues_work() && std::none_of(plan.kernels.begin(), plan.kernels.end(),
                                                    [](const auto& kernel) { return kernel->runs_on_host(); })),
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
  arena_ = addresses.arena;
  addresses_changed_ = true;
  for (size_t i = 0; i < pointers_.size(); ++i) {
    const PlannedPointer& pointer = plan_.pointers[i];
    if (pointer.kind == BufferKind::kArena) {
      pointers_[i] = At(pointer.on_host ? addresses.host_arena : addresses.arena, pointer.offset);
    }
    if (pointer.kind == BufferKind::kState) {
      pointers_[i] = At(addresses.states[static_cast<size_t>(pointer.index)], pointer.offset);
    }
  }
  for (size_t i = 0; i < steps_.size(); ++i)
    steps_[i].args.scratch = At(addresses.arena, plan_.steps[i].scratch_offset);
}

void BoundPlan::Patch(const std::vector<PatchPoint>& patches, void* address) {
  for (const PatchPoint& patch : patches) {
    void*& pointer = pointers_[patch.pointer];
    void* const patched = At(address, patch.offset);
    addresses_changed_ |= pointer != patched;
    pointer = patched;
  }
}

absl::Status BoundPlan::Execute(int& failed_step) {
  return records_ ? ExecuteRecorded(failed_step) : Queue(failed_step);
}

BoundPlan::Recording* BoundPlan::FindRecording() {
  if (!addresses_changed_ && current_ != nullptr) return current_;
  addresses_changed_ = false;
  for (Recording& recording : recordings_) {
    if (recording.arena == arena_ && recording.pointers == pointers_) return current_ = &recording;
  }
  if (recordings_.size() < kRecordings) {
    recordings_.reserve(kRecordings);  // current_ points into it
    recordings_.emplace_back();
    current_ = &recordings_.back();
  } else {
    current_ = &*std::min_element(recordings_.begin(), recordings_.end(),
                                  [](const Recording& a, const Recording& b) { return a.last_call < b.last_call; });
  }
  current_->pointers = pointers_;
  current_->arena = arena_;
  current_->work = nullptr;
  current_->last_call = num_calls_;
  return nullptr;
}

absl::Status BoundPlan::ExecuteRecorded(int& failed_step) {
  ++num_calls_;
  Recording* const recording = FindRecording();
  if (recording == nullptr) return Queue(failed_step);
  recording->last_call = num_calls_;
  if (recording->work == nullptr) {
    COTAN_ASSIGN_OR_RETURN(recording->work, device_.Record([&] { return Queue(failed_step); }));
    if (recording->work == nullptr) return Queue(failed_step);
  }
  return recording->work->Run();
}

absl::Status BoundPlan::Queue(int& failed_step) {
  for (Step& step : steps_) {
    absl::Status status = step.kernel->Run(step.args);
    if (!status.ok()) {
      failed_step = static_cast<int>(&step - steps_.data());
      return status;
    }
  }
  return absl::OkStatus();
}

absl::Status BoundPlan::ExecuteTimed(absl::Span<int64_t> nanoseconds, int& failed_step) {
  for (size_t i = 0; i < steps_.size(); ++i) {
    const auto start = std::chrono::steady_clock::now();
    absl::Status status = steps_[i].kernel->Run(steps_[i].args);
    if (status.ok()) status = device_.Synchronize();
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
