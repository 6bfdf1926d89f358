// SPDX-License-Identifier: Apache-2.0

// Parses low-rank adapters given as command line flags.
#ifndef COTAN_AOT_TOOLS_LORA_FLAG_H_
#define COTAN_AOT_TOOLS_LORA_FLAG_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "aot/frontend/lora.h"

namespace cotan::aot {

// Parses "*.q_proj,*.v_proj:r=8,alpha=16": patterns of linear layers, and optionally the rank and alpha. Without alpha
// it is twice the rank, without both 8 and 16. InvalidArgument: no pattern, an unknown setting, or a value that is not
// a positive number; the message shows the form.
absl::StatusOr<LoraOptions> ParseLora(absl::string_view text);

}  // namespace cotan::aot

#endif  // COTAN_AOT_TOOLS_LORA_FLAG_H_
