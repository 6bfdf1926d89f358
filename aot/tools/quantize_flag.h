// SPDX-License-Identifier: Apache-2.0

// Parses the parameters to quantize, given as a command line flag.
#ifndef COTAN_AOT_TOOLS_QUANTIZE_FLAG_H_
#define COTAN_AOT_TOOLS_QUANTIZE_FLAG_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "aot/frontend/quantize.h"

namespace cotan::aot {

// Parses "*.q_proj.weight,*.v_proj.weight:int4,group=64": patterns of parameters, then int8 or int4, and optionally
// the group. InvalidArgument: no pattern, no type, an unknown setting, or a group that is not a positive number; the
// message shows the form.
absl::StatusOr<QuantizeOptions> ParseQuantize(absl::string_view text);

}  // namespace cotan::aot

#endif  // COTAN_AOT_TOOLS_QUANTIZE_FLAG_H_
