// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/function.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/overlap.h"
#include "base/status_macros.h"
#include "runtime/autograd/hooks.h"
#include "runtime/function/function_core.h"

namespace cotan {

// --- core --------------------------------------------------------------------

namespace {

// Returns the options of a forward that does not compute saved values.
ScheduleOptions WithoutSaving(const CallPlan& plan) {
  ScheduleOptions options = {.results = plan.requests, .donated = {}};
  for (ResultRequest& request : options.results) {
    if (request.use == ResultUse::kSave) request.use = ResultUse::kSkip;
  }
  return options;
}

}  // namespace

void Call::Clear() {
  wrapped_arguments = {};
  wrapped_outputs = nullptr;
  flat_arguments.clear();
  arguments = {};
  outputs = nullptr;
  for (Variable& base : bases) base = Variable();
  for (Tensor& result : results) autograd::Clear(result);
  for (Variable& variable : returned) variable = Variable();
  for (Variable& variable : storages) variable = Variable();
  for (Variable& base : hidden_bases) base = Variable();
  for (Variable& input : metadata_mutated_inputs) input = Variable();
  mutated_leaf_edges.clear();
  for (Tensor& shown : shown_storages) autograd::Clear(shown);
  overlapping_results.clear();
  node = nullptr;
}

FunctionCore::FunctionCore(std::shared_ptr<SessionCore> session, CallPlan plan)
    : session_(std::move(session)),
      plan_(std::move(plan)),
      recorded_forward_(*session_, plan_.method, 0, {.results = plan_.requests, .donated = {}}),
      plain_forward_(*session_, plan_.method, 0, WithoutSaving(plan_)),
      plain_backward_(*session_, plan_.backward, plan_.num_saved),
      donated_backward_(*session_, plan_.backward, plan_.num_saved, {.results = {}, .donated = plan_.donated}),
      freed_(static_cast<size_t>(plan_.num_saved)) {
  call_.inputs.resize(plan_.inputs.size());
  for (size_t i = 0; i < plan_.inputs.size(); ++i) {
    if (plan_.inputs[i].state >= 0) call_.inputs[i] = &session_->StateVariable(plan_.inputs[i].state);
  }
  call_.bases.resize(plan_.bases.size());
  call_.program_arguments.resize(plan_.argument_inputs.size());
  call_.tensors.resize(plan_.method_arguments.size());
  call_.results.resize(static_cast<size_t>(plan_.num_results));
  call_.returned.resize(plan_.returned.size());
  call_.storages.resize(plan_.returned.size());
  call_.hidden_bases.resize(plan_.hidden_bases.size());
  call_.metadata_mutated_inputs.resize(plan_.new_geometries.size());
  call_.new_layouts.resize(plan_.new_geometries.size());
  call_.shown_storages.resize(plan_.new_storages.size());
}

WrappedResult PlainResult(FunctionResult result) {
  if (auto* variable = std::get_if<Variable>(&result)) return WrappedVariable(std::move(*variable));
  if (const auto* value = std::get_if<bool>(&result)) return *value;
  if (const auto* value = std::get_if<int64_t>(&result)) return *value;
  if (const auto* value = std::get_if<double>(&result)) return *value;
  if (auto* value = std::get_if<std::string>(&result)) return std::move(*value);
  return NoneValue();
}

absl::Status FunctionCore::Run(absl::Span<const Variable> arguments, std::vector<FunctionResult>& results) {
  results.resize(static_cast<size_t>(plan_.num_caller_outputs));
  call_.arguments = arguments;
  call_.outputs = &results;
  return RunStages();
}

absl::Status FunctionCore::RunWrapped(absl::Span<const WrappedVariable> arguments,
                                      std::vector<WrappedResult>& results) {
  if (!plan_.has_wrappers) {
    std::vector<Variable> plain;
    for (size_t i = 0; i < arguments.size(); ++i) {
      COTAN_RETURN_IF_ERROR(FlattenAs(PlainTensorMeta(), arguments[i], absl::StrCat("input.", i), plain));
    }
    std::vector<FunctionResult> plain_results;
    COTAN_RETURN_IF_ERROR(Run(plain, plain_results));
    for (FunctionResult& result : plain_results) results.push_back(PlainResult(std::move(result)));
    return absl::OkStatus();
  }
  results.resize(plan_.wrapped_outputs.size());
  flat_results_.resize(static_cast<size_t>(plan_.num_caller_outputs));
  call_.wrapped_arguments = arguments;
  call_.wrapped_outputs = &results;
  call_.outputs = &flat_results_;
  const absl::Status status = RunStages();
  flat_results_.clear();  // drops references; the user's objects are in `results`
  return status;
}

absl::Status FunctionCore::RunStages() {
  ++stats_.calls;
  absl::Status status;
  for (const Stage& stage : plan_.stages) {
    status = stage.run(*this, call_);
    if (!status.ok()) break;
  }
  call_.Clear();
  return status;
}

Tensor FunctionCore::AcquireSavedBuffer(int index) {
  std::vector<Tensor>& freed = freed_[static_cast<size_t>(index)];
  if (freed.empty()) return Tensor();
  Tensor memory = std::move(freed.back());
  freed.pop_back();
  return memory;
}

void FunctionCore::ReleaseSavedBuffer(int index, Tensor memory) {
  if (memory.defined() && memory.storage().use_count() == 1) {
    freed_[static_cast<size_t>(index)].push_back(std::move(memory));
  }
}

absl::StatusOr<const FunctionCore::OutputLayouts*> FunctionCore::OutputLayoutsFor(const Plan& plan) {
  if (places_.valid && places_.symbols == plan.symbols) return &places_;
  const auto num_results = static_cast<size_t>(plan_.num_results);
  places_.valid = false;
  places_.layouts.clear();
  places_.symbols = plan.symbols;
  places_.placement_of.assign(num_results, -1);
  places_.is_placed.assign(num_results, false);
  places_.is_overlapping.assign(num_results, false);
  places_.storage_bytes.assign(num_results, 0);
  const auto bytes_of = [&plan](size_t result, const StridedLayout& layout) {
    return static_cast<size_t>(StorageExtent(layout)) * ByteSize(plan.outputs[result].dtype);
  };
  for (size_t i = 0; i < plan_.placements.size(); ++i) {
    const CallPlan::StridedOutputSpec& placement = plan_.placements[i];
    const auto result = static_cast<size_t>(placement.result);
    const auto owner = static_cast<size_t>(placement.owner);
    COTAN_ASSIGN_OR_RETURN(StridedLayout layout, EvaluateLayout(placement.geometry, plan.symbols));
    if (layout.sizes != plan.outputs[result].layout.sizes) {
      return absl::InvalidArgumentError(absl::StrCat("function '", plan_.name, "': result ", result, " is ",
                                                     ToString(plan.outputs[result].layout), ", but its metadata has ",
                                                     ToString(layout)));
    }
    places_.placement_of[result] = static_cast<int>(i);
    places_.is_placed[result] = places_.is_placed[owner] = true;
    size_t& bytes = places_.storage_bytes[owner];
    if (owner != result) bytes = std::max(bytes, bytes_of(owner, plan.outputs[owner].layout));
    bytes = std::max(bytes, bytes_of(result, layout));
    places_.is_overlapping[result] = OverlapsItself(layout);
    places_.layouts.push_back(std::move(layout));
  }
  for (const CallPlan::HiddenBase& base : plan_.hidden_bases) {
    const auto owner = static_cast<size_t>(plan_.OwnerOf(base.returned));
    COTAN_ASSIGN_OR_RETURN(const StridedLayout layout, EvaluateLayout(base.geometry, plan.symbols));
    size_t& bytes = places_.storage_bytes[owner];
    bytes = std::max(bytes, static_cast<size_t>(StorageExtent(layout)) * ByteSize(base.geometry.dtype));
  }
  places_.valid = true;
  return &places_;
}

// --- function ----------------------------------------------------------------

absl::StatusOr<Function> Function::Create(const Session& session, absl::string_view method) {
  const std::shared_ptr<SessionCore>& core = session.core();
  COTAN_ASSIGN_OR_RETURN(const int index, core->program().FindMethod(method));
  COTAN_ASSIGN_OR_RETURN(CallPlan plan, CallPlan::Make(core->program(), index));
  return Function(std::make_shared<FunctionCore>(core, std::move(plan)));
}

absl::StatusOr<std::vector<FunctionResult>> Function::Call(absl::Span<const Variable> arguments) {
  std::vector<FunctionResult> results;
  COTAN_RETURN_IF_ERROR(core_->Run(arguments, results));
  return results;
}

absl::Status Function::Call(absl::Span<const Variable> arguments, std::vector<FunctionResult>& results) {
  return core_->Run(arguments, results);
}

absl::StatusOr<std::vector<WrappedResult>> Function::CallWrapped(absl::Span<const WrappedVariable> arguments) {
  std::vector<WrappedResult> results;
  COTAN_RETURN_IF_ERROR(core_->RunWrapped(arguments, results));
  return results;
}

int Function::num_arguments() const {
  const CallPlan& plan = core_->plan();
  return plan.has_wrappers ? static_cast<int>(plan.wrapped_arguments.size()) : plan.num_arguments;
}

int Function::num_results() const {
  const CallPlan& plan = core_->plan();
  return plan.has_wrappers ? static_cast<int>(plan.wrapped_outputs.size()) : plan.num_caller_outputs;
}

std::string Function::ToString() const { return core_->plan().ToString(); }

const FunctionStats& Function::stats() const { return core_->stats(); }

}  // namespace cotan
