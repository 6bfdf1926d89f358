// SPDX-License-Identifier: Apache-2.0

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "examples/common/backend.h"
#include "kernels/cpu/register_portable.h"

namespace cotan::examples {

absl::StatusOr<Backend> OpenBackend(absl::string_view device) {
  if (device != "cpu") {
    return absl::InvalidArgumentError(absl::StrCat("--device=", device, ": this program has kernels for cpu only"));
  }
  static KernelRegistry& registry = *new KernelRegistry;
  static const absl::Status& status = *new absl::Status(RegisterPortableKernels(registry));
  COTAN_RETURN_IF_ERROR(status);
  return Backend{.kernels = &registry};
}

}  // namespace cotan::examples
