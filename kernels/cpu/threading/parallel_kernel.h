// SPDX-License-Identifier: Apache-2.0

// A kernel made of independent kernels that share threads.
#ifndef COTAN_KERNELS_CPU_THREADING_PARALLEL_KERNEL_H_
#define COTAN_KERNELS_CPU_THREADING_PARALLEL_KERNEL_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "kernels/api/kernel.h"
#include "kernels/cpu/threading/pipeline.h"

namespace cotan::cpu {

// A kernel of parts that run in parallel. Each part runs on one thread and writes elements that no other part
// reads or writes, so results do not depend on the thread count. Slot::Input and Slot::Output of a part refer
// to this kernel's operands.
class ParallelKernel final : public Kernel {
 public:
  explicit ParallelKernel(int threads) : threads_(threads) {}

  // Adds a part, which must have been prepared for one thread.
  void Add(std::unique_ptr<Kernel> part, std::vector<Slot> inputs, std::vector<Slot> outputs);

  // Runs all parts. Returns the error of the first part, in the order added, that fails.
  absl::Status Run(const KernelArgs& args) override;

 private:
  struct Part {
    std::unique_ptr<Kernel> kernel;
    std::vector<Slot> inputs;
    std::vector<Slot> outputs;
    std::vector<void*> pointers;  // of inputs, then of outputs; filled by Run()
    absl::Status status;          // of the last run
  };

  int threads_;
  size_t worker_bytes_ = 0;  // scratch of each thread, a multiple of 64
  std::vector<Part> parts_;
};

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_THREADING_PARALLEL_KERNEL_H_
