// SPDX-License-Identifier: Apache-2.0

// InPlaceChecksStage: whether autograd allows the writes (RuntimeWrapper; there copy_() checks it after the call).
#ifndef COTAN_RUNTIME_FUNCTION_STAGES_IN_PLACE_CHECKS_H_
#define COTAN_RUNTIME_FUNCTION_STAGES_IN_PLACE_CHECKS_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "runtime/function/core/call_context.h"
#include "runtime/function/core/function_metadata.h"
#include "runtime/function/stages/call_stage.h"

namespace cotan {

// Checks that the arguments with tracked writes may be written in place, before anything is written.
class InPlaceChecksStage final : public CallStage {
 public:
  static std::unique_ptr<InPlaceChecksStage> Create(const FunctionMetadata& function);

  absl::string_view name() const override { return "in place"; }
  absl::Status Run(CallContext& call) override;
  std::string ToString() const override;

 private:
  explicit InPlaceChecksStage(const FunctionMetadata& function) : function_(function) {}

  const FunctionMetadata& function_;
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_FUNCTION_STAGES_IN_PLACE_CHECKS_H_
