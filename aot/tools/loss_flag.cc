// SPDX-License-Identifier: Apache-2.0

#include "aot/tools/loss_flag.h"

#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/huber_loss.h>
#include <ATen/ops/l1_loss.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/nll_loss_nd.h>
#include <ATen/ops/smooth_l1_loss.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace cotan::aot {
namespace {

// A loss function that a flag can select.
struct LossKind {
  absl::string_view name;
  // True if the label is a class index along dimension 1 of the output; if false, it has the sizes
  // and dtype of the output.
  bool takes_classes;
  at::Tensor (*compute)(const at::Tensor& output, const at::Tensor& label);
};

constexpr LossKind kKinds[] = {
    {"cross_entropy", true, [](const at::Tensor& y, const at::Tensor& t) { return at::cross_entropy_loss(y, t); }},
    {"nll_loss", true, [](const at::Tensor& y, const at::Tensor& t) { return at::nll_loss_nd(y, t); }},
    {"mse_loss", false, [](const at::Tensor& y, const at::Tensor& t) { return at::mse_loss(y, t); }},
    {"l1_loss", false, [](const at::Tensor& y, const at::Tensor& t) { return at::l1_loss(y, t); }},
    {"smooth_l1_loss", false, [](const at::Tensor& y, const at::Tensor& t) { return at::smooth_l1_loss(y, t); }},
    {"huber_loss", false, [](const at::Tensor& y, const at::Tensor& t) { return at::huber_loss(y, t); }},
    {"binary_cross_entropy_with_logits", false,
     [](const at::Tensor& y, const at::Tensor& t) { return at::binary_cross_entropy_with_logits(y, t); }},
};

const LossKind* FindKind(absl::string_view name) {
  const auto found =
      std::find_if(std::begin(kKinds), std::end(kKinds), [&](const LossKind& kind) { return kind.name == name; });
  return found == std::end(kKinds) ? nullptr : found;
}

absl::Status NotUnderstood(absl::string_view text) {
  const auto append = [](std::string* out, const LossKind& kind) { absl::StrAppend(out, kind.name); };
  return absl::InvalidArgumentError(
      absl::StrCat("the loss '", text,
                   "' is not understood: give output:N or FUNCTION(output:N,NAME), where NAME is a new "
                   "input of the step and FUNCTION one of ",
                   absl::StrJoin(kKinds, ", ", append)));
}

bool ParseOutput(absl::string_view text, int* output) {
  text = absl::StripAsciiWhitespace(text);
  return absl::ConsumePrefix(&text, "output:") && absl::SimpleAtoi(text, output);
}

// Returns the sizes of the output without the class dimension.
std::vector<int64_t> ClassSizes(const at::Tensor& output) {
  std::vector<int64_t> sizes = output.sizes().vec();
  sizes.erase(sizes.begin() + (sizes.size() > 1 ? 1 : 0));
  return sizes;
}

}  // namespace

absl::StatusOr<LossFlag> ParseLoss(absl::string_view text) {
  LossFlag loss;
  if (ParseOutput(text, &loss.output)) return loss;
  absl::string_view rest = absl::StripAsciiWhitespace(text);
  const size_t open = rest.find('(');
  if (open == absl::string_view::npos || !absl::ConsumeSuffix(&rest, ")")) return NotUnderstood(text);
  loss.function = std::string(absl::StripAsciiWhitespace(rest.substr(0, open)));
  const std::vector<absl::string_view> arguments = absl::StrSplit(rest.substr(open + 1), ',');
  if (FindKind(loss.function) == nullptr || arguments.size() != 2) return NotUnderstood(text);
  loss.label = std::string(absl::StripAsciiWhitespace(arguments[1]));
  if (!ParseOutput(arguments[0], &loss.output) || loss.label.empty()) return NotUnderstood(text);
  return loss;
}

absl::Status SetLoss(const LossFlag& loss, const std::vector<at::Tensor>& outputs, CompileOptions& options) {
  const int count = static_cast<int>(outputs.size());
  const int index = loss.output < 0 ? loss.output + count : loss.output;
  if (index < 0 || index >= count) {
    return absl::InvalidArgumentError(
        absl::StrCat("the loss is of output ", loss.output, ", and the model has ", count, " outputs"));
  }
  if (loss.function.empty()) {
    options.loss.output = index;
    return absl::OkStatus();
  }
  const LossKind& kind = *FindKind(loss.function);
  const at::Tensor& output = outputs[static_cast<size_t>(index)];
  if (!output.defined()) {
    return absl::InvalidArgumentError(absl::StrCat(loss.function, " cannot be taken of output ", index,
                                                   ", whose sizes depend on data; return the loss from the model and "
                                                   "give output:N"));
  }
  if (!output.is_floating_point() || (kind.takes_classes && output.dim() == 0)) {
    return absl::InvalidArgumentError(absl::StrCat(loss.function, " cannot be taken of output ", index));
  }
  options.loss.targets = {kind.takes_classes ? at::zeros(ClassSizes(output), at::TensorOptions(at::kLong))
                                             : at::zeros(output.sizes(), at::TensorOptions(output.scalar_type()))};
  options.loss.function = [compute = kind.compute, index](const std::vector<at::Tensor>& results,
                                                          const std::vector<at::Tensor>& targets) {
    return compute(results[static_cast<size_t>(index)], targets[0]);
  };
  return absl::OkStatus();
}

}  // namespace cotan::aot
