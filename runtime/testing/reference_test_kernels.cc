// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include "kernels/reference/register_reference.h"
#include "runtime/testing/test_kernels.h"

namespace cotan::testing {

const KernelRegistry& TestKernels() {
  static const KernelRegistry& registry = *[] {
    auto* kernels = new KernelRegistry;
    EXPECT_TRUE(RegisterReferenceKernels(*kernels).ok());
    return kernels;
  }();
  return registry;
}

}  // namespace cotan::testing
