// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include "kernels/cpu/register_cpu.h"
#include "kernels/reference/register_reference.h"
#include "runtime/testing/test_kernels.h"

namespace cotan::testing {

const KernelRegistry& TestKernels() {
  static const KernelRegistry& registry = *[] {
    auto* kernels = new KernelRegistry;
    EXPECT_TRUE(RegisterCpuKernels(*kernels).ok());
    // Adds reference kernels up to the first one that the CPU backend has (AlreadyExists).
    RegisterReferenceKernels(*kernels).IgnoreError();
    return kernels;
  }();
  return registry;
}

}  // namespace cotan::testing
