// SPDX-License-Identifier: Apache-2.0

#include "aot/compile_options.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

// Each order doubles the ops of the previous one, or worse.
constexpr int kMaxOrder = 4;

}  // namespace

absl::Status CheckOptions(const CompileOptions& options) {
  if (options.loss.output.has_value() && options.loss.function != nullptr) {
    return absl::InvalidArgumentError("give either loss.output or loss.function, not both");
  }
  if (options.loss.function == nullptr && !options.loss.targets.empty()) {
    return absl::InvalidArgumentError(
        "loss.targets are the inputs of a loss function, but CompileOptions.loss.function is not set");
  }
  if (options.methods.accumulate && !options.optimizer.has_value()) {
    return absl::InvalidArgumentError("methods.accumulate needs an optimizer");
  }
  if (options.order < 1 || options.order > kMaxOrder) {
    return absl::InvalidArgumentError(absl::StrCat("order is ", options.order, "; it has to be 1 to ", kMaxOrder));
  }
  if (options.data_parallel.has_value()) {
    COTAN_RETURN_IF_ERROR(CheckDataParallel(*options.data_parallel));
    if (!options.optimizer.has_value()) return absl::InvalidArgumentError("data_parallel needs an optimizer");
  }
  const SavedTensorHooks& hooks = options.saved_tensor_hooks;
  if (hooks.is_set() && (hooks.pack == nullptr || hooks.unpack == nullptr)) {
    return absl::InvalidArgumentError("saved_tensor_hooks needs both functions, pack and unpack");
  }
  COTAN_RETURN_IF_ERROR(CheckDataDependentSizes(options.tracing.data_dependent_sizes));
  return CheckPartitionOptions(
      {.partitioner = options.partitioner, .activation_memory_budget = options.activation_memory_budget});
}

AttentionRule AttentionRuleOf(const CompileOptions& options) {
  AttentionRule rule;
  rule.form = options.tracing.attention;
  if (rule.form == AttentionForm::kAuto && options.order > 1) rule.form = AttentionForm::kComposed;
  rule.for_cuda = options.target == CompileTarget::kCuda;
  rule.sizes_vary = !options.dynamic_dims.empty() || options.tracing.data_dependent_sizes.range.has_value();
  return rule;
}

}  // namespace cotan::aot
