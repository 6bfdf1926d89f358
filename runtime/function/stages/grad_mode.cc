// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/stages/grad_mode.h"

#include <optional>

#include "runtime/autograd/grad_mode.h"

namespace cotan {

std::unique_ptr<GradModeStage> GradModeStage::Create(const FunctionMetadata& function) {
  const std::optional<bool> enabled = function.metadata.facts().grad_enabled_mutation;
  return enabled.has_value() ? std::make_unique<GradModeStage>(*enabled) : nullptr;
}

absl::Status GradModeStage::Run(CallContext&) {
  GradMode::set_enabled(enabled_);
  return absl::OkStatus();
}

std::string GradModeStage::ToString() const { return enabled_ ? "on" : "off"; }

}  // namespace cotan
