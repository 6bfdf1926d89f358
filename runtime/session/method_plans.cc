// SPDX-License-Identifier: Apache-2.0

#include "runtime/session/method_plans.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/overlap.h"
#include "base/status_macros.h"
#include "runtime/execution/arguments.h"
#include "runtime/execution/running_handler.h"

namespace cotan {
namespace {

using serialization::Method;

void AddStates(const Method& method, std::vector<int>& updated, std::vector<int>& read) {
  for (const serialization::StateUpdate& update : method.state_updates()) {
    updated.push_back(static_cast<int>(update.state()));
  }
  for (const serialization::StateRead& state : method.state_reads()) read.push_back(static_cast<int>(state.state()));
}

}  // namespace

MethodPlans::MethodPlans(SessionCore& core, int method, int num_saved, ScheduleOptions options)
    : core_(core), method_(method), num_saved_(num_saved), options_(std::move(options)) {
  if (method < 0) return;  // a forward without backward
  const Method& proto = core_.program().method(method);
  std::vector<int> updated, used;
  AddStates(proto, updated, used);
  updated_states_ = StateIntervals(core_.states(), updated);
  if (!proto.backward_method().empty()) {
    const absl::StatusOr<int> backward = core_.program().FindMethod(proto.backward_method());
    if (backward.ok()) AddStates(core_.program().method(*backward), updated, used);
  }
  used.insert(used.end(), updated.begin(), updated.end());
  used_states_ = StateIntervals(core_.states(), used);
}

absl::StatusOr<Executable*> MethodPlans::Prepare(absl::Span<const Tensor* const> arguments, const DimVector* known) {
  COTAN_RETURN_IF_ERROR(RunningHandler::CheckNone(core_.target().effects, "run a method"));
  Executable* executable = last();
  const bool same =
      executable != nullptr && (known == nullptr || executable->plan().symbols == *known) &&
      ArgumentsMatch(absl::MakeConstSpan(executable->plan().inputs).subspan(static_cast<size_t>(num_saved_)), arguments,
                     *core_.target().device);
  if (!same) {
    std::vector<Tensor> tensors;
    for (const Tensor* argument : arguments) tensors.push_back(*argument);
    COTAN_ASSIGN_OR_RETURN(
        const DimVector symbols,
        CheckArguments(core_.program(), core_.program().method(method_), num_saved_, tensors, *core_.target().device,
                       known == nullptr ? absl::Span<const int64_t>() : *known));
    COTAN_ASSIGN_OR_RETURN(executable, FindOrPlan(symbols));
  }
  if (!executable->plan().written_inputs.empty() || !updated_states_.empty()) {
    COTAN_RETURN_IF_ERROR(CheckMemory(arguments, num_saved_));
  }
  COTAN_RETURN_IF_ERROR(core_.Begin(*executable));
  return executable;
}

absl::StatusOr<Executable*> MethodPlans::FindOrPlan(absl::Span<const int64_t> symbols) {
  const auto found =
      std::find_if(executables_.begin(), executables_.end(), [&](const std::unique_ptr<Executable>& executable) {
        return absl::MakeConstSpan(executable->plan().symbols) == symbols;
      });
  if (found != executables_.end()) {
    std::rotate(found, found + 1, executables_.end());
    return last();
  }
  COTAN_ASSIGN_OR_RETURN(std::unique_ptr<Executable> made,
                         Executable::Make(core_.program(), method_, symbols, core_.target(), options_));
  core_.CountPlan();
  if (static_cast<int>(executables_.size()) == core_.max_plans()) executables_.erase(executables_.begin());
  executables_.push_back(std::move(made));
  return last();
}

std::string MethodPlans::NameOf(int input) const {
  const Method& method = core_.program().method(method_);
  if (input < num_saved_) return absl::StrCat("saved value ", input);
  return absl::StrCat("argument ", input - num_saved_, " '", core_.program().InputName(method, input), "'");
}

absl::Status MethodPlans::CheckMemory(absl::Span<const Tensor* const> inputs, int first) const {
  for (size_t i = 0; i < inputs.size() && !updated_states_.empty(); ++i) {
    const int state = updated_states_.FindOverlap(MemoryRegion::Of(*inputs[i]));
    if (state < 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "method '", core_.program().method(method_).name(), "' updates state '", core_.program().state(state).name(),
        "', which shares memory with ", NameOf(static_cast<int>(i) + first), ": clone the argument before"));
  }
  for (int written : last()->plan().written_inputs) {
    if (written < first) continue;
    const Tensor& target = *inputs[static_cast<size_t>(written - first)];
    COTAN_RETURN_IF_ERROR(CheckWrite(written, MemoryRegion::Of(target), inputs, first));
  }
  return absl::OkStatus();
}

absl::Status MethodPlans::CheckWrite(int input, const MemoryRegion& written, absl::Span<const Tensor* const> inputs,
                                     int first) const {
  const auto refuse = [&](absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat("method '", core_.program().method(method_).name(), "' writes ", NameOf(input), ", ", why));
  };
  if (OverlapsItself(*written.layout)) {
    return refuse("more than one element of which refers to a single place in memory: clone it before");
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const int other = static_cast<int>(i) + first;
    if (other == input || !Overlap(written, MemoryRegion::Of(*inputs[i]))) continue;
    return refuse(
        absl::StrCat("which shares memory with ", NameOf(other), "; they did not when the program was traced"));
  }
  const int state = used_states_.FindOverlap(written);
  if (state < 0) return absl::OkStatus();
  return refuse(absl::StrCat("which shares memory with state '", core_.program().state(state).name(), "'"));
}

}  // namespace cotan
