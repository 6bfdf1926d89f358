// SPDX-License-Identifier: Apache-2.0

// The backends of tests and of tools for tests.
#ifndef COTAN_TESTING_CUDA_OPEN_BACKEND_H_
#define COTAN_TESTING_CUDA_OPEN_BACKEND_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/api/device.h"
#include "kernels/api/registry.h"

namespace cotan::testing {

struct Backend {
  const KernelRegistry* kernels = nullptr;
  Device* device = nullptr;  // null: the host
};

// Returns the backend for a value of --device: "cpu"; "cuda", the first GPU; "cuda_sim", a simulated GPU. Devices are
// opened once per process and never closed.
// InvalidArgument: there is no such backend. Unavailable: the machine has no GPU, or no NVRTC for the simulated one.
absl::StatusOr<Backend> OpenBackend(absl::string_view device);

}  // namespace cotan::testing

#endif  // COTAN_TESTING_CUDA_OPEN_BACKEND_H_
