// Kernels that tests of the runtime run programs with.
#ifndef COTAN_RUNTIME_TESTING_TEST_KERNELS_H_
#define COTAN_RUNTIME_TESTING_TEST_KERNELS_H_

#include "kernels/api/registry.h"

namespace cotan::testing {

// For every op that tests use: the CPU backend's, in builds with sanitizers the
// reference kernels, of which there is little to compile. Never destroyed.
const KernelRegistry& TestKernels();

}  // namespace cotan::testing

#endif  // COTAN_RUNTIME_TESTING_TEST_KERNELS_H_
