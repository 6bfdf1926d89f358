// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/threading/pipeline.h"

#include <algorithm>
#include <utility>

#include "base/rounding.h"
#include "base/status_macros.h"
#include "kernels/cpu/threading/parallel.h"

namespace cotan::cpu {
namespace {}  // namespace

void* Resolve(const Slot& slot, const KernelArgs& args) {
  void* base = args.scratch;
  if (slot.memory == Slot::Memory::kInput) base = args.inputs[slot.index];
  if (slot.memory == Slot::Memory::kOutput) base = args.outputs[slot.index];
  return static_cast<char*>(base) + slot.byte_offset;
}

Slot Pipeline::AddScratch(size_t bytes) {
  const Slot slot{Slot::Memory::kScratch, 0, fixed_bytes_};
  fixed_bytes_ += RoundUp(bytes, kScratchAlignment);
  scratch_bytes_ = fixed_bytes_ + step_bytes_;
  return slot;
}

void Pipeline::Add(std::unique_ptr<Kernel> step, std::vector<Slot> inputs, std::vector<Slot> outputs) {
  step_bytes_ = std::max(step_bytes_, step->scratch_bytes());
  scratch_bytes_ = fixed_bytes_ + step_bytes_;
  std::vector<void*> pointers(inputs.size() + outputs.size());
  steps_.push_back({std::move(step), std::move(inputs), std::move(outputs), std::move(pointers)});
}

absl::Status Pipeline::Run(const KernelArgs& args) {
  const ScopedThreads scoped(threads_);
  void* const step_scratch = static_cast<char*>(args.scratch) + fixed_bytes_;
  for (Step& step : steps_) {
    void** pointer = step.pointers.data();
    for (const Slot& slot : step.inputs) *pointer++ = Resolve(slot, args);
    for (const Slot& slot : step.outputs) *pointer++ = Resolve(slot, args);
    COTAN_RETURN_IF_ERROR(
        step.kernel->Run({step.pointers.data(), step.pointers.data() + step.inputs.size(), step_scratch}));
  }
  return absl::OkStatus();
}

}  // namespace cotan::cpu
