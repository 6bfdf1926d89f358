// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/stages/save_primals.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "runtime/function/core/differentiable_backward.h"
#include "runtime/tensor/tensor.h"

namespace cotan {

std::unique_ptr<SavePrimalsStage> SavePrimalsStage::Create(const FunctionMetadata& function) {
  if (function.backward.differentiable.method < 0) return nullptr;
  return std::unique_ptr<SavePrimalsStage>(new SavePrimalsStage(function));
}

absl::Status SavePrimalsStage::Run(CallContext& call) {
  if (!call.is_recorded) return absl::OkStatus();
  SessionCore& session = call.core.session();
  Tensor rng;
  if (const int state = function_.backward.differentiable.rng_state; state >= 0) {
    COTAN_ASSIGN_OR_RETURN(rng, session.ops().Clone(session.states().tensor(state)));
  }
  const auto arguments = absl::MakeConstSpan(call.inputs).subspan(static_cast<size_t>(function_.num_states));
  COTAN_ASSIGN_OR_RETURN(call.primals, SavedPrimals::Of(arguments, std::move(rng)));
  return absl::OkStatus();
}

std::string SavePrimalsStage::ToString() const {
  const BackwardMetadata::Differentiable& backward = function_.backward.differentiable;
  return absl::StrCat(function_.num_arguments(), " arguments", backward.rng_state < 0 ? "" : " and the RNG state",
                      " for '", function_.program->method(backward.method).name(), "'");
}

}  // namespace cotan
