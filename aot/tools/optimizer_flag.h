// Optimizers as text: "adamw(lr=1e-3,weight_decay=0.01)". No LibTorch.
#ifndef COTAN_AOT_TOOLS_OPTIMIZER_FLAG_H_
#define COTAN_AOT_TOOLS_OPTIMIZER_FLAG_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "aot/optimizer/optimizer.h"

namespace cotan::aot {

// NAME or NAME(KEY=VALUE,...); NAME is sgd, adam or adamw, keys are the fields
// of SgdOptions and AdamOptions, of which booleans take true or false.
// InvalidArgument: the message says which part and lists what is known.
absl::StatusOr<OptimizerOptions> ParseOptimizer(absl::string_view text);

}  // namespace cotan::aot

#endif  // COTAN_AOT_TOOLS_OPTIMIZER_FLAG_H_
