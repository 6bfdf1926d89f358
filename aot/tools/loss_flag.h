// SPDX-License-Identifier: Apache-2.0

// Parses a loss given as a command line flag.
#ifndef COTAN_AOT_TOOLS_LOSS_FLAG_H_
#define COTAN_AOT_TOOLS_LOSS_FLAG_H_

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "aot/compile.h"

namespace cotan::aot {

// A loss: an output of the model, or a function of an output and of an additional input of the
// training step.
struct LossFlag {
  std::string function;  // "cross_entropy"; "" for the output itself
  int output = 0;        // negative: counts from the end
  std::string label;     // name of the additional input; "" without a function
};

// Parses "output:0" or "cross_entropy(output:0,label)".
// InvalidArgument: another form or an unknown function; the message lists the functions.
absl::StatusOr<LossFlag> ParseLoss(absl::string_view text);

// Sets options.loss: the output, or function and targets. `outputs` have sizes and dtypes of the model's outputs, from
// which those of the label follow; their content is not read, and those whose sizes depend on data are undefined.
// InvalidArgument: the model does not have the output, or the function cannot be taken of it.
absl::Status SetLoss(const LossFlag& loss, const std::vector<at::Tensor>& outputs, CompileOptions& options);

}  // namespace cotan::aot

#endif  // COTAN_AOT_TOOLS_LOSS_FLAG_H_
