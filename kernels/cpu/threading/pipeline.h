// A kernel made of kernels: reorders, a library primitive, a pass over its
// result, run one after another on shared scratch memory.
#ifndef COTAN_KERNELS_CPU_THREADING_PIPELINE_H_
#define COTAN_KERNELS_CPU_THREADING_PIPELINE_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/api/kernel.h"

namespace cotan::cpu {

// Where an operand of a step lies.
struct Slot {
  enum class Memory { kInput, kOutput, kScratch };
  Memory memory = Memory::kInput;
  size_t index = 0;        // among the pipeline's inputs or outputs; unused for kScratch
  size_t byte_offset = 0;  // from the operand's pointer or from the start of the scratch

  static Slot Input(size_t index, size_t byte_offset = 0) { return {Memory::kInput, index, byte_offset}; }
  static Slot Output(size_t index, size_t byte_offset = 0) { return {Memory::kOutput, index, byte_offset}; }
};

// The pointer a slot stands for.
void* Resolve(const Slot& slot, const KernelArgs& args);

// Build with AddScratch() and Add(), then use as any kernel; without a step it
// does nothing. Libraries that size their teams by OpenMP's default use
// `threads` threads while it runs.
class Pipeline final : public Kernel {
 public:
  explicit Pipeline(int threads) : threads_(threads) {}

  // Reserves `bytes` of scratch that live from the first step to the last,
  // aligned to 64 bytes. Call before Run() only.
  Slot AddScratch(size_t bytes);

  // Appends a step with its operands. The scratch a step itself needs is
  // shared by all steps.
  void Add(std::unique_ptr<Kernel> step, std::vector<Slot> inputs, std::vector<Slot> outputs);

  // The first error of a step; later steps then do not run.
  absl::Status Run(const KernelArgs& args) override;

 private:
  struct Step {
    std::unique_ptr<Kernel> kernel;
    std::vector<Slot> inputs;
    std::vector<Slot> outputs;
    std::vector<void*> pointers;  // of inputs, then of outputs; filled by Run()
  };

  int threads_;
  size_t fixed_bytes_ = 0;  // of AddScratch(), a multiple of 64
  size_t step_bytes_ = 0;   // the largest need of a step
  std::vector<Step> steps_;
};

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_THREADING_PIPELINE_H_
