// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/threading/parallel_kernel.h"

#include <algorithm>
#include <utility>

#include "base/rounding.h"
#include "base/status_macros.h"
#include "kernels/cpu/threading/parallel.h"

namespace cotan::cpu {

void ParallelKernel::Add(std::unique_ptr<Kernel> part, std::vector<Slot> inputs, std::vector<Slot> outputs) {
  worker_bytes_ = std::max(worker_bytes_, RoundUp(part->scratch_bytes(), kScratchAlignment));
  scratch_bytes_ = worker_bytes_ * static_cast<size_t>(threads_);
  std::vector<void*> pointers(inputs.size() + outputs.size());
  parts_.push_back({std::move(part), std::move(inputs), std::move(outputs), std::move(pointers), {}});
}

absl::Status ParallelKernel::Run(const KernelArgs& args) {
  ParallelForWorker(threads_, static_cast<int64_t>(parts_.size()), 1, [&](int worker, int64_t i, int64_t) {
    const ScopedThreads one_thread(1);  // the worker may be the caller's thread
    Part& part = parts_[static_cast<size_t>(i)];
    const KernelArgs own{part.pointers.data(), part.pointers.data() + part.inputs.size(),
                         static_cast<char*>(args.scratch) + worker_bytes_ * static_cast<size_t>(worker)};
    void** pointer = part.pointers.data();
    for (const Slot& slot : part.inputs) *pointer++ = Resolve(slot, args);
    for (const Slot& slot : part.outputs) *pointer++ = Resolve(slot, args);
    part.status = part.kernel->Run(own);
  });
  for (const Part& part : parts_) COTAN_RETURN_IF_ERROR(part.status);
  return absl::OkStatus();
}

}  // namespace cotan::cpu
