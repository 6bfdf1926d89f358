// SPDX-License-Identifier: Apache-2.0

// Parses dynamic dimensions and memory sizes given as command line flags. No LibTorch.
#ifndef COTAN_AOT_TOOLS_DYNAMIC_FLAG_H_
#define COTAN_AOT_TOOLS_DYNAMIC_FLAG_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "aot/dynamic/dynamic_dim.h"

namespace cotan::aot {

// Parses a dynamic dimension:
//   input.0:0=batch[1:64]   dimension 0 of input 0, between 1 and 64
//   input.1:-1=time[2:]     the last dimension of input 1, at least 2
//   target.0:0=batch        dimension 0 of the first target
// `num_inputs` is the number of inputs of the model; targets have the indexes after them.
// InvalidArgument: another form, an input that does not exist, an empty range; the message shows
// the form.
absl::StatusOr<DynamicDim> ParseDynamicDim(absl::string_view text, int num_inputs);

// Parses a memory size in bytes: "64MiB", "1.5GiB", "300KiB", "4096". InvalidArgument: another
// form, or a size that is not positive.
absl::StatusOr<int64_t> ParseBytes(absl::string_view text);

}  // namespace cotan::aot

#endif  // COTAN_AOT_TOOLS_DYNAMIC_FLAG_H_
