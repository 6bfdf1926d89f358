// SPDX-License-Identifier: Apache-2.0

// Parses optimizers given as a command line flag: "adamw(lr=1e-3,weight_decay=0.01)". No LibTorch.
#ifndef COTAN_AOT_TOOLS_OPTIMIZER_FLAG_H_
#define COTAN_AOT_TOOLS_OPTIMIZER_FLAG_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "aot/optimizer/optimizer.h"

namespace cotan::aot {

// Parses NAME or NAME(KEY=VALUE,...). NAME is sgd, adam or adamw; the keys are the fields of
// SgdOptions or AdamOptions; booleans are true or false.
// InvalidArgument: an unknown name or key, or an invalid value; the message has the part and lists
// the known ones.
absl::StatusOr<OptimizerOptions> ParseOptimizer(absl::string_view text);

}  // namespace cotan::aot

#endif  // COTAN_AOT_TOOLS_OPTIMIZER_FLAG_H_
