// SPDX-License-Identifier: Apache-2.0

// A plan with addresses: the flat array of steps that a call executes.
#ifndef COTAN_RUNTIME_EXECUTION_BOUND_PLAN_H_
#define COTAN_RUNTIME_EXECUTION_BOUND_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/api/device.h"
#include "kernels/api/kernel.h"
#include "runtime/execution/plan.h"

namespace cotan {

// Addresses that stay the same between calls.
struct FixedAddresses {
  void* arena = nullptr;           // of plan.arena_bytes
  void* host_arena = nullptr;      // of plan.host_bytes, in the device's pinned memory
  absl::Span<void* const> states;  // one per state of the artifact
};

// A plan whose steps have their addresses. Not thread-safe. The plan outlives it.
class BoundPlan {
 public:
  // `device` is that of the plan's kernels, and outlives it.
  BoundPlan(const Plan& plan, Device& device);

  // Sets all addresses except those of arguments and results. Call it again when one of them changes.
  // Allocates nothing.
  void Bind(const FixedAddresses& addresses);

  // Sets the address of an argument or result; `index` is in range. The memory has the layout of
  // plan.inputs[index] or plan.outputs[index].
  void SetInput(int index, void* address) { Patch(input_patches_[static_cast<size_t>(index)], address); }
  void SetOutput(int index, void* address) { Patch(output_patches_[static_cast<size_t>(index)], address); }

  // Executes all steps in order. Stops at the first step that fails, sets `failed_step` to its index and
  // returns its status. Allocates nothing; but on a device that records work, the second call with the same addresses
  // records it, and later ones queue the recording, for the last kRecordings sets of addresses.
  absl::Status Execute(int& failed_step);

  // Executes all steps as Execute() does, but waits for the device after each step and sets nanoseconds[i] to
  // the time of step i. `nanoseconds` has one element per step of the plan.
  absl::Status ExecuteTimed(absl::Span<int64_t> nanoseconds, int& failed_step);

 private:
  static constexpr size_t kRecordings = 4;

  // The steps with one set of addresses.
  struct Recording {
    std::vector<void*> pointers;
    void* arena = nullptr;
    std::unique_ptr<RecordedWork> work;  // null: the set was seen once
    uint64_t last_call = 0;
  };

  // An entry of pointers_ that depends on one argument or result.
  struct PatchPoint {
    size_t pointer;
    int64_t offset;  // bytes
  };
  struct Step {
    Kernel* kernel;
    KernelArgs args;
  };

  void Patch(const std::vector<PatchPoint>& patches, void* address);
  absl::Status Queue(int& failed_step);
  absl::Status ExecuteRecorded(int& failed_step);
  // Returns the recording of the present addresses, or null after noting them in place of the oldest.
  Recording* FindRecording();

  const Plan& plan_;
  Device& device_;
  bool records_ = false;  // the device may record all steps
  void* arena_ = nullptr;
  bool addresses_changed_ = true;  // since the last Execute()
  std::vector<Recording> recordings_;
  Recording* current_ = nullptr;  // of the last Execute(); null: none
  uint64_t num_calls_ = 0;
  std::vector<void*> pointers_;  // KernelArgs point into it
  std::vector<Step> steps_;
  std::vector<std::vector<PatchPoint>> input_patches_;   // by argument
  std::vector<std::vector<PatchPoint>> output_patches_;  // by result
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_EXECUTION_BOUND_PLAN_H_
