// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/stages/forward.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runtime/function/stages/mutation_checks.h"

namespace cotan {

std::unique_ptr<ForwardStage> ForwardStage::Create(const FunctionMetadata& function) {
  return std::unique_ptr<ForwardStage>(new ForwardStage(function));
}

ForwardStage::ForwardStage(const FunctionMetadata& function)
    : function_(function),
      placement_(function),
      checks_mutations_(!function.mutations.metadata.empty() || !function.mutations.storage.empty()) {
  for (const serialization::StateUpdate& update : function.method_proto().state_updates()) {
    const auto state = static_cast<int>(update.state());
    updated_states_.push_back(state);
    if (function.program->state(state).role() == serialization::State::RNG) draws_random_numbers_ = true;
  }
}

absl::Status ForwardStage::Run(CallContext& call) {
  const absl::Status status = RunProgram(call);
  if (!status.ok()) placement_.Clear();
  return status;
}

absl::Status ForwardStage::RunProgram(CallContext& call) {
  for (size_t i = 0; i < function_.method_arguments.size(); ++i) {
    call.tensors[i] = &call.argument(function_.method_arguments[i]).tensor();
  }
  const DimVector* known = nullptr;
  if (!sizing_.has_value()) sizing_.emplace(call.core.session(), function_.method);
  if (!sizing_->empty()) {
    call.tensors.resize(function_.method_arguments.size());  // without those of the last call
    COTAN_RETURN_IF_ERROR(sizing_->Run(call.tensors, [](Executable& executable) { return executable.Run(); }));
    for (const Tensor& input : sizing_->inputs()) call.tensors.push_back(&input);
    known = &sizing_->symbols();
  }
  COTAN_ASSIGN_OR_RETURN(call.executable, call.core.forward(call.is_recorded).Prepare(call.tensors, known));
  if (checks_mutations_) COTAN_RETURN_IF_ERROR(CheckMutations(call));
  for (size_t i = 0; i < call.tensors.size(); ++i) {
    COTAN_RETURN_IF_ERROR(call.executable->SetInput(static_cast<int>(i), *call.tensors[i]));
  }
  if (!call.results.empty()) COTAN_RETURN_IF_ERROR(placement_.Place(call));
  COTAN_RETURN_IF_ERROR(call.executable->Run());
  if (!call.results.empty()) COTAN_RETURN_IF_ERROR(placement_.Finish(call));
  for (int state : updated_states_) call.core.session().BumpVersion(state);
  return absl::OkStatus();
}

std::string ForwardStage::ToString() const {
  return absl::StrCat(function_.method_proto().ops_size(), " ops, ", function_.first_saved, " results, ",
                      function_.num_saved, " saved", draws_random_numbers_ ? ", advances the random generator" : "");
}

}  // namespace cotan
