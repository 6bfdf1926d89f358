// SPDX-License-Identifier: Apache-2.0

// The backends of tests as those of the example programs.
#include "base/status_macros.h"
#include "examples/common/backend.h"
#include "testing/cuda/open_backend.h"

namespace cotan::examples {

absl::StatusOr<Backend> OpenBackend(absl::string_view device) {
  COTAN_ASSIGN_OR_RETURN(const testing::Backend backend, testing::OpenBackend(device));
  return Backend{.kernels = backend.kernels, .device = backend.device};
}

}  // namespace cotan::examples
