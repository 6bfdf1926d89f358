// SPDX-License-Identifier: Apache-2.0

// The ranges of the numbers of an optimizer: those of torch.optim. Private to //aot/optimizer.
#ifndef COTAN_AOT_OPTIMIZER_OPTION_RANGES_H_
#define COTAN_AOT_OPTIMIZER_OPTION_RANGES_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "aot/optimizer/optimizer.h"

namespace cotan::aot {

// InvalidArgument: `value` is not in [low, high); the message begins with `what`.
absl::Status CheckRange(absl::string_view what, double value, double low, double high);

// InvalidArgument: an option is out of range.
absl::Status CheckRanges(const OptimizerOptions& options);
absl::Status CheckRanges(const LossScaling& scaling);

}  // namespace cotan::aot

#endif  // COTAN_AOT_OPTIMIZER_OPTION_RANGES_H_
