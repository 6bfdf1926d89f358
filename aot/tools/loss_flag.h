// The loss as a command line says it.
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

// What is differentiated: an output, or a function of one and of a further
// input of the training step.
struct LossFlag {
  std::string function;  // "cross_entropy"; "" for the output itself
  int output = 0;        // negative: counts from the end
  std::string label;     // name of the further input; "" without a function
};

//   output:0
//   cross_entropy(output:0,label)
// InvalidArgument: neither; the message lists the functions there are.
absl::StatusOr<LossFlag> ParseLoss(absl::string_view text);

// Sets loss_output, or loss and targets, of `options`. `outputs` are example
// outputs of the model: they tell the label's sizes and dtype.
// InvalidArgument: the model has no such output, or the function cannot take
// it.
absl::Status SetLoss(const LossFlag& loss, const std::vector<at::Tensor>& outputs, CompileOptions& options);

}  // namespace cotan::aot

#endif  // COTAN_AOT_TOOLS_LOSS_FLAG_H_
