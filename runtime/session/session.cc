// SPDX-License-Identifier: Apache-2.0

#include "runtime/session/session.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/api/device.h"
#include "runtime/autograd/tensor_ops.h"
#include "runtime/execution/arguments.h"
#include "runtime/execution/running_handler.h"
#include "runtime/execution/step_threads.h"
#include "runtime/session/checkpoint.h"
#include "runtime/session/memory_overlap.h"
#include "runtime/session/method_plans.h"
#include "runtime/session/options_check.h"
#include "runtime/session/plan_summary.h"
#include "runtime/session/session_access.h"
#include "runtime/session/session_core.h"
#include "runtime/session/sizing_chain.h"
#include "runtime/session/state_store.h"
#include "runtime/session/tangent_flags.h"
#include "runtime/tensor/scalar.h"

namespace cotan {

using serialization::Method;
using serialization::StateRead;
using serialization::StateUpdate;
using StateProto = serialization::State;

namespace {

constexpr absl::string_view kForeignHandle = "the method handle is not one of this program";

}  // namespace

// --- implementation ----------------------------------------------------------

// States, plans and saved values of a session.
class Session::Impl {
 public:
  explicit Impl(std::shared_ptr<SessionCore> core);

  const std::shared_ptr<SessionCore>& core() const { return core_; }
  const Program& program() const { return core_->program(); }

  // Returns whether the handle is one of this program.
  bool IsValid(MethodHandle method) const {
    return method.index >= 0 && method.index < static_cast<int>(methods_.size());
  }
  int NumResults(MethodHandle method) const { return methods_[static_cast<size_t>(method.index)].num_results; }
  // Runs a method by calling `execute` on its prepared executable.
  absl::Status Run(MethodHandle method, absl::Span<const Tensor> arguments, absl::Span<Tensor> results,
                   absl::FunctionRef<absl::Status(Executable&)> execute);
  absl::StatusOr<Tensor> Gradient(absl::string_view parameter) const;
  // Returns the plans used last: those of the sizing methods, then the method's own.
  // InvalidArgument: the handle is not one of this program. FailedPrecondition: the method has not run yet.
  absl::StatusOr<std::vector<const Plan*>> LastPlans(MethodHandle method) const;
  absl::StatusOr<int> FindHyperparameter(absl::string_view name, int group) const;
  absl::StatusOr<int> FindRng() const;
  // FailedPrecondition: an effect handler of this session runs, which may not `action`.
  absl::Status CheckNoHandlerRuns(absl::string_view action) const {
    return RunningHandler::CheckNone(core_->target().effects, action);
  }

 private:
  // The values that a forward saves for its backward.
  struct Saved {
    std::vector<Tensor> values;
    DimVector symbols;
    std::vector<uint64_t> versions;  // of the states that the backward reads
    bool valid = false;              // between forward and backward
  };
  struct MethodState {
    int index = 0;  // in the artifact
    int num_results = 0;
    std::vector<int> read_states;  // by state read
    std::vector<int> updated_states;
    absl::Status callable;  // why a session may not call it; OK if it may
    int forward = -1;       // of a backward: its forward
    int backward = -1;      // of a forward: its backward
    std::unique_ptr<MethodPlans> plans;
    std::unique_ptr<SizingChain> sizing;
    Saved saved;                    // a forward's
    std::vector<Tensor> gradients;  // a backward's last results
  };

  void PairMethods();
  MethodState& StateOf(MethodHandle method) { return methods_[static_cast<size_t>(method.index)]; }

  absl::Status CheckBackward(const MethodState& method) const;
  // `inputs` are those of the method without the saved values of a backward.
  absl::StatusOr<Executable*> Prepare(MethodState& method, absl::Span<const Tensor* const> inputs);
  absl::Status SetArguments(MethodState& method, absl::Span<const Tensor* const> inputs, Executable& executable);
  absl::Status SetResults(MethodState& method, absl::Span<const Tensor> arguments, absl::Span<Tensor> results,
                          Executable& executable);
  bool IsUsed(const Storage& storage, absl::Span<const Tensor> arguments,
              absl::Span<const Tensor> earlier_results) const;
  void Finish(MethodState& method, absl::Span<const Tensor> results, const Executable& executable);

  std::shared_ptr<SessionCore> core_;
  StateIntervals states_by_address_;  // all of them
  std::vector<MethodState> methods_;  // by index in the artifact
};

Session::Impl::Impl(std::shared_ptr<SessionCore> core) : core_(std::move(core)) {
  std::vector<int> all_states(static_cast<size_t>(program().artifact().states_size()));
  std::iota(all_states.begin(), all_states.end(), 0);
  states_by_address_ = StateIntervals(core_->states(), all_states);
  methods_.resize(static_cast<size_t>(program().artifact().methods_size()));
  for (size_t i = 0; i < methods_.size(); ++i) {
    const Method& method = program().method(static_cast<int>(i));
    methods_[i].index = static_cast<int>(i);
    methods_[i].num_results = method.outputs_size() - static_cast<int>(method.num_saved());
    for (const StateUpdate& update : method.state_updates()) {
      methods_[i].updated_states.push_back(static_cast<int>(update.state()));
    }
    for (const StateRead& read : method.state_reads()) {
      methods_[i].read_states.push_back(static_cast<int>(read.state()));
    }
    methods_[i].callable = CheckCallable(method);
    for (const serialization::InputUpdate& update : method.input_updates()) {
      if (!update.sets_storage()) continue;
      methods_[i].callable = absl::FailedPreconditionError(
          absl::StrCat("method '", method.name(),
                       "' gives an argument another storage, which only a Function can (runtime/function/function.h)"));
    }
  }
  PairMethods();
  for (MethodState& method : methods_) {
    const int num_saved = method.forward < 0 ? 0 : static_cast<int>(program().method(method.forward).num_saved());
    method.plans = std::make_unique<MethodPlans>(*core_, method.index, num_saved);
    method.sizing = std::make_unique<SizingChain>(*core_, method.index);
  }
}

void Session::Impl::PairMethods() {
  for (MethodState& forward : methods_) {
    const Method& method = program().method(forward.index);
    const absl::StatusOr<int> backward = program().FindMethod(method.backward_method());
    if (!backward.ok()) continue;
    forward.backward = *backward;
    methods_[static_cast<size_t>(*backward)].forward = forward.index;
    forward.saved.values.resize(method.num_saved());
    forward.saved.versions.resize(methods_[static_cast<size_t>(*backward)].read_states.size());
  }
}

absl::Status Session::Impl::Run(MethodHandle handle, absl::Span<const Tensor> arguments, absl::Span<Tensor> results,
                                absl::FunctionRef<absl::Status(Executable&)> execute) {
  if (!IsValid(handle)) return absl::InvalidArgumentError(kForeignHandle);
  if (static_cast<int>(results.size()) != NumResults(handle)) {
    return absl::InvalidArgumentError(absl::StrCat("method '", program().method(handle.index).name(), "' has ",
                                                   NumResults(handle), " results, got room for ", results.size()));
  }
  MethodState& method = StateOf(handle);
  COTAN_RETURN_IF_ERROR(method.callable);
  COTAN_RETURN_IF_ERROR(CheckBackward(method));
  absl::InlinedVector<Tensor, 8> with_flags;
  if (method.forward >= 0 && TakesTangentFlags(program().method(handle.index), method.plans->num_saved(),
                                               static_cast<int>(arguments.size()))) {
    with_flags.assign(arguments.begin(), arguments.end());
    COTAN_ASSIGN_OR_RETURN(const Tensor is_defined, TangentFlag(core_->ops(), true));
    with_flags.resize(2 * arguments.size(), is_defined);
    arguments = with_flags;
  }
  absl::InlinedVector<const Tensor*, 16> inputs;
  for (const Tensor& argument : arguments) inputs.push_back(&argument);
  if (!method.sizing->empty()) {
    COTAN_RETURN_IF_ERROR(method.sizing->Run(inputs, execute));
    for (const Tensor& input : method.sizing->inputs()) inputs.push_back(&input);
  }
  COTAN_ASSIGN_OR_RETURN(Executable* const executable, Prepare(method, inputs));
  COTAN_RETURN_IF_ERROR(SetArguments(method, inputs, *executable));
  COTAN_RETURN_IF_ERROR(SetResults(method, arguments, results, *executable));
  COTAN_RETURN_IF_ERROR(execute(*executable));
  Finish(method, results, *executable);
  return absl::OkStatus();
}

// Checks that the forward has run since the last backward and that the states that the backward reads are
// unchanged.
absl::Status Session::Impl::CheckBackward(const MethodState& method) const {
  if (method.forward < 0) return absl::OkStatus();
  const Saved& saved = methods_[static_cast<size_t>(method.forward)].saved;
  const auto name = [this](int index) { return absl::StrCat("method '", program().method(index).name(), "'"); };
  if (!saved.valid) {
    return absl::FailedPreconditionError(absl::StrCat(name(method.index), " needs a run of ", name(method.forward),
                                                      " before it; each run serves one backward"));
  }
  for (size_t i = 0; i < method.read_states.size(); ++i) {
    if (core_->states().version(method.read_states[i]) == saved.versions[i]) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(name(method.index), " reads state '", program().state(method.read_states[i]).name(),
                     "', which has changed since ", name(method.forward), ": run that again"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Executable*> Session::Impl::Prepare(MethodState& method, absl::Span<const Tensor* const> inputs) {
  const DimVector* known = method.sizing->empty() ? nullptr : &method.sizing->symbols();
  if (method.forward >= 0) known = &methods_[static_cast<size_t>(method.forward)].saved.symbols;
  return method.plans->Prepare(inputs, known);
}

absl::Status Session::Impl::SetArguments(MethodState& method, absl::Span<const Tensor* const> inputs,
                                         Executable& executable) {
  const int num_saved = method.plans->num_saved();
  for (int i = 0; i < num_saved; ++i) {
    const Saved& saved = methods_[static_cast<size_t>(method.forward)].saved;
    COTAN_RETURN_IF_ERROR(executable.SetInput(i, saved.values[static_cast<size_t>(i)]));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    COTAN_RETURN_IF_ERROR(executable.SetInput(num_saved + static_cast<int>(i), *inputs[i]));
  }
  return absl::OkStatus();
}

// Returns true if a result must not be written to this storage.
bool Session::Impl::IsUsed(const Storage& storage, absl::Span<const Tensor> arguments,
                           absl::Span<const Tensor> earlier_results) const {
  const auto shares = [&](const Tensor& other) { return Overlap(*other.storage(), storage); };
  return std::any_of(arguments.begin(), arguments.end(), shares) ||
         std::any_of(earlier_results.begin(), earlier_results.end(), shares) ||
         states_by_address_.FindOverlap(storage) >= 0;
}

absl::Status Session::Impl::SetResults(MethodState& method, absl::Span<const Tensor> arguments,
                                       absl::Span<Tensor> results, Executable& executable) {
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].defined() && IsUsed(*results[i].storage(), arguments, results.first(i))) {
      static const Tensor& undefined = *new Tensor;
      results[i] = undefined;
    }
    COTAN_RETURN_IF_ERROR(executable.SetOutput(static_cast<int>(i), results[i]));
  }
  method.saved.valid = false;  // about to be overwritten
  for (size_t i = 0; i < method.saved.values.size(); ++i) {
    COTAN_RETURN_IF_ERROR(executable.SetOutput(static_cast<int>(results.size() + i), method.saved.values[i]));
  }
  return absl::OkStatus();
}

// Records the effects of a successful call: versions of updated states, saved values and gradients.
void Session::Impl::Finish(MethodState& method, absl::Span<const Tensor> results, const Executable& executable) {
  for (int state : method.updated_states) core_->BumpVersion(state);
  if (method.backward >= 0) {
    const std::vector<int>& read = methods_[static_cast<size_t>(method.backward)].read_states;
    for (size_t i = 0; i < read.size(); ++i) method.saved.versions[i] = core_->states().version(read[i]);
    method.saved.symbols = executable.plan().symbols;
    method.saved.valid = true;
  }
  if (method.forward >= 0) {
    methods_[static_cast<size_t>(method.forward)].saved.valid = false;
    method.gradients.assign(results.begin(), results.end());
  }
}

absl::StatusOr<Tensor> Session::Impl::Gradient(absl::string_view parameter) const {
  COTAN_ASSIGN_OR_RETURN(const int state, program().FindState(parameter));
  const std::string& name = program().state(state).name();
  bool computed = false;
  for (const MethodState& method : methods_) {
    if (method.forward < 0) continue;
    const Method& backward = program().method(method.index);
    // A gradient has the name of its input; those of states come first.
    const auto found = std::find(backward.output_names().begin(), backward.output_names().end(), name);
    if (found == backward.output_names().end()) continue;
    computed = true;
    if (!method.gradients.empty())
      return method.gradients[static_cast<size_t>(found - backward.output_names().begin())];
  }
  if (computed) return absl::FailedPreconditionError("no backward has run yet");
  return absl::NotFoundError(absl::StrCat("no method computes a gradient of '", parameter, "'"));
}

absl::StatusOr<std::vector<const Plan*>> Session::Impl::LastPlans(MethodHandle handle) const {
  if (!IsValid(handle)) return absl::InvalidArgumentError(kForeignHandle);
  const MethodState& method = methods_[static_cast<size_t>(handle.index)];
  if (method.plans->last() == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("method '", program().method(handle.index).name(), "' has not run yet, so its sizes are unknown"));
  }
  COTAN_ASSIGN_OR_RETURN(std::vector<const Plan*> plans, method.sizing->LastPlans());
  plans.push_back(&method.plans->last()->plan());
  return plans;
}

absl::StatusOr<int> Session::Impl::FindHyperparameter(absl::string_view name, int group) const {
  for (const std::string& full :
       {absl::StrCat("hyperparameter.", name, ".", group), absl::StrCat("hyperparameter.", name)}) {
    const absl::StatusOr<int> state = program().FindState(full);
    if (state.ok() && program().state(*state).role() == StateProto::HYPERPARAMETER) return *state;
  }
  std::string known;
  for (const StateProto& state : program().artifact().states()) {
    if (state.role() == StateProto::HYPERPARAMETER) absl::StrAppend(&known, known.empty() ? "" : ", ", state.name());
  }
  return absl::NotFoundError(absl::StrCat("no hyperparameter '", name, "' of group ", group, "; there are: ", known));
}

absl::StatusOr<int> Session::Impl::FindRng() const {
  for (int i = 0; i < program().artifact().states_size(); ++i) {
    if (program().state(i).role() == StateProto::RNG) return i;
  }
  return absl::FailedPreconditionError("the program draws no random numbers");
}

// --- creation ----------------------------------------------------------------

absl::StatusOr<Session> Session::Create(std::shared_ptr<const Program> program, const SessionOptions& options) {
  if (program == nullptr) return absl::InvalidArgumentError("Session::Create(): program is null");
  Device& device = options.device == nullptr ? HostDevice() : *options.device;
  COTAN_RETURN_IF_ERROR(CheckOptions(*program, options, device));
  const ExecutionTarget target = {.kernels = options.kernels,
                                  .device = &device,
                                  .threads = StepThreads(options.threads),
                                  .communicator = options.communicator,
                                  .flush_denormals = options.flush_denormals};
  COTAN_ASSIGN_OR_RETURN(std::shared_ptr<SessionCore> core,
                         SessionCore::Create(std::move(program), target, options.max_plans, options.effects));
  return Session(std::make_unique<Impl>(std::move(core)));
}

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

const std::shared_ptr<SessionCore>& SessionCoreOf(const Session& session) { return session.impl_->core(); }

const Program& Session::program() const { return impl_->program(); }
TensorOps& Session::ops() const { return impl_->core()->ops(); }

// --- a call ------------------------------------------------------------------

absl::StatusOr<MethodHandle> Session::FindMethod(absl::string_view name) const {
  COTAN_ASSIGN_OR_RETURN(const int index, program().FindMethod(name));
  return MethodHandle{index};
}

int Session::NumResults(MethodHandle method) const { return impl_->NumResults(method); }

absl::StatusOr<std::vector<Tensor>> Session::Run(absl::string_view method, absl::Span<const Tensor> arguments) {
  COTAN_ASSIGN_OR_RETURN(const MethodHandle handle, FindMethod(method));
  std::vector<Tensor> results(static_cast<size_t>(NumResults(handle)));
  COTAN_RETURN_IF_ERROR(Run(handle, arguments, absl::MakeSpan(results)));
  return results;
}

absl::StatusOr<std::vector<Tensor>> Session::Run(absl::string_view method,
                                                 std::initializer_list<CallArgument<Tensor>> arguments) {
  COTAN_ASSIGN_OR_RETURN(const MethodHandle handle, FindMethod(method));
  const serialization::Method& proto = program().method(handle.index);
  std::vector<Tensor> tensors;
  for (const CallArgument<Tensor>& argument : arguments) {
    const auto index = static_cast<int>(tensors.size());
    if (argument.number() == nullptr || index >= proto.inputs_size()) {
      tensors.push_back(argument.number() == nullptr ? argument.value() : Tensor());
      continue;
    }
    const serialization::TensorType& type = proto.values(static_cast<int>(proto.inputs(index))).type();
    COTAN_ASSIGN_OR_RETURN(Tensor tensor, TensorOfNumber(*argument.number(), type, program().InputName(proto, index)));
    tensors.push_back(std::move(tensor));
  }
  return Run(method, absl::MakeConstSpan(tensors));
}

absl::Status Session::Run(MethodHandle handle, absl::Span<const Tensor> arguments, absl::Span<Tensor> results) {
  return impl_->Run(handle, arguments, results, [](Executable& executable) { return executable.Run(); });
}

absl::Status Session::RunTimed(MethodHandle handle, absl::Span<const Tensor> arguments, absl::Span<Tensor> results,
                               std::vector<int64_t>& nanoseconds) {
  nanoseconds.clear();
  return impl_->Run(handle, arguments, results, [&nanoseconds](Executable& executable) {
    const size_t first = nanoseconds.size();
    nanoseconds.resize(first + executable.plan().steps.size());
    return executable.RunTimed(absl::MakeSpan(nanoseconds).subspan(first));
  });
}

absl::Status Session::Synchronize() const { return impl_->core()->target().device->Synchronize(); }

absl::StatusOr<Tensor> Session::Gradient(absl::string_view parameter) const { return impl_->Gradient(parameter); }

absl::StatusOr<Variable> Session::Parameter(absl::string_view name) const {
  const absl::StatusOr<int> state = program().FindState(name);
  if (state.ok()) {
    const StateProto::Role role = program().state(*state).role();
    if (role == StateProto::PARAMETER || role == StateProto::BUFFER) return impl_->core()->StateVariable(*state);
  }
  return absl::NotFoundError(absl::StrCat("no parameter or buffer is called '", name, "'"));
}

// --- states ------------------------------------------------------------------

absl::StatusOr<Tensor> Session::State(absl::string_view name) const {
  COTAN_ASSIGN_OR_RETURN(const int state, program().FindState(name));
  return impl_->core()->states().Read(state);
}

absl::Status Session::SetState(absl::string_view name, const Tensor& value) {
  COTAN_RETURN_IF_ERROR(impl_->CheckNoHandlerRuns("set a state"));
  COTAN_ASSIGN_OR_RETURN(const int state, program().FindState(name));
  return impl_->core()->states().Write(state, value);
}

absl::StatusOr<double> Session::Hyperparameter(absl::string_view name, int group) const {
  COTAN_ASSIGN_OR_RETURN(const int state, impl_->FindHyperparameter(name, group));
  COTAN_ASSIGN_OR_RETURN(const Tensor value, impl_->core()->states().Read(state));
  return DecodeScalar({static_cast<const char*>(value.address()), value.storage()->bytes()}, value.dtype());
}

absl::Status Session::SetHyperparameter(absl::string_view name, double value, int group) {
  COTAN_RETURN_IF_ERROR(impl_->CheckNoHandlerRuns("set a hyperparameter"));
  COTAN_ASSIGN_OR_RETURN(const int state, impl_->FindHyperparameter(name, group));
  COTAN_ASSIGN_OR_RETURN(Tensor tensor, impl_->core()->states().Read(state));
  COTAN_ASSIGN_OR_RETURN(const std::string bytes, EncodeScalar(value, tensor.dtype()));
  if (bytes.size() != tensor.storage()->bytes()) {
    return absl::InvalidArgumentError(
        absl::StrCat("hyperparameter '", name, "' is ", tensor.ToString(), ", expected a single number"));
  }
  std::copy(bytes.begin(), bytes.end(), static_cast<char*>(tensor.address()));
  return impl_->core()->states().Write(state, tensor);
}

absl::StatusOr<RngState> Session::Rng() const {
  COTAN_ASSIGN_OR_RETURN(const int state, impl_->FindRng());
  COTAN_ASSIGN_OR_RETURN(const Tensor value, impl_->core()->states().Read(state));
  const int64_t* numbers = value.data<int64_t>();  // VerifyArtifact(): i64[2]
  return RngState{.seed = numbers[0], .offset = numbers[1]};
}

absl::Status Session::SetRng(RngState rng) {
  COTAN_RETURN_IF_ERROR(impl_->CheckNoHandlerRuns("set the random generator"));
  COTAN_ASSIGN_OR_RETURN(const int state, impl_->FindRng());
  COTAN_ASSIGN_OR_RETURN(const Tensor value, Tensor::From<int64_t>({rng.seed, rng.offset}, {2}));
  return impl_->core()->states().Write(state, value);
}

absl::Status Session::SaveCheckpoint(const std::string& path) const {
  return cotan::SaveCheckpoint(impl_->core()->states(), path);
}

absl::Status Session::LoadCheckpoint(const std::string& path) {
  COTAN_RETURN_IF_ERROR(impl_->CheckNoHandlerRuns("load a checkpoint"));
  return cotan::LoadCheckpoint(path, impl_->core()->states());
}

// --- introspection -----------------------------------------------------------

int64_t Session::state_bytes() const { return impl_->core()->states().bytes(); }
int64_t Session::arena_bytes() const { return impl_->core()->arena_bytes(); }
int Session::num_plans_made() const { return impl_->core()->num_plans_made(); }

absl::StatusOr<PlanSummary> Session::Summary(MethodHandle method) const {
  COTAN_ASSIGN_OR_RETURN(const std::vector<const Plan*> plans, impl_->LastPlans(method));
  return SummaryOf(plans);
}

absl::StatusOr<std::vector<std::string>> Session::StepNames(MethodHandle method) const {
  COTAN_ASSIGN_OR_RETURN(const std::vector<const Plan*> plans, impl_->LastPlans(method));
  std::vector<std::string> names;
  for (const Plan* plan : plans) {
    for (const PlannedStep& step : plan->steps) names.push_back(StepName(program(), *plan, step));
  }
  return names;
}

}  // namespace cotan
