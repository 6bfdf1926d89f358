// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/stages/retained_grads.h"

#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "runtime/autograd/variable.h"

namespace cotan {
namespace {

absl::Status Retain(Variable variable) { return variable.requires_grad() ? variable.RetainGrad() : absl::OkStatus(); }

}  // namespace

std::unique_ptr<RetainedGradsStage> RetainedGradsStage::Create(const FunctionMetadata& function) {
  std::unique_ptr<RetainedGradsStage> stage(new RetainedGradsStage(function));
  for (int i = 0; i < function.metadata.num_inputs(); ++i) {
    if (function.metadata.input(i).retains_grad) stage->inputs_.push_back(i);
  }
  for (int i = 0; i < function.metadata.num_outputs(); ++i) {
    if (function.metadata.output(i).retains_grad) stage->outputs_.push_back(i);
  }
  if (stage->inputs_.empty() && stage->outputs_.empty()) return nullptr;
  return stage;
}

absl::Status RetainedGradsStage::Run(CallContext& call) {
  for (const int input : inputs_) COTAN_RETURN_IF_ERROR(Retain(call.input(input)));
  for (const int output : outputs_) {
    COTAN_RETURN_IF_ERROR(Retain(std::get<Variable>((*call.outputs)[static_cast<size_t>(output)])));
  }
  return absl::OkStatus();
}

std::string RetainedGradsStage::ToString() const {
  std::vector<std::string> parts;
  if (!inputs_.empty()) parts.push_back(function_.InputNames(inputs_));
  for (const int output : outputs_) parts.push_back(absl::StrCat("output ", output));
  return absl::StrJoin(parts, ", ");
}

}  // namespace cotan
