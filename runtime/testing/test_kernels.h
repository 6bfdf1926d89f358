// SPDX-License-Identifier: Apache-2.0

// The kernels with which tests of the runtime run programs.
#ifndef COTAN_RUNTIME_TESTING_TEST_KERNELS_H_
#define COTAN_RUNTIME_TESTING_TEST_KERNELS_H_

#include "kernels/api/registry.h"

namespace cotan::testing {

// Returns kernels for every op that tests use: those of the CPU backend, or in builds with sanitizers the
// reference kernels, which compile fast. Never destroyed.
const KernelRegistry& TestKernels();

}  // namespace cotan::testing

#endif  // COTAN_RUNTIME_TESTING_TEST_KERNELS_H_
