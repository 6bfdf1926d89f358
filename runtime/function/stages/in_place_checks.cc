// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/stages/in_place_checks.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "runtime/autograd/grad_mode.h"
#include "runtime/function/core/mutations.h"

namespace cotan {

std::unique_ptr<InPlaceChecksStage> InPlaceChecksStage::Create(const FunctionMetadata& function) {
  const std::vector<DataMutation>& writes = function.mutations.data;
  if (std::none_of(writes.begin(), writes.end(), [](const DataMutation& write) { return write.tangent >= 0; })) {
    return nullptr;
  }
  return std::unique_ptr<InPlaceChecksStage>(new InPlaceChecksStage(function));
}

absl::Status InPlaceChecksStage::Run(CallContext& call) {
  if (!call.is_recorded) return absl::OkStatus();
  const GradModeGuard recorded(true);
  for (const DataMutation& write : function_.mutations.data) {
    if (!call.IsTracked(write)) continue;
    COTAN_RETURN_IF_ERROR(call.argument(write.argument).CheckInPlace(/*requires_grad=*/true));
    for (int input : write.written_views) {
      COTAN_RETURN_IF_ERROR(call.input(input).CheckInPlace(/*requires_grad=*/true));
    }
  }
  return absl::OkStatus();
}

std::string InPlaceChecksStage::ToString() const {
  std::vector<std::string> parts;
  for (const DataMutation& write : function_.mutations.data) {
    if (write.tangent >= 0) parts.push_back(write.ToString(function_));
  }
  return absl::StrJoin(parts, ", ");
}

}  // namespace cotan
