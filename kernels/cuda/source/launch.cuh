// SPDX-License-Identifier: Apache-2.0

// How a kernel begins.
#pragma once

namespace cotan {

// Waits until all work that was queued before the launch has ended, and sees what it wrote. Every thread of every
// kernel calls it, before it accesses global memory: the kernel may begin while the one in front of it still runs
// (KernelLaunch, kernels/cuda/launch/kernel_plan.h). GPUs before sm_90 begin it later, and have no such instruction.
__device__ inline void WaitForEarlierWork() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace cotan
