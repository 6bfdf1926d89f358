// SPDX-License-Identifier: Apache-2.0

// The backends of the example programs.
#ifndef COTAN_EXAMPLES_COMMON_BACKEND_H_
#define COTAN_EXAMPLES_COMMON_BACKEND_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/api/device.h"
#include "kernels/api/registry.h"

namespace cotan::examples {

// Values for SessionOptions.
struct Backend {
  const KernelRegistry* kernels = nullptr;
  Device* device = nullptr;  // null: the host
};

// Returns the backend for --device=cpu or --device=cuda, the first GPU, which stays open until the process ends.
// InvalidArgument: there is no such backend. Unavailable: there is no GPU, or no driver for it.
absl::StatusOr<Backend> OpenBackend(absl::string_view device);

}  // namespace cotan::examples

#endif  // COTAN_EXAMPLES_COMMON_BACKEND_H_
