// SPDX-License-Identifier: Apache-2.0

// GradModeStage: the grad mode at exit (RuntimeWrapper, grad_enabled_mutation).
#ifndef COTAN_RUNTIME_FUNCTION_STAGES_GRAD_MODE_H_
#define COTAN_RUNTIME_FUNCTION_STAGES_GRAD_MODE_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "runtime/function/core/call_context.h"
#include "runtime/function/core/function_metadata.h"
#include "runtime/function/stages/call_stage.h"

namespace cotan {

// Sets the grad mode to that at exit of the traced function.
class GradModeStage final : public CallStage {
 public:
  static std::unique_ptr<GradModeStage> Create(const FunctionMetadata& function);
  explicit GradModeStage(bool enabled) : enabled_(enabled) {}

  absl::string_view name() const override { return "grad mode"; }
  absl::Status Run(CallContext& call) override;
  std::string ToString() const override;

 private:
  const bool enabled_;
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_FUNCTION_STAGES_GRAD_MODE_H_
