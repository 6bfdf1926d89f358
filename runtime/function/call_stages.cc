#include "runtime/function/call_stages.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/overlap.h"
#include "base/status_macros.h"
#include "runtime/autograd/copy_node.h"
#include "runtime/autograd/grad_mode.h"
#include "runtime/autograd/hooks.h"
#include "runtime/autograd/node.h"
#include "runtime/autograd/tensor_ops.h"
#include "runtime/autograd/view_node.h"
#include "runtime/function/function_core.h"
#include "runtime/function/wrappers.h"
#include "runtime/session/memory_overlap.h"

namespace cotan {
namespace {

const Variable& ArgumentAt(const Call& call, int argument) {
  return *call.program_arguments[static_cast<size_t>(argument)];
}

Tensor& ResultAt(Call& call, int result) { return call.results[static_cast<size_t>(result)]; }

// A leaf is written behind autograd's back: what wrote it when traced was no
// operation that autograd saw, or it had been refused.
bool IsTracked(const Call& call, const CallPlan::WriteBack& write) {
  if (!call.is_recorded || write.tangent < 0) return false;
  const Variable& target = ArgumentAt(call, write.argument);
  return !(target.requires_grad() && target.is_leaf());
}

}  // namespace

// --- flatten -----------------------------------------------------------------

absl::Status FlattenArguments(FunctionCore& core, Call& call) {
  const CallPlan& plan = core.plan();
  if (call.wrapped_outputs == nullptr) {
    return Refuse(plan, "it has arguments or results of wrapper types: use CallWrapped()");
  }
  if (call.wrapped_arguments.size() != plan.wrapped_arguments.size()) {
    return Refuse(plan, "takes ", plan.wrapped_arguments.size(), " arguments, got ", call.wrapped_arguments.size());
  }
  for (size_t i = 0; i < plan.wrapped_arguments.size(); ++i) {
    const CallPlan::WrappedArgument& argument = plan.wrapped_arguments[i];
    const absl::Status status = FlattenAs(argument.meta, call.wrapped_arguments[i], argument.name, call.flat_arguments);
    if (!status.ok()) return Refuse(plan, "argument ", status.message());
  }
  call.arguments = call.flat_arguments;
  return absl::OkStatus();
}

// --- check -------------------------------------------------------------------

namespace {

absl::Status CheckRequiresGrad(const CallPlan& plan, const CallPlan::Input& input, bool requires_grad) {
  if (requires_grad == input.requires_grad) return absl::OkStatus();
  return Refuse(plan, "argument '", input.name, "' ", input.requires_grad ? "required" : "did not require",
                " grad when the program was traced, but the one given ", requires_grad ? "does" : "does not");
}

absl::Status CheckState(FunctionCore& core, const CallPlan::Input& input, const Variable& variable) {
  const Tensor& state = core.session().states().tensor(input.state);
  if (variable.tensor().storage() == state.storage()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("function '", core.plan().name, "': '", input.name,
                                                    "' has been given another storage; the session's program reads and "
                                                    "writes the one it had: copy into it instead"));
}

absl::Status CheckMode(const CallPlan& plan, const Call& call) {
  if (!plan.traced_without_grad || !GradMode::enabled()) return absl::OkStatus();
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (!call.inputs[i]->requires_grad()) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("function '", plan.name, "' was traced with gradients disabled, but they are enabled and '",
                     plan.inputs[i].name, "' requires grad: call it under GradModeGuard(false)"));
  }
  return absl::OkStatus();
}

// The backward has no gradient for what needed none.
absl::Status CheckWithoutGradient(const CallPlan& plan, const Call& call) {
  for (int input : plan.no_grad_view_inputs) {
    const absl::StatusOr<autograd::Edge> edge = InputAt(call, input).GradientEdge();
    if (!edge.ok() || !edge->defined()) continue;
    return Refuse(
        plan, "argument '", InputOf(plan, input).name,
        "' was a view made under no_grad when the program was traced, which no gradient goes through; it does "
        "through the one given");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckArguments(FunctionCore& core, Call& call) {
  const CallPlan& plan = core.plan();
  if (static_cast<int>(call.arguments.size()) != plan.num_arguments) {
    std::string names;
    for (size_t i = static_cast<size_t>(plan.num_states); i < plan.inputs.size(); ++i) {
      absl::StrAppend(&names, names.empty() ? "" : ", ", plan.inputs[i].name);
    }
    return Refuse(plan, "takes ", plan.num_arguments, " arguments (", names, "), got ", call.arguments.size());
  }
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    const CallPlan::Input& input = plan.inputs[i];
    if (input.state < 0) {
      call.inputs[i] = &call.arguments[i - static_cast<size_t>(plan.num_states)];
      if (!call.inputs[i]->defined()) return Refuse(plan, "argument '", input.name, "' is undefined");
    } else {
      COTAN_RETURN_IF_ERROR(CheckState(core, input, *call.inputs[i]));
    }
    COTAN_RETURN_IF_ERROR(CheckRequiresGrad(plan, input, call.inputs[i]->requires_grad()));
  }
  COTAN_RETURN_IF_ERROR(CheckMode(plan, call));
  call.in_traced_mode = GradMode::enabled() != plan.traced_without_grad;
  call.is_recorded = call.in_traced_mode && (plan.backward >= 0 || plan.has_detached_grad_sink);
  if (call.is_recorded) COTAN_RETURN_IF_ERROR(CheckWithoutGradient(plan, call));
  for (size_t k = plan.bases.size(); k < plan.argument_inputs.size(); ++k) {
    call.program_arguments[k] = call.inputs[static_cast<size_t>(plan.argument_inputs[k])];
  }
  return absl::OkStatus();
}

// --- dedupe ------------------------------------------------------------------

absl::Status Deduplicate(FunctionCore& core, Call& call) {
  const CallPlan& plan = core.plan();
  for (const auto& [input, original] : plan.duplicates) {
    if (InputAt(call, input).is_same(InputAt(call, original))) continue;
    return Refuse(plan, "argument '", InputOf(plan, input).name, "' was the same tensor as '",
                  InputOf(plan, original).name, "' when the program was traced, but the one given is not");
  }
  for (const auto& [input, other] : plan.must_not_alias) {
    if (!InputAt(call, input).is_same(InputAt(call, other))) continue;
    return Refuse(plan, "argument '", InputOf(plan, other).name, "' is the same tensor as '", InputOf(plan, input).name,
                  "', which is changed; they were not when the program was traced");
  }
  return absl::OkStatus();
}

// --- in place ----------------------------------------------------------------

absl::Status CheckInPlace(FunctionCore& core, Call& call) {
  if (!call.is_recorded) return absl::OkStatus();
  const GradModeGuard recorded(true);
  for (const CallPlan::WriteBack& write : core.plan().write_backs) {
    if (!IsTracked(call, write)) continue;
    COTAN_RETURN_IF_ERROR(ArgumentAt(call, write.argument).CheckInPlace(/*requires_grad=*/true));
    for (int input : write.written_views) {
      COTAN_RETURN_IF_ERROR(InputAt(call, input).CheckInPlace(/*requires_grad=*/true));
    }
  }
  return absl::OkStatus();
}

// --- forward -----------------------------------------------------------------

namespace {

// Where a result is to lie in the end.
const std::shared_ptr<Storage>& StorageOf(Call& call, int result) {
  for (const auto& [folded, place] : call.folded) {
    if (folded == result) return place.storage();
  }
  return ResultAt(call, result).storage();
}

// Memory for a result that is not dense, or in whose storage others are, too.
absl::Status PlaceResult(FunctionCore& core, Call& call, const FunctionCore::OutputLayouts& places, int result) {
  const auto r = static_cast<size_t>(result);
  const TensorSpec& spec = call.executable->plan().outputs[r];
  const int at = places.placement_of[r];
  const StridedLayout& layout = at < 0 ? spec.layout : places.layouts[static_cast<size_t>(at)];
  const int owner = at < 0 ? result : core.plan().placements[static_cast<size_t>(at)].owner;
  std::shared_ptr<Storage> storage;
  if (owner == result) {
    COTAN_ASSIGN_OR_RETURN(storage, Storage::Allocate(*core.session().target().device, places.storage_bytes[r]));
  } else {
    storage = StorageOf(call, owner);
  }
  COTAN_ASSIGN_OR_RETURN(call.results[r], Tensor::InStorage(std::move(storage), spec.dtype, layout));
  if (!places.is_folded[r]) return call.executable->SetStridedOutput(result, call.results[r]);
  call.folded.emplace_back(result, std::exchange(call.results[r], Tensor()));
  return call.executable->SetOutput(result, call.results[r]);
}

// Elements that share memory are equal: one of each is written.
absl::Status WriteOverlapping(TensorOps& ops, const Tensor& from, const Tensor& to) {
  StridedLayout source = from.layout();
  StridedLayout target = to.layout();
  for (size_t d = 0; d < target.sizes.size(); ++d) {
    if (target.strides[d] == 0) source.sizes[d] = target.sizes[d] = std::min<int64_t>(target.sizes[d], 1);
  }
  size_t split = 0;
  while (split < target.sizes.size() && target.sizes[split] < 2) ++split;
  const bool overlaps = OverlapsItself(target) && split < target.sizes.size();
  const int64_t parts = overlaps ? target.sizes[split] : 1;
  if (overlaps) source.sizes[split] = target.sizes[split] = 1;
  for (int64_t i = 0; i < parts; ++i) {
    COTAN_ASSIGN_OR_RETURN(const Tensor part, Tensor::InStorage(from.storage(), from.dtype(), source));
    COTAN_ASSIGN_OR_RETURN(const Tensor place, Tensor::InStorage(to.storage(), to.dtype(), target));
    COTAN_RETURN_IF_ERROR(overlaps ? WriteOverlapping(ops, part, place) : ops.Copy(part, place));
    if (!overlaps) break;
    source.offset += source.strides[split];
    target.offset += target.strides[split];
  }
  return absl::OkStatus();
}

absl::Status FoldResults(FunctionCore& core, Call& call) {
  for (auto& [result, place] : call.folded) {
    COTAN_RETURN_IF_ERROR(WriteOverlapping(core.session().ops(), ResultAt(call, result), place));
    ResultAt(call, result) = std::move(place);
  }
  return absl::OkStatus();
}

bool IsOwner(const CallPlan& plan, const FunctionCore::OutputLayouts& places, int result) {
  const int at = places.placement_of[static_cast<size_t>(result)];
  return at < 0 || plan.placements[static_cast<size_t>(at)].owner == result;
}

absl::Status PlaceSaved(FunctionCore& core, Call& call, int result) {
  Tensor& value = ResultAt(call, result);
  value = core.AcquireSavedBuffer(result - core.plan().first_saved);
  const Storage* const reused = value.storage().get();
  COTAN_RETURN_IF_ERROR(call.executable->SetOutput(result, value));
  if (reused != nullptr && value.storage().get() == reused) ++core.stats().saved_reused;
  return absl::OkStatus();
}

absl::Status PlaceResults(FunctionCore& core, Call& call) {
  const CallPlan& plan = core.plan();
  const std::vector<ResultBuffer>& kinds = call.executable->plan().places;
  const FunctionCore::OutputLayouts* places = nullptr;
  if (!plan.placements.empty()) {
    COTAN_ASSIGN_OR_RETURN(places, core.OutputLayoutsFor(call.executable->plan()));
  }
  for (int r = 0; r < plan.num_results; ++r) {
    if (kinds[static_cast<size_t>(r)].kind != ResultBuffer::Kind::kOwn) continue;
    if (r >= plan.first_saved && r < plan.num_outputs) {
      COTAN_RETURN_IF_ERROR(PlaceSaved(core, call, r));
    } else if (places == nullptr || !places->is_placed[static_cast<size_t>(r)]) {
      autograd::Clear(ResultAt(call, r));
      COTAN_RETURN_IF_ERROR(call.executable->SetOutput(r, ResultAt(call, r)));
    } else if (IsOwner(plan, *places, r)) {
      COTAN_RETURN_IF_ERROR(PlaceResult(core, call, *places, r));
    }
  }
  for (const CallPlan::StridedOutputSpec& placement : plan.placements) {  // in storages that are there by now
    if (placement.owner == placement.result) continue;
    COTAN_RETURN_IF_ERROR(PlaceResult(core, call, *places, placement.result));
  }
  return absl::OkStatus();
}

// Whether a change of an input's geometry is one that autograd sees. The function
// may enable gradients itself.
bool IsRecorded(const Call& call, const CallPlan::NewGeometry& change) {
  return (GradMode::enabled() || call.in_traced_mode) && !change.under_no_grad;
}

size_t BytesOf(const Tensor& tensor, const StridedLayout& layout) {
  return static_cast<size_t>(StorageExtent(layout)) * ByteSize(tensor.dtype());
}

// Whether the tensor needs a larger storage for this layout.
bool Grows(const Tensor& tensor, const StridedLayout& layout) {
  return BytesOf(tensor, layout) > tensor.storage()->bytes();
}

// Whether each element of `part` is one of `whole`.
bool IsPartOf(const StridedLayout& whole, const StridedLayout& part) {
  if (!IsDenseNonOverlapping(whole)) return Covers(whole, part);
  return NumElements(part.sizes) == 0 || (part.offset >= whole.offset && StorageExtent(part) <= StorageExtent(whole));
}

// In the memory of another argument, which lies in it as when traced, but for a shift.
absl::StatusOr<Tensor> InStorageOfArgument(const CallPlan& plan, const CallPlan::NewStorage& set, const Tensor& owner,
                                           const Call& call) {
  if (set.covers_owner) return owner;
  COTAN_ASSIGN_OR_RETURN(StridedLayout layout, EvaluateLayout(set.geometry, call.symbols()));
  COTAN_ASSIGN_OR_RETURN(StridedLayout traced, EvaluateLayout(set.owner_geometry_at_entry, call.symbols()));
  const auto bytes = static_cast<int64_t>(ByteSize(set.geometry.dtype));
  const int64_t shift =
      (owner.layout().offset - traced.offset) * static_cast<int64_t>(ByteSize(set.owner_geometry_at_entry.dtype));
  traced.offset = owner.layout().offset;
  if (owner.layout() != traced || shift % bytes != 0) {
    return Refuse(plan, "argument '", InputOf(plan, set.owner_input).name, "', a part of whose memory argument '",
                  InputOf(plan, set.input).name, "' is set to, was ", set.owner_geometry_at_entry.ToString(),
                  " when the program was traced; the one given is ", owner.ToString());
  }
  layout.offset += shift / bytes;
  return Tensor::InStorage(owner.storage(), set.geometry.dtype, std::move(layout));
}

absl::Status FindStorageOwners(const CallPlan& plan, Call& call) {
  for (size_t i = 0; i < plan.new_storages.size(); ++i) {
    const CallPlan::NewStorage& set = plan.new_storages[i];
    if (set.owner != NewStorage::Owner::kInput) continue;
    const Tensor& owner = InputAt(call, set.owner_input).tensor();
    COTAN_ASSIGN_OR_RETURN(call.shown_storages[i], InStorageOfArgument(plan, set, owner, call));
  }
  return absl::OkStatus();
}

// What the input's memory has to have when it gets the new geometry.
absl::Status CheckNewGeometry(FunctionCore& core, const Call& call, const CallPlan::NewGeometry& change,
                              const StridedLayout& layout) {
  const Variable& target = InputAt(call, change.input);
  const Tensor& before = target.tensor();
  const bool grows = Grows(before, layout);
  if (!grows && !change.is_written) return absl::OkStatus();
  const bool has_more = NumElements(layout.sizes) > before.num_elements();  // resize_() in a storage with room
  if (!grows && !has_more && !IsPartOf(before.layout(), layout)) {
    return Refuse(core.plan(), "argument '", InputOf(core.plan(), change.input).name, "' is written as ",
                  ToString(layout), " of its storage, some elements of which the one given, ",
                  ToString(before.layout()), ", does not have: pass it as it was when the program was traced");
  }
  if (change.method_input < 0) return absl::OkStatus();
  return core.forward(call.is_recorded)
      .CheckWrite(change.method_input, {before.storage().get(), &layout, before.dtype()}, call.tensors, 0);
}

// Written one after the other, in an order that is not the function's.
absl::Status CheckNewGeometriesApart(const CallPlan& plan, const Call& call, size_t last) {
  const auto region = [&](size_t i) {
    const Tensor& tensor = InputAt(call, plan.new_geometries[i].input).tensor();
    return MemoryRegion{tensor.storage().get(), &call.new_layouts[i], tensor.dtype()};
  };
  if (!plan.new_geometries[last].is_written) return absl::OkStatus();
  for (size_t i = 0; i < last; ++i) {
    if (!plan.new_geometries[i].is_written || !Overlap(region(i), region(last))) continue;
    return Refuse(plan, "arguments '", InputOf(plan, plan.new_geometries[i].input).name, "' and '",
                  InputOf(plan, plan.new_geometries[last].input).name,
                  "' are written in memory that they share in their new geometry; they did not when the program was "
                  "traced");
  }
  return absl::OkStatus();
}

// Where inputs are to lie, before anything is written.
absl::Status FindNewGeometries(FunctionCore& core, Call& call) {
  const CallPlan& plan = core.plan();
  for (size_t i = 0; i < plan.new_geometries.size(); ++i) {
    const CallPlan::NewGeometry& change = plan.new_geometries[i];
    COTAN_ASSIGN_OR_RETURN(StridedLayout layout, EvaluateLayout(change.geometry, call.symbols()));
    const Variable& target = InputAt(call, change.input);
    if (change.traced.has_value()) {
      COTAN_ASSIGN_OR_RETURN(const StridedLayout traced, EvaluateLayout(*change.traced, call.symbols()));
      layout.offset += target.layout().offset - traced.offset;
    }
    COTAN_RETURN_IF_ERROR(CheckNewGeometry(core, call, change, layout));
    const bool is_cut = std::count(plan.detached_inputs.begin(), plan.detached_inputs.end(), change.input) != 0;
    if (!is_cut && !target.is_view()) {
      const GradModeGuard mode(IsRecorded(call, change));
      COTAN_RETURN_IF_ERROR(target.CheckInPlace(target.requires_grad()));
    }
    call.new_layouts[i] = std::move(layout);
    COTAN_RETURN_IF_ERROR(CheckNewGeometriesApart(plan, call, i));
  }
  return absl::OkStatus();
}

// Results that the plan did not give memory of their own.
void FindSharedResults(Call& call) {
  const std::vector<ResultBuffer>& kinds = call.executable->plan().places;
  for (size_t r = 0; r < kinds.size(); ++r) {
    const auto at = static_cast<size_t>(kinds[r].index);
    if (kinds[r].kind == ResultBuffer::Kind::kInput) call.results[r] = *call.tensors[at];
    if (kinds[r].kind == ResultBuffer::Kind::kResult) call.results[r] = call.results[at];
  }
}

}  // namespace

absl::Status RunForward(FunctionCore& core, Call& call) {
  const CallPlan& plan = core.plan();
  for (size_t i = 0; i < plan.method_arguments.size(); ++i) {
    call.tensors[i] = &ArgumentAt(call, plan.method_arguments[i]).tensor();
  }
  COTAN_ASSIGN_OR_RETURN(call.executable, core.forward(call.is_recorded).Prepare(call.tensors));
  if (!plan.new_storages.empty()) COTAN_RETURN_IF_ERROR(FindStorageOwners(plan, call));
  if (!plan.new_geometries.empty()) COTAN_RETURN_IF_ERROR(FindNewGeometries(core, call));
  for (size_t i = 0; i < call.tensors.size(); ++i) {
    COTAN_RETURN_IF_ERROR(call.executable->SetInput(static_cast<int>(i), *call.tensors[i]));
  }
  COTAN_RETURN_IF_ERROR(PlaceResults(core, call));
  COTAN_RETURN_IF_ERROR(call.executable->Run());
  FindSharedResults(call);
  COTAN_RETURN_IF_ERROR(FoldResults(core, call));
  for (int state : plan.updated_states) core.session().BumpVersion(state);
  return absl::OkStatus();
}

// --- new leaves, record, wrap ------------------------------------------------

absl::Status MakeNewLeaves(FunctionCore& core, Call& call) {
  if (!call.in_traced_mode) return absl::OkStatus();
  for (int input : core.plan().new_leaves) {
    Variable leaf = InputAt(call, input);
    COTAN_RETURN_IF_ERROR(leaf.RequiresGrad(true));
  }
  return absl::OkStatus();
}

namespace {

absl::Status ChangeGeometry(Call& call, const CallPlan::NewGeometry& change, const StridedLayout& layout) {
  Variable target = InputAt(call, change.input);
  const Tensor before = target.tensor();
  const GradModeGuard mode(IsRecorded(call, change));
  if (!Grows(before, layout)) {
    // The function moved it before its base was written, or asked for its history in between.
    COTAN_RETURN_IF_ERROR(target.grad_fn().status());
    return target.AsStridedInPlace(layout);
  }
  // It has grown: the elements that there were, in a larger storage.
  COTAN_ASSIGN_OR_RETURN(std::shared_ptr<Storage> larger, Storage::Allocate(before.device(), BytesOf(before, layout)));
  if (before.storage()->bytes() != 0) {
    COTAN_RETURN_IF_ERROR(before.device().Copy(larger->data(), before.storage()->data(), before.storage()->bytes()));
  }
  COTAN_ASSIGN_OR_RETURN(Tensor grown, Tensor::InStorage(std::move(larger), before.dtype(), layout));
  return target.SetStorage(Variable(std::move(grown)));
}

absl::StatusOr<autograd::Edge> EdgeTo(const Call& call, const Variable& argument,
                                      const std::optional<SymIntVector>& gradient_sizes) {
  if (!gradient_sizes.has_value()) return argument.GradientEdge();
  DimVector sizes;
  for (const SymInt& size : *gradient_sizes) {
    COTAN_ASSIGN_OR_RETURN(sizes.emplace_back(), size.Evaluate(call.symbols()));
  }
  return argument.GradientEdge(sizes);
}

absl::Status ChangeGeometries(FunctionCore& core, Call& call) {
  const std::vector<CallPlan::NewGeometry>& changes = core.plan().new_geometries;
  for (size_t i = 0; i < changes.size(); ++i) {
    if (changes[i].view_precedes_metadata_mutation) {
      // The function may have viewed it with gradients enabled.
      const GradModeGuard mode(GradMode::enabled() || call.in_traced_mode);
      COTAN_ASSIGN_OR_RETURN(call.metadata_mutated_inputs[i], InputAt(call, changes[i].input).View({}));
    }
    if (changes[i].gradient_sizes.has_value() && call.in_traced_mode) {
      COTAN_ASSIGN_OR_RETURN(call.moved_leaves.emplace_back(),
                             EdgeTo(call, InputAt(call, changes[i].input), changes[i].gradient_sizes));
    }
    COTAN_RETURN_IF_ERROR(ChangeGeometry(call, changes[i], call.new_layouts[i]));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RecordNode(FunctionCore& core, Call& call) {
  if (!call.is_recorded) return absl::OkStatus();
  const CallPlan& plan = core.plan();
  call.node = std::make_shared<CompiledBackward>(core.shared_from_this(), call.symbols());
  for (size_t i = 0; i < plan.gradient_inputs.size(); ++i) {
    const Variable& argument = ArgumentAt(call, plan.gradient_inputs[i]);
    COTAN_ASSIGN_OR_RETURN(autograd::Edge edge, EdgeTo(call, argument, plan.gradient_sizes[i]));
    call.node->AddEdge(std::move(edge));
  }
  return absl::OkStatus();
}

namespace {

absl::StatusOr<Tensor> ReturnedTensor(Call& call, const CallPlan& plan, const CallPlan::Returned& returned) {
  if (!returned.reading.has_value()) return ResultAt(call, returned.result);
  const Tensor& owner = ResultAt(call, plan.returned[static_cast<size_t>(returned.owner)].result);
  COTAN_ASSIGN_OR_RETURN(StridedLayout layout, EvaluateLayout(returned.geometry, call.symbols()));
  COTAN_ASSIGN_OR_RETURN(Tensor tensor, Tensor::InStorage(owner.storage(), owner.dtype(), std::move(layout)));
  return tensor.WithConjNegBits(*returned.reading);
}

// `tensor`, which is in the storage of returned value `index`, as a variable
// without history. All in one storage share a version.
Variable InStorageOf(Call& call, const CallPlan& plan, int index, Tensor tensor) {
  const CallPlan::Returned& returned = plan.returned[static_cast<size_t>(index)];
  const auto owner = static_cast<size_t>(returned.owner < 0 ? index : returned.owner);
  if (!plan.returned[owner].is_shared) return Variable(std::move(tensor));
  Variable& storage = call.storages[owner];
  if (!storage.defined()) storage = Variable(tensor);
  return storage.DetachAs(std::move(tensor));
}

absl::StatusOr<Variable> HiddenBaseOf(Call& call, const CallPlan& plan, int hidden) {
  const CallPlan::HiddenBase& base = plan.hidden_bases[static_cast<size_t>(hidden)];
  const Tensor& seen = ResultAt(call, plan.returned[static_cast<size_t>(base.returned)].result);
  COTAN_ASSIGN_OR_RETURN(StridedLayout layout, EvaluateLayout(base.geometry, call.symbols()));
  COTAN_ASSIGN_OR_RETURN(Tensor tensor, Tensor::InStorage(seen.storage(), base.geometry.dtype, std::move(layout)));
  return InStorageOf(call, plan, base.returned, std::move(tensor));
}

// Views made while gradients are disabled are known to be so.
ViewCreation CreationNow(ViewCreation traced) {
  return GradMode::enabled() || traced == ViewCreation::kMultiOutput ? traced : ViewCreation::kNoGrad;
}

absl::Status WrapView(Call& call, const CallPlan& plan, size_t index) {
  const CallPlan::Returned& returned = plan.returned[index];
  const bool is_hidden = returned.view->returned < 0;
  Variable& base = is_hidden ? call.hidden_bases[static_cast<size_t>(returned.view->hidden)]
                             : call.returned[static_cast<size_t>(returned.view->returned)];
  if (!base.defined()) {
    COTAN_ASSIGN_OR_RETURN(base, HiddenBaseOf(call, plan, returned.view->hidden));
  }
  COTAN_ASSIGN_OR_RETURN(Tensor tensor, ReturnedTensor(call, plan, returned));
  call.returned[index] = base.ViewAs(std::move(tensor), CreationNow(returned.view->creation));
  return absl::OkStatus();
}

// A hidden base has the history of its view, should that be written: gradients of
// what is not written go that way.
absl::Status SetHiddenHistories(Call& call, const CallPlan& plan) {
  for (size_t h = 0; h < plan.hidden_bases.size(); ++h) {
    Variable& base = call.hidden_bases[h];
    const int index = plan.hidden_bases[h].view;
    if (call.is_recorded && index >= 0) {
      const Variable& view = call.returned[static_cast<size_t>(index)];
      std::shared_ptr<autograd::Node> node = autograd::MakeStridedViewNode(
          "HiddenBaseBackward", {view.dtype(), view.layout()}, {base.dtype(), base.layout()});
      COTAN_ASSIGN_OR_RETURN(autograd::Edge edge, view.GradientEdge());
      node->AddEdge(std::move(edge));
      base.SetHistory(std::move(node));
    } else if (plan.hidden_bases[h].requires_grad && call.in_traced_mode) {
      COTAN_RETURN_IF_ERROR(base.RequiresGrad(true));
    }
  }
  return absl::OkStatus();
}

// Adds the node's input for a tangent that belongs to no new variable.
void AddTangent(FunctionCore& core, Call& call, const CallPlan::Returned& returned) {
  autograd::GradientType type;
  if (returned.result < 0) {
    type = autograd::GradientType::Of(ArgumentAt(call, returned.argument).tensor());
  } else {
    const TensorSpec& spec = call.executable->plan().outputs[static_cast<size_t>(returned.result)];
    type = {spec.dtype, spec.layout.sizes, core.session().target().device};
  }
  call.node->AddInput(std::move(type));
}

}  // namespace

absl::Status WrapReturned(FunctionCore& core, Call& call) {
  using Kind = CallPlan::Returned::Kind;
  const CallPlan& plan = core.plan();
  for (size_t i = 0; i < plan.returned.size(); ++i) {
    const CallPlan::Returned& returned = plan.returned[i];
    if (returned.kind != Kind::kVariable || returned.view.has_value()) continue;
    COTAN_ASSIGN_OR_RETURN(Tensor tensor, ReturnedTensor(call, plan, returned));
    call.returned[i] = InStorageOf(call, plan, static_cast<int>(i), std::move(tensor));
  }
  for (size_t i = 0; i < plan.returned.size(); ++i) {
    if (plan.returned[i].view.has_value()) COTAN_RETURN_IF_ERROR(WrapView(call, plan, i));
  }
  for (size_t i = 0; i < plan.returned.size(); ++i) {
    const CallPlan::Returned& returned = plan.returned[i];
    const bool has_tangent = call.is_recorded && returned.tangent >= 0;
    Variable& variable = call.returned[i];
    const bool becomes_leaf = variable.defined() && returned.is_leaf_that_requires_grad && call.in_traced_mode;
    if (has_tangent && (!variable.defined() || becomes_leaf)) AddTangent(core, call, returned);
    if (becomes_leaf) {
      COTAN_RETURN_IF_ERROR(variable.RequiresGrad(true));
    } else if (has_tangent && variable.defined()) {
      variable.SetHistory(call.node);
    }
  }
  return SetHiddenHistories(call, plan);
}

// --- write back --------------------------------------------------------------

namespace {

// The argument's elements are the new ones already; what autograd knows follows.
absl::Status RebaseAfterInPlaceWrite(Call& call, const CallPlan::WriteBack& write) {
  Variable target = ArgumentAt(call, write.argument);
  if (!IsTracked(call, write)) {
    if (write.bumps_version) target.BumpVersion();
    return absl::OkStatus();
  }
  const GradModeGuard recorded(true);
  auto copy = std::make_shared<autograd::CopyNode>();
  autograd::Edge before;
  if (write.has_gradient) {
    COTAN_ASSIGN_OR_RETURN(before, target.GradientEdge());
  }
  copy->AddEdge(std::move(before));
  copy->AddEdge({call.node, write.tangent});
  target.BumpVersion();
  COTAN_RETURN_IF_ERROR(target.RebaseHistory(std::move(copy)));
  for (int input : write.written_views) COTAN_RETURN_IF_ERROR(InputAt(call, input).grad_fn().status());
  return absl::OkStatus();
}

// What the backward needs of the argument as it was, which is about to be written.
absl::Status KeepSaved(FunctionCore& core, Call& call, int argument) {
  const CallPlan& plan = core.plan();
  for (int r = plan.first_saved; call.is_recorded && r < plan.first_saved + plan.num_saved; ++r) {
    const ResultBuffer& place = call.executable->plan().places[static_cast<size_t>(r)];
    if (place.kind != ResultBuffer::Kind::kInput) continue;
    if (plan.method_arguments[static_cast<size_t>(place.index)] != argument) continue;
    COTAN_ASSIGN_OR_RETURN(ResultAt(call, r), core.session().ops().Clone(ResultAt(call, r)));
  }
  return absl::OkStatus();
}

absl::Status WriteContent(FunctionCore& core, Call& call, const CallPlan::WriteBack& write) {
  ++core.stats().write_backs;
  if (!write.copies) return RebaseAfterInPlaceWrite(call, write);
  COTAN_RETURN_IF_ERROR(KeepSaved(core, call, write.argument));
  // Its geometry has changed, so that the program could not write it.
  const GradModeGuard no_grad(false);
  const Variable source(ResultAt(call, write.result));
  Variable target =
      write.bumps_version ? ArgumentAt(call, write.argument) : Variable(ArgumentAt(call, write.argument).tensor());
  COTAN_RETURN_IF_ERROR(target.CopyInPlace(source, core.session().ops()));
  if (!IsTracked(call, write)) return absl::OkStatus();
  const GradModeGuard recorded(true);
  if (!target.is_view()) {
    target.SetHistory(call.node, write.tangent);
    return absl::OkStatus();
  }
  auto copy = std::make_shared<autograd::CopyNode>();
  copy->AddEdge({});
  copy->AddEdge({call.node, write.tangent});
  return target.RebaseHistory(std::move(copy));
}

// What the function detached.
absl::Status DetachInput(Variable target) {
  return target.is_leaf() ? target.RequiresGrad(false) : target.DetachInPlace();
}

absl::Status SetNewStorage(const CallPlan& plan, Call& call, size_t index) {
  const CallPlan::NewStorage& set = plan.new_storages[index];
  const GradModeGuard no_grad(false);
  Variable target = InputAt(call, set.input);
  if (set.owner == NewStorage::Owner::kInput) {
    return target.SetStorage(Variable(call.shown_storages[index]));
  }
  const bool is_new = set.owner == NewStorage::Owner::kProgram;
  const Tensor& content = is_new ? ResultAt(call, set.result) : InputAt(call, set.owner_input).tensor();
  if (is_new && set.covers_owner) return target.SetStorage(Variable(content));
  COTAN_ASSIGN_OR_RETURN(StridedLayout layout, EvaluateLayout(set.geometry, call.symbols()));
  COTAN_ASSIGN_OR_RETURN(Tensor shown, Tensor::InStorage(content.storage(), set.geometry.dtype, std::move(layout)));
  return target.SetStorage(Variable(std::move(shown)));
}

}  // namespace

// First what was written where it was, then what was moved, then what was written
// where it is now.
absl::Status WriteBack(FunctionCore& core, Call& call) {
  const CallPlan& plan = core.plan();
  for (int input : plan.detached_inputs) {  // no leaf may be moved before
    if (InputAt(call, input).is_leaf()) COTAN_RETURN_IF_ERROR(DetachInput(InputAt(call, input)));
  }
  for (const CallPlan::WriteBack& write : plan.write_backs) {
    if (!write.copies) COTAN_RETURN_IF_ERROR(WriteContent(core, call, write));
  }
  COTAN_RETURN_IF_ERROR(ChangeGeometries(core, call));
  for (const CallPlan::WriteBack& write : plan.write_backs) {
    if (write.copies) COTAN_RETURN_IF_ERROR(WriteContent(core, call, write));
  }
  core.stats().copies_elided += call.executable->plan().stats.inputs_in_place;
  for (size_t i = 0; i < plan.new_storages.size(); ++i) {
    COTAN_RETURN_IF_ERROR(SetNewStorage(plan, call, i));
    const CallPlan::NewStorage& set = plan.new_storages[i];
    if (set.gradient < 0 || !call.is_recorded) continue;
    COTAN_ASSIGN_OR_RETURN(autograd::Edge edge, InputAt(call, set.input).GradientEdge());
    call.node->SetEdge(set.gradient, std::move(edge));
  }
  for (int argument : plan.bumped_arguments) {
    Variable target = ArgumentAt(call, argument);
    target.BumpVersion();
  }
  for (int input : plan.detached_inputs) COTAN_RETURN_IF_ERROR(DetachInput(InputAt(call, input)));
  return absl::OkStatus();
}

// --- save --------------------------------------------------------------------

namespace {

// The argument as the program read it: the function may have moved it since.
Variable AsOfForward(const Call& call, int argument, const Tensor& read) {
  const Variable& variable = ArgumentAt(call, argument);
  const Tensor& now = variable.tensor();
  return now.storage() == read.storage() && now.layout() == read.layout() ? variable : variable.DetachAs(read);
}

}  // namespace

absl::Status SaveForBackward(FunctionCore& core, Call& call) {
  if (!call.is_recorded) return absl::OkStatus();
  const CallPlan& plan = core.plan();
  for (int i = 0; i < plan.num_saved; ++i) {
    const int result = plan.first_saved + i;
    const bool is_checked = i < plan.num_checked;
    const ResultBuffer& place = call.executable->plan().places[static_cast<size_t>(result)];
    switch (place.kind) {
      case ResultBuffer::Kind::kInput: {
        const int argument = plan.method_arguments[static_cast<size_t>(place.index)];
        if (ResultAt(call, result).storage() != ArgumentAt(call, argument).tensor().storage()) {  // see KeepSaved()
          call.node->SaveOwn(std::move(ResultAt(call, result)));
          break;
        }
        call.node->SaveShared(AsOfForward(call, argument, ResultAt(call, result)), is_checked, /*is_argument=*/true);
        ++core.stats().saved_without_copy;
        break;
      }
      case ResultBuffer::Kind::kResult: {
        const auto shown = std::find_if(plan.returned.begin(), plan.returned.end(),
                                        [&](const CallPlan::Returned& r) { return r.result == place.index; });
        const Variable* variable =
            shown == plan.returned.end() ? nullptr : &call.returned[static_cast<size_t>(shown - plan.returned.begin())];
        if (variable == nullptr || !variable->defined()) {  // nobody else's
          call.node->SaveOwn(ResultAt(call, result));
          break;
        }
        call.node->SaveShared(*variable, is_checked, /*is_argument=*/false);
        ++core.stats().saved_without_copy;
        break;
      }
      default:
        call.node->SaveOwn(std::move(ResultAt(call, result)));
    }
  }
  call.node->SealStates();
  return absl::OkStatus();
}

// --- results -----------------------------------------------------------------

namespace {

absl::StatusOr<FunctionResult> ScalarResult(const CallPlan::Output& output, const Call& call) {
  if (const auto* size = std::get_if<SymInt>(&output.scalar)) {
    COTAN_ASSIGN_OR_RETURN(const int64_t value, size->Evaluate(call.symbols()));
    return FunctionResult(value);
  }
  if (const auto* value = std::get_if<bool>(&output.scalar)) return FunctionResult(*value);
  if (const auto* value = std::get_if<int64_t>(&output.scalar)) return FunctionResult(*value);
  if (const auto* value = std::get_if<double>(&output.scalar)) return FunctionResult(*value);
  if (const auto* value = std::get_if<std::string>(&output.scalar)) return FunctionResult(*value);
  return FunctionResult(NoneValue());
}

absl::StatusOr<Variable> ApplyView(const CallPlan::Output& output, const Call& call, const Variable& base) {
  if (!output.geometry.has_value()) return base.View(output.steps, call.symbols());
  COTAN_ASSIGN_OR_RETURN(const StridedLayout layout, EvaluateLayout(*output.geometry, call.symbols()));
  return base.AsStrided(layout);
}

// The views that led to the output, seen from the tensor that it is a view of.
absl::StatusOr<Variable> Replay(const CallPlan::Output& output, const Call& call, const Variable& base) {
  // The function may have switched gradients on for itself.
  const bool enabled = GradMode::enabled() || (call.in_traced_mode && output.requires_grad);
  const GradModeGuard mode(enabled && !output.under_no_grad);
  // What is cut off is not asked for a history, which it may not have any more.
  const bool is_cut = base.requires_grad() && !output.requires_grad;
  COTAN_ASSIGN_OR_RETURN(Variable view, ApplyView(output, call, is_cut ? base.Detach() : base));
  if (view.is_view() && output.not_a_view) view = view.Detach();
  if (!view.requires_grad() && output.requires_grad && call.in_traced_mode) {
    COTAN_RETURN_IF_ERROR(view.RequiresGrad(true));
  }
  return view;
}

// In the memory of an argument, but not to autograd a view of it.
absl::StatusOr<Variable> InArgument(const CallPlan::Output& output, const Call& call, const Variable& argument) {
  Variable made;
  {
    const GradModeGuard no_grad(false);
    COTAN_ASSIGN_OR_RETURN(made, ApplyView(output, call, argument));
  }
  std::shared_ptr<autograd::Node> node = call.is_recorded && output.tangent >= 0 ? call.node : nullptr;
  if (!output.creation.has_value()) {
    made = argument.DetachAs(made.tensor());
    if (node != nullptr) made.SetHistory(std::move(node), output.tangent);
    return made;
  }
  Variable base = argument.DetachAs(made.tensor());
  if (node != nullptr) base.SetHistory(node, output.tangent);
  made = base.ViewAs(made.tensor(), CreationNow(*output.creation));
  if (node != nullptr) made.SetHistory(std::move(node), output.tangent);
  return made;
}

absl::StatusOr<FunctionResult> MakeOutput(const CallPlan::Output& output, const Call& call) {
  using Kind = CallPlan::Output::Kind;
  const auto at = static_cast<size_t>(output.index);
  switch (output.kind) {
    case Kind::kScalar:
      return ScalarResult(output, call);
    case Kind::kReturned:
      return FunctionResult(call.returned[at]);
    case Kind::kIsInput:
      return FunctionResult(*call.inputs[at]);
    case Kind::kSameOutput:
      return FunctionResult((*call.outputs)[at]);
    case Kind::kViewOfInput: {
      const Variable& input =
          output.before < 0 ? *call.inputs[at] : call.metadata_mutated_inputs[static_cast<size_t>(output.before)];
      COTAN_ASSIGN_OR_RETURN(Variable view, Replay(output, call, input));
      return FunctionResult(std::move(view));
    }
    case Kind::kSharesInputStorage: {
      COTAN_ASSIGN_OR_RETURN(Variable made, InArgument(output, call, *call.inputs[at]));
      return FunctionResult(std::move(made));
    }
    case Kind::kViewOfBase: {
      COTAN_ASSIGN_OR_RETURN(Variable view, Replay(output, call, call.returned[at]));
      return FunctionResult(std::move(view));
    }
    case Kind::kViewOfOutput: {
      COTAN_ASSIGN_OR_RETURN(Variable view, Replay(output, call, std::get<Variable>((*call.outputs)[at])));
      return FunctionResult(std::move(view));
    }
  }
  return absl::InternalError("an output of no kind");
}

}  // namespace

absl::Status MakeOutputs(FunctionCore& core, Call& call) {
  for (const CallPlan::Output& output : core.plan().outputs) {
    COTAN_ASSIGN_OR_RETURN((*call.outputs)[static_cast<size_t>(output.output)], MakeOutput(output, call));
  }
  return absl::OkStatus();
}

// --- rewrap ------------------------------------------------------------------

absl::Status RewrapOutputs(FunctionCore& core, Call& call) {
  const CallPlan& plan = core.plan();
  size_t next = 0;
  std::vector<Variable> parts;
  for (size_t i = 0; i < plan.wrapped_outputs.size(); ++i) {
    const FlatMeta& meta = plan.wrapped_outputs[i];
    WrappedResult& result = (*call.wrapped_outputs)[i];
    if (WrapperTypeName(meta).empty()) {
      result = PlainResult(std::move((*call.outputs)[next++]));
      continue;
    }
    parts.clear();
    for (int k = 0; k < FlatCount(meta); ++k) parts.push_back(std::get<Variable>((*call.outputs)[next++]));
    result = RewrapAs(meta, parts, call.symbols());
  }
  return absl::OkStatus();
}

// --- grad mode ---------------------------------------------------------------

absl::Status SetGradMode(FunctionCore& core, Call&) {
  GradMode::set_enabled(*core.plan().grad_mode_after);
  return absl::OkStatus();
}

}  // namespace cotan
