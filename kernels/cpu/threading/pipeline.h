// SPDX-License-Identifier: Apache-2.0

// A kernel made of steps that run one after another on shared scratch: reorders, a library primitive, a pass
// over its result.
#ifndef COTAN_KERNELS_CPU_THREADING_PIPELINE_H_
#define COTAN_KERNELS_CPU_THREADING_PIPELINE_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/api/kernel.h"

namespace cotan::cpu {

// The alignment of scratch memory of steps and threads in bytes: a line of the cache, and a vector.
inline constexpr size_t kScratchAlignment = 64;

// The memory of a step's operand: an input or output of the pipeline, or its scratch.
struct Slot {
  enum class Memory { kInput, kOutput, kScratch };
  Memory memory = Memory::kInput;
  size_t index = 0;        // of the pipeline's input or output; unused for kScratch
  size_t byte_offset = 0;  // from the operand's pointer or from the start of the scratch

  static Slot Input(size_t index, size_t byte_offset = 0) { return {Memory::kInput, index, byte_offset}; }
  static Slot Output(size_t index, size_t byte_offset = 0) { return {Memory::kOutput, index, byte_offset}; }
};

// Returns the address of a slot in the operands and scratch of a run.
void* Resolve(const Slot& slot, const KernelArgs& args);

// A sequence of kernels. Build it with AddScratch() and Add(), then use it as any kernel; without steps it
// does nothing. Run() sets OpenMP's default thread count to `threads` for libraries that use it.
class Pipeline final : public Kernel {
 public:
  explicit Pipeline(int threads) : threads_(threads) {}

  // Reserves `bytes` of scratch, aligned to kScratchAlignment, that steps share during a run. Call it before Run()
  // only.
  Slot AddScratch(size_t bytes);

  // Appends a step with its operands. All steps use the same memory for their own scratch.
  void Add(std::unique_ptr<Kernel> step, std::vector<Slot> inputs, std::vector<Slot> outputs);

  // Runs the steps in order. Returns the first error; later steps then do not run.
  absl::Status Run(const KernelArgs& args) override;

 private:
  struct Step {
    std::unique_ptr<Kernel> kernel;
    std::vector<Slot> inputs;
    std::vector<Slot> outputs;
    std::vector<void*> pointers;  // of inputs, then of outputs; filled by Run()
  };

  int threads_;
  size_t fixed_bytes_ = 0;  // of AddScratch(), a multiple of kScratchAlignment
  size_t step_bytes_ = 0;   // the largest need of a step
  std::vector<Step> steps_;
};

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_THREADING_PIPELINE_H_
