// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/core/compiled_backward.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "linking/substitute.h"
#include "runtime/autograd/capture.h"
#include "runtime/autograd/tensor_ops.h"
#include "runtime/function/core/deterministic.h"
#include "runtime/function/core/function_core.h"
#include "runtime/session/tangent_flags.h"

namespace cotan {

using autograd::BackwardContext;
using autograd::Gradients;

namespace {

// Returns the name of a value that has a gradient, for messages.
std::string NameOf(const ForwardTensor& value) {
  const bool is_written = value.kind == ForwardTensor::Kind::kMutatedInput;
  return absl::StrCat(is_written ? "the new value of " : "", ToString(value));
}

}  // namespace

CompiledBackward::CompiledBackward(std::shared_ptr<FunctionCore> core, const DimVector& symbols)
    : core_(std::move(core)), symbols_(symbols) {
  saved_.reserve(static_cast<size_t>(core_->metadata().num_saved));
}

CompiledBackward::~CompiledBackward() { CompiledBackward::ReleaseSaved(); }

absl::string_view CompiledBackward::name() const { return core_->metadata().node_name; }

absl::string_view CompiledBackward::program_name() const { return core_->metadata().program->name(); }

// --- save -----------------------------------------------------------------------

absl::Status CompiledBackward::SaveOwn(Tensor value) {
  const autograd::SavedTensorHooks* const hooks = autograd::SavedTensorHooksScope::Current();
  // Hooks do not know that copies to pinned memory may be queued.
  if (hooks == nullptr || (value.defined() && value.storage()->pinned() != nullptr)) {
    saved_.push_back({.own = std::move(value), .is_own = true});
    return absl::OkStatus();
  }
  Saved saved;
  COTAN_ASSIGN_OR_RETURN(saved.packed, autograd::PackedTensor::Pack(*hooks, value));
  has_packed_ = true;
  saved_.push_back(std::move(saved));
  return absl::OkStatus();
}

absl::Status CompiledBackward::SaveShared(const Variable& variable, bool is_checked, bool is_argument) {
  const autograd::SavedTensorHooks* const hooks = autograd::SavedTensorHooksScope::Current();
  Saved saved;
  const bool may_be_written = is_argument && !core_->metadata().backward.written_values.empty();
  if (hooks != nullptr && !may_be_written) {
    COTAN_ASSIGN_OR_RETURN(saved.packed, autograd::PackedTensor::Pack(*hooks, variable.tensor()));
    has_packed_ = true;
    saved_.push_back(std::move(saved));
    return absl::OkStatus();
  }
  if (is_checked) saved.checked = autograd::SavedVariable(variable);
  if (!is_checked) saved.own = variable.tensor();
  if (may_be_written) saved.written = variable.Detach();
  saved_.push_back(std::move(saved));
  return absl::OkStatus();
}

std::vector<CompiledBackward::StateVersion> CompiledBackward::VersionsOf(const std::vector<int>& states) const {
  SessionCore& session = core_->session();
  std::vector<StateVersion> versions;
  for (int state : states) {
    versions.push_back({state, session.states().version(state), session.StateVariable(state).version()});
  }
  return versions;
}

void CompiledBackward::SealStates() {
  const BackwardMetadata& backward = core_->metadata().backward;
  read_states_ = VersionsOf(backward.read_states);
  states_read_differentiably_ = VersionsOf(backward.differentiable.read_states);
}

void CompiledBackward::ReleaseSaved() {
  is_freed_ = is_freed_ || !saved_.empty();
  for (size_t i = 0; i < saved_.size(); ++i) {
    if (saved_[i].is_own) core_->ReleaseSavedBuffer(static_cast<int>(i), std::move(saved_[i].own));
  }
  saved_.clear();
  if (is_freed_) primals_.reset();
}

// --- results that are computed from others --------------------------------------

bool CompiledBackward::HasDependentInputs() const { return !core_->metadata().backward.computed_from.empty(); }

void CompiledBackward::AddWritten(int tangent, autograd::Node& grad_fn) {
  grad_fn.MutableHooks();
  written_.emplace_back(tangent, grad_fn.shared_hooks());
}

bool CompiledBackward::HasGradientHooksOf(int input) const {
  if (autograd::Node::HasGradientHooksOf(input)) return true;
  return std::any_of(written_.begin(), written_.end(), [input](const auto& written) {
    return written.first == input && written.second->has_gradient_hooks();
  });
}

absl::Status CompiledBackward::CheckGradientOf(int requested, int arriving) const {
  const FunctionMetadata& function = core_->metadata();
  const std::vector<int>& sources = function.backward.computed_from[static_cast<size_t>(arriving)];
  if (std::find(sources.begin(), sources.end(), requested) == sources.end()) return absl::OkStatus();
  const std::vector<ForwardTensor>& results = function.program_metadata.derived().tangent_sources;
  const std::string source = NameOf(results[static_cast<size_t>(requested)]);
  const std::string result = NameOf(results[static_cast<size_t>(arriving)]);
  return absl::UnimplementedError(absl::StrCat("'", function.name, "' computes ", result, " from ", source,
                                               ", and all its results are those of one node, so that the gradient of ",
                                               result, " with respect to ", source, " is unknown: compute ", result,
                                               " from it in the calling program or by a compiled function of its own"));
}

// --- the backward --------------------------------------------------------------

absl::Status CompiledBackward::CheckMode() const {
  const FunctionMetadata& function = core_->metadata();
  const std::optional<bool>& deterministic = function.metadata.facts().deterministic;
  const bool was_traced_without = deterministic.has_value() && !*deterministic;
  if (!DeterministicMode::enabled() || !was_traced_without) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the backward of '", function.name,
                   "' runs with deterministic algorithms enabled, but its forward was traced with them disabled: "
                   "enable them in LibTorch while compiling (at::globalContext().setDeterministicAlgorithms()), or "
                   "disable them here (cotan::DeterministicMode)"));
}

absl::Status CompiledBackward::CheckStates(const std::vector<StateVersion>& sealed) const {
  SessionCore& session = core_->session();
  for (const StateVersion& read : sealed) {
    if (session.states().version(read.state) == read.version &&
        session.StateVariable(read.state).version() == read.variable) {
      continue;
    }
    return absl::FailedPreconditionError(absl::StrCat(
        "the backward of '", core_->metadata().name, "' needs '", session.program().state(read.state).name(),
        "', which has been modified by an inplace operation since the forward: run the forward again"));
  }
  return absl::OkStatus();
}

bool CompiledBackward::IsDefined(int i, const BackwardContext& context, absl::Span<const bool> incoming) const {
  if (!context.NeedsGradient(i)) return false;
  const std::vector<bool>& depends = core_->metadata().backward.depends_on[static_cast<size_t>(i)];
  bool depends_on_any = false;
  for (size_t t = 0; t < depends.size(); ++t) {
    if (depends[t] && incoming[t]) return true;
    depends_on_any = depends_on_any || depends[t];
  }
  return !depends_on_any;
}

absl::StatusOr<std::vector<Tensor>> CompiledBackward::Unpack() const {
  std::vector<Tensor> values;
  values.reserve(saved_.size());
  for (const Saved& saved : saved_) {
    if (saved.own.defined()) {
      values.push_back(saved.own);
    } else if (saved.packed.has_value()) {
      COTAN_ASSIGN_OR_RETURN(Tensor value, saved.packed->Unpack());
      values.push_back(std::move(value));
    } else {
      COTAN_ASSIGN_OR_RETURN(Tensor value, saved.checked.Unpack(*this));
      values.push_back(std::move(value));
    }
  }
  return values;
}

absl::StatusOr<CompiledBackward::Tangents> CompiledBackward::TakeTangents(BackwardContext& context,
                                                                          absl::Span<Tensor> incoming) const {
  Tangents tangents(incoming.size() * (core_->metadata().backward.takes_flags ? 2 : 1));
  for (size_t t = 0; t < incoming.size(); ++t) {
    if (core_->metadata().backward.takes_flags) {
      COTAN_ASSIGN_OR_RETURN(tangents[incoming.size() + t], TangentFlag(context.ops(), incoming[t].defined()));
    }
    if (incoming[t].defined()) {
      tangents[t] = incoming[t];
      continue;
    }
    const autograd::GradientType& type = input(static_cast<int>(t));
    COTAN_ASSIGN_OR_RETURN(tangents[t], context.ops().Zeros(type.dtype, type.sizes));
  }
  return tangents;
}

// Prepare() checks the tangents only; saved values that are arguments may share memory with what the backward writes.
absl::Status CompiledBackward::CheckMemory(bool overwrites, absl::Span<const Tensor> values,
                                           absl::Span<const Tensor* const> tangents) const {
  absl::InlinedVector<const Tensor*, 8> inputs;
  for (const Tensor& value : values) inputs.push_back(&value);
  inputs.insert(inputs.end(), tangents.begin(), tangents.end());
  return core_->backward(overwrites).CheckMemory(inputs, 0);
}

absl::StatusOr<Gradients> CompiledBackward::Apply(BackwardContext& context, absl::Span<Tensor> incoming) {
  const FunctionMetadata& function = core_->metadata();
  if (is_freed_) return FreedError();
  if (!function.backward.refusal.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("function '", function.name, "' was compiled without a backward: ", function.backward.refusal));
  }
  if (static_cast<int>(incoming.size()) != function.num_tangents()) {
    return absl::InvalidArgumentError(absl::StrCat("the backward of '", function.name, "' takes ",
                                                   function.num_tangents(), " gradients, got ", incoming.size()));
  }
  Gradients gradients(static_cast<size_t>(num_edges()));
  absl::InlinedVector<bool, 8> has_tangent;
  for (const Tensor& tangent : incoming) has_tangent.push_back(tangent.defined());
  absl::InlinedVector<bool, 8> is_defined;
  bool any_defined = false;
  for (int i = 0; i < num_edges(); ++i) {
    is_defined.push_back(IsDefined(i, context, has_tangent));
    any_defined = any_defined || is_defined.back();
  }
  const bool has_effects = !function.backward.written_values.empty() || !function.backward.updated_states.empty();
  if (!any_defined && !has_effects) return gradients;

  COTAN_RETURN_IF_ERROR(CheckMode());
  COTAN_RETURN_IF_ERROR(CheckStates(read_states_));
  const absl::Span<const Tensor> described = context.described_inputs().subspan(0, saved_.size());
  std::vector<Tensor> values(described.begin(), described.end());
  if (values.empty()) {
    COTAN_ASSIGN_OR_RETURN(values, Unpack());
  }
  COTAN_ASSIGN_OR_RETURN(const Tangents tangents, TakeTangents(context, incoming));
  absl::InlinedVector<const Tensor*, 4> pointers;
  for (const Tensor& tangent : tangents) pointers.push_back(&tangent);

  const bool overwrites = Overwrites(context);
  COTAN_ASSIGN_OR_RETURN(Executable* const executable, core_->backward(overwrites).Prepare(pointers, &symbols_));
  if (has_effects) COTAN_RETURN_IF_ERROR(CheckMemory(overwrites, values, pointers));
  for (size_t i = 0; i < values.size(); ++i) {
    COTAN_RETURN_IF_ERROR(executable->SetInput(static_cast<int>(i), values[i]));
  }
  for (size_t t = 0; t < tangents.size(); ++t) {
    COTAN_RETURN_IF_ERROR(executable->SetInput(static_cast<int>(values.size() + t), tangents[t]));
  }
  for (size_t i = 0; i < gradients.size(); ++i) {
    COTAN_RETURN_IF_ERROR(executable->SetOutput(static_cast<int>(i), gradients[i]));
  }
  COTAN_RETURN_IF_ERROR(executable->Run());

  for (int saved : function.backward.written_values) {
    Variable& written = saved_[static_cast<size_t>(saved)].written;
    if (written.defined()) written.BumpVersion();
  }
  for (int state : function.backward.updated_states) core_->session().BumpVersion(state);
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!is_defined[i]) gradients[i] = Tensor();
  }
  ++core_->stats().backwards;
  core_->stats().backwards_in_donated_memory += overwrites ? 1 : 0;
  return gradients;
}

bool CompiledBackward::Overwrites(const BackwardContext& context) const {
  return !core_->metadata().backward.donated.empty() && !context.retains_graph() && !has_packed_;
}

// --- captured backwards -------------------------------------------------------

bool CompiledBackward::IsCapturable(const TensorOps& ops) const {
  const BackwardMetadata& backward = core_->metadata().backward;
  const ExecutionTarget& target = core_->session().target();
  if (backward.method < 0 || !backward.written_values.empty() || !backward.updated_states.empty()) return false;
  if (target.kernels != &ops.kernels() || target.device != &ops.device() || target.threads != ops.threads()) {
    return false;
  }
  // A linked method has no inputs in pinned memory.
  if (backward.takes_host_values && target.device->pinned_memory() != nullptr) return false;
  return !backward.has_effects;
}

absl::StatusOr<bool> CompiledBackward::Describe(const BackwardContext& context, absl::Span<const bool> incoming,
                                                absl::Span<bool> results, autograd::CaptureRecord& record) {
  const FunctionMetadata& function = core_->metadata();
  if (is_freed_) return FreedError();
  if (static_cast<int>(incoming.size()) != function.num_tangents() || !IsCapturable(context.ops())) return false;
  bool any_defined = false;
  for (int i = 0; i < num_edges(); ++i) {
    results[static_cast<size_t>(i)] = IsDefined(i, context, incoming);
    any_defined = any_defined || results[static_cast<size_t>(i)];
  }
  record.Key(core_->backward_fingerprint());
  record.Key(any_defined ? 1 : 0);
  is_described_ = any_defined;
  if (!any_defined) return true;

  COTAN_RETURN_IF_ERROR(CheckMode());
  COTAN_RETURN_IF_ERROR(CheckStates(read_states_));
  COTAN_ASSIGN_OR_RETURN(std::vector<Tensor> values, Unpack());
  record.DynamicSizes(symbols_);
  const std::vector<int>& donated = function.backward.donated;
  for (size_t i = 0; i < values.size(); ++i) {
    const bool dies =
        Overwrites(context) && std::find(donated.begin(), donated.end(), static_cast<int>(i)) != donated.end();
    record.Key(dies ? 1 : 0);
    record.AddInput(std::move(values[i]), dies ? autograd::InputUse::kDonated : autograd::InputUse::kRead);
  }
  for (const serialization::StateRead& read : function.program->method(function.backward.method).state_reads()) {
    record.AddInput(core_->session().states().tensor(static_cast<int>(read.state())));
  }
  return true;
}

absl::Status CompiledBackward::Emit(autograd::CaptureEmitter& emitter,
                                    absl::Span<const autograd::CapturedValue> incoming,
                                    absl::Span<autograd::CapturedValue> results) {
  if (!is_described_) return absl::OkStatus();
  const FunctionMetadata& function = core_->metadata();
  const Program& program = *function.program;
  const serialization::Method& method = program.method(function.backward.method);
  LinkBuilder& link = emitter.link();
  link.AddLinkedSource(method.name(), core_->backward_fingerprint());
  const SymIntVector symbols = emitter.Sizes(0, static_cast<int>(symbols_.size()));
  const auto type_of = [&](uint32_t value) -> absl::StatusOr<serialization::TensorType> {
    serialization::TensorType type = method.values(static_cast<int>(value)).type();
    COTAN_RETURN_IF_ERROR(SubstituteType(symbols, type));
    return type;
  };
  std::vector<LinkBuilder::Value> inputs;
  int next = 0;
  for (; next < function.num_saved; ++next) {
    COTAN_ASSIGN_OR_RETURN(serialization::TensorType type, type_of(method.inputs(next)));
    inputs.push_back(emitter.Input(next, std::move(type), absl::StrCat("saved.", next)));
  }
  for (size_t t = 0; t < incoming.size(); ++t) {
    COTAN_ASSIGN_OR_RETURN(const serialization::TensorType type, type_of(method.inputs(next + static_cast<int>(t))));
    if (incoming[t].has_value()) {
      COTAN_ASSIGN_OR_RETURN(const LinkBuilder::Value tangent, link.ConformTo(*incoming[t], type));
      inputs.push_back(tangent);
      continue;
    }
    COTAN_ASSIGN_OR_RETURN(const LinkBuilder::Value zeros, link.Zeros(type));
    inputs.push_back(zeros);
  }
  for (size_t t = 0; t < incoming.size() && function.backward.takes_flags; ++t) {
    inputs.push_back(link.Flag(incoming[t].has_value()));
  }
  std::vector<LinkBuilder::Value> states;
  for (const serialization::StateRead& read : method.state_reads()) {
    const serialization::State& state = program.state(static_cast<int>(read.state()));
    states.push_back(emitter.Input(next++, state.type(), state.name()));
  }
  COTAN_ASSIGN_OR_RETURN(const std::vector<LinkBuilder::Value> outputs, link.Splice(method, symbols, inputs, states));
  for (size_t i = 0; i < results.size(); ++i) results[i] = outputs[i];
  return absl::OkStatus();
}

void CompiledBackward::CompleteCapture(const BackwardContext& context, absl::Span<Tensor> outputs) {
  if (!is_described_) return;
  ++core_->stats().backwards;
  core_->stats().backwards_in_donated_memory += Overwrites(context) ? 1 : 0;
}

absl::Status CompiledBackward::ApplyRecorded(BackwardContext& context, absl::Span<Variable> incoming,
                                             std::vector<Variable>& results) {
  DifferentiableBackward* const differentiable = core_->differentiable_backward();
  if (is_freed_) return FreedError();
  if (differentiable == nullptr) {
    return absl::UnimplementedError(
        absl::StrCat("create_graph: the gradients of ", name(),
                     " cannot be differentiated again (double backward): the function was compiled with too low an "
                     "order. Compile it "
                     "with a higher CompileOptions::order: 2 for second derivatives, 3 for third ones"));
  }
  absl::InlinedVector<bool, 8> has_tangent;
  for (const Variable& tangent : incoming) has_tangent.push_back(tangent.defined());
  absl::InlinedVector<bool, 8> is_defined;
  bool any_defined = false;
  for (int i = 0; i < num_edges(); ++i) {
    is_defined.push_back(IsDefined(i, context, has_tangent));
    any_defined = any_defined || is_defined.back();
  }
  if (!any_defined) return absl::OkStatus();
  COTAN_RETURN_IF_ERROR(CheckMode());
  COTAN_RETURN_IF_ERROR(CheckStates(states_read_differentiably_));
  COTAN_ASSIGN_OR_RETURN(
      results, ApplyDifferentiableBackward(*differentiable, core_->metadata().backward.differentiable.takes_flags,
                                           *primals_, *this, incoming, context.ops()));
  for (size_t i = 0; i < is_defined.size() && i < results.size(); ++i) {
    if (!is_defined[i]) results[i] = Variable();
  }
  ++core_->stats().backwards;
  return absl::OkStatus();
}

}  // namespace cotan
