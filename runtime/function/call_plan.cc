// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/call_plan.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "runtime/function/stages/check_arguments.h"
#include "runtime/function/stages/dedupe.h"
#include "runtime/function/stages/forward.h"
#include "runtime/function/stages/grad_mode.h"
#include "runtime/function/stages/in_place_checks.h"
#include "runtime/function/stages/input_mutations.h"
#include "runtime/function/stages/new_leaves.h"
#include "runtime/function/stages/outputs.h"
#include "runtime/function/stages/record.h"
#include "runtime/function/stages/retained_grads.h"
#include "runtime/function/stages/save_for_backward.h"
#include "runtime/function/stages/save_primals.h"
#include "runtime/function/stages/subclass_wrappers.h"
#include "runtime/function/stages/synthetic_bases.h"
#include "runtime/function/stages/verify_call.h"
#include "runtime/function/stages/wrap_results.h"
#include "serialization/metadata/wrapper_meta.h"

namespace cotan {

absl::StatusOr<std::shared_ptr<CallPlan>> CallPlan::Create(std::shared_ptr<SessionCore> session, int method,
                                                           bool verify_calls) {
  COTAN_ASSIGN_OR_RETURN(FunctionMetadata metadata, FunctionMetadata::Create(session->program(), method));
  const int differentiable = metadata.backward.differentiable.method;
  auto core = std::make_shared<FunctionCore>(session, std::move(metadata));
  if (differentiable >= 0) {
    COTAN_ASSIGN_OR_RETURN(std::shared_ptr<CallPlan> backward,
                           Create(std::move(session), differentiable, verify_calls));
    core->SetDifferentiableBackward(std::move(backward));
  }
  return std::shared_ptr<CallPlan>(new CallPlan(std::move(core), verify_calls));
}

CallPlan::CallPlan(std::shared_ptr<FunctionCore> core, bool verify_calls) : core_(std::move(core)), call_(*core_) {
  Add<FlattenStage>();
  Add<CheckArgumentsStage>();
  Add<DedupeStage>();
  Add<SyntheticBasesStage>();
  Add<SavePrimalsStage>();
  Add<InPlaceChecksStage>();
  const auto entry = std::make_shared<InputsAtEntry>();
  if (verify_calls) stages_.push_back(std::make_unique<VerifyEntryStage>(entry));
  Add<ForwardStage>();
  Add<NewLeavesStage>();
  Add<RecordStage>();
  Add<WrapResultsStage>();
  Add<InputMutationsStage>();
  Add<SaveForBackwardStage>();
  Add<OutputsStage>();
  Add<RetainedGradsStage>();
  if (verify_calls) stages_.push_back(std::make_unique<VerifyExitStage>(metadata(), entry));
  Add<RewrapStage>();
  Add<GradModeStage>();
}

absl::Status CallPlan::Run(absl::Span<const Variable> arguments, std::vector<FunctionResult>& results) {
  results.resize(static_cast<size_t>(metadata().metadata.num_outputs()));
  call_.arguments = arguments;
  call_.outputs = &results;
  return RunStages();
}

absl::Status CallPlan::RunWrapped(absl::Span<const WrappedVariable> arguments, std::vector<WrappedResult>& results) {
  if (!metadata().wrappers.has_value()) {
    std::vector<Variable> plain;
    for (size_t i = 0; i < arguments.size(); ++i) {
      COTAN_RETURN_IF_ERROR(FlattenAs(PlainTensorMeta(), arguments[i], absl::StrCat("input.", i), plain));
    }
    std::vector<FunctionResult> plain_results;
    COTAN_RETURN_IF_ERROR(Run(plain, plain_results));
    for (FunctionResult& result : plain_results) results.push_back(PlainResult(std::move(result)));
    return absl::OkStatus();
  }
  results.resize(metadata().wrappers->outputs.size());
  flat_results_.resize(static_cast<size_t>(metadata().metadata.num_outputs()));
  call_.wrapped_arguments = arguments;
  call_.wrapped_outputs = &results;
  call_.outputs = &flat_results_;
  const absl::Status status = RunStages();
  flat_results_.clear();  // drops references; the user's objects are in `results`
  return status;
}

absl::Status CallPlan::RunStages() {
  ++core_->stats().calls;
  absl::Status status;
  for (const std::unique_ptr<CallStage>& stage : stages_) {
    status = stage->Run(call_);
    if (!status.ok()) break;
  }
  call_.Clear();
  return status;
}

std::string CallPlan::ToString() const {
  std::string text = absl::StrCat("call of '", metadata().name, "'\n");
  for (const std::unique_ptr<CallStage>& stage : stages_) {
    absl::StrAppendFormat(&text, "  %-11s %s\n", stage->name(), stage->ToString());
  }
  return text;
}

}  // namespace cotan
