// SPDX-License-Identifier: Apache-2.0

// SavePrimalsStage: keeps the arguments of a call for its differentiable backward (no wrapper: AOTAutograd does not
// support double backward).
#ifndef COTAN_RUNTIME_FUNCTION_STAGES_SAVE_PRIMALS_H_
#define COTAN_RUNTIME_FUNCTION_STAGES_SAVE_PRIMALS_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "runtime/function/core/call_context.h"
#include "runtime/function/core/function_metadata.h"
#include "runtime/function/stages/call_stage.h"

namespace cotan {

// Keeps the user's arguments, and the RNG state that the program will draw from.
class SavePrimalsStage final : public CallStage {
 public:
  static std::unique_ptr<SavePrimalsStage> Create(const FunctionMetadata& function);

  absl::string_view name() const override { return "primals"; }
  absl::Status Run(CallContext& call) override;
  std::string ToString() const override;

 private:
  explicit SavePrimalsStage(const FunctionMetadata& function) : function_(function) {}

  const FunctionMetadata& function_;
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_FUNCTION_STAGES_SAVE_PRIMALS_H_
