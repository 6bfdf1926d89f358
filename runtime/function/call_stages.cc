// SPDX-License-Identifier: Apache-2.0

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

// Returns whether autograd tracks the write. Writes to leaves that require grad are untracked: a tracked one would have
// been rejected while tracing.
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
    return Refuse(plan, "has arguments or results of wrapper types: use CallWrapped()");
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

// Views made under no_grad when traced have no gradient in the backward.
absl::Status CheckWithoutGradient(const CallPlan& plan, const Call& call) {
  for (int input : plan.no_grad_view_inputs) {
    const absl::StatusOr<autograd::Edge> edge = InputAt(call, input).GradientEdge();
    if (!edge.ok() || !edge->defined()) continue;
    return Refuse(plan, "argument '", InputOf(plan, input).name,
                  "' was a view made under no_grad when the program was traced, so that no gradient flows through it; "
                  "the one given has a gradient");
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
                  "', whose metadata or storage is mutated; they were different tensors when the program was traced");
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

// Returns the storage that a result has at the end of the call.
const std::shared_ptr<Storage>& StorageOf(Call& call, int result) {
  for (const auto& [overlapping, place] : call.overlapping_results) {
    if (overlapping == result) return place.storage();
  }
  return ResultAt(call, result).storage();
}

// Allocates a result that is not dense or that shares its storage with other results. The storage of the owner must
// have been allocated.
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
  if (!places.is_overlapping[r]) return call.executable->SetStridedOutput(result, call.results[r]);
  call.overlapping_results.emplace_back(result, std::exchange(call.results[r], Tensor()));
  return call.executable->SetOutput(result, call.results[r]);
}

// Copies `from` to `to`, whose elements overlap. Elements that share a location have equal values: expanded dimensions
// are copied once, other overlapping ones index by index.
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

// Copies results with overlapping elements to their final storage.
absl::Status CopyOverlappingResults(FunctionCore& core, Call& call) {
  for (auto& [result, place] : call.overlapping_results) {
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
  // All owners have a storage now.
  for (const CallPlan::StridedOutputSpec& placement : plan.placements) {
    if (placement.owner == placement.result) continue;
    COTAN_RETURN_IF_ERROR(PlaceResult(core, call, *places, placement.result));
  }
  return absl::OkStatus();
}

// Returns whether autograd tracks the metadata mutation. Gradients may be disabled now and enabled by the traced
// function.
bool IsRecorded(const Call& call, const CallPlan::NewGeometry& change) {
  return (GradMode::enabled() || call.in_traced_mode) && !change.under_no_grad;
}

size_t BytesOf(const Tensor& tensor, const StridedLayout& layout) {
  return static_cast<size_t>(StorageExtent(layout)) * ByteSize(tensor.dtype());
}

// Returns whether the tensor needs a larger storage for `layout` (resize_()).
bool Grows(const Tensor& tensor, const StridedLayout& layout) {
  return BytesOf(tensor, layout) > tensor.storage()->bytes();
}

// Returns whether each element of `part` is an element of `whole`.
bool IsPartOf(const StridedLayout& whole, const StridedLayout& part) {
  if (!IsDenseNonOverlapping(whole)) return Covers(whole, part);
  return NumElements(part.sizes) == 0 || (part.offset >= whole.offset && StorageExtent(part) <= StorageExtent(whole));
}

// set_() to the storage of another argument, `owner`. Returns the input's new tensor in that storage. InvalidArgument:
// `owner` has another layout than when traced, except for the storage offset.
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
    return Refuse(plan, "argument '", InputOf(plan, set.owner_input).name, "', to whose storage argument '",
                  InputOf(plan, set.input).name, "' is set (set_()), was ", set.owner_geometry_at_entry.ToString(),
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

// Checks that the storage has the elements of the new geometry and, if data is written there, that the write overlaps
// no other input or state.
absl::Status CheckNewGeometry(FunctionCore& core, const Call& call, const CallPlan::NewGeometry& change,
                              const StridedLayout& layout) {
  const Variable& target = InputAt(call, change.input);
  const Tensor& before = target.tensor();
  const bool grows = Grows(before, layout);
  if (!grows && !change.is_written) return absl::OkStatus();
  const bool has_more = NumElements(layout.sizes) > before.num_elements();  // resize_() in a storage with room
  if (!grows && !has_more && !IsPartOf(before.layout(), layout)) {
    return Refuse(core.plan(), "argument '", InputOf(core.plan(), change.input).name, "' is written with the layout ",
                  ToString(layout), " in its storage, some elements of which the one given, with the layout ",
                  ToString(before.layout()),
                  ", does not have: pass it with the layout that it had when the program was traced");
  }
  if (change.method_input < 0) return absl::OkStatus();
  return core.forward(call.is_recorded)
      .CheckWrite(change.method_input, {before.storage().get(), &layout, before.dtype()}, call.tensors, 0);
}

// Checks that input `last` does not overlap earlier ones in the new geometry where both are written: the order of
// writes is not that of the traced function.
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
                  "' are written and share memory in their new geometry; they did not when the program was traced");
  }
  return absl::OkStatus();
}

// Computes and checks the new layouts of metadata-mutated inputs before anything is written.
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
    const bool is_detached = std::count(plan.detached_inputs.begin(), plan.detached_inputs.end(), change.input) != 0;
    if (!is_detached && !target.is_view()) {
      const GradModeGuard mode(IsRecorded(call, change));
      COTAN_RETURN_IF_ERROR(target.CheckInPlace(target.requires_grad()));
    }
    call.new_layouts[i] = std::move(layout);
    COTAN_RETURN_IF_ERROR(CheckNewGeometriesApart(plan, call, i));
  }
  return absl::OkStatus();
}

// Sets the results that share the memory of an input or another result.
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
  COTAN_RETURN_IF_ERROR(CopyOverlappingResults(core, call));
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

// Applies a metadata mutation to the argument.
absl::Status ChangeGeometry(Call& call, const CallPlan::NewGeometry& change, const StridedLayout& layout) {
  Variable target = InputAt(call, change.input);
  const Tensor before = target.tensor();
  const GradModeGuard mode(IsRecorded(call, change));
  if (!Grows(before, layout)) {
    // Regenerates a stale view's grad_fn before its metadata changes, as the traced function did.
    COTAN_RETURN_IF_ERROR(target.grad_fn().status());
    return target.AsStridedInPlace(layout);
  }
  // resize_() to a larger storage: copies the old bytes.
  COTAN_ASSIGN_OR_RETURN(std::shared_ptr<Storage> larger, Storage::Allocate(before.device(), BytesOf(before, layout)));
  if (before.storage()->bytes() != 0) {
    COTAN_RETURN_IF_ERROR(before.device().Copy(larger->data(), before.storage()->data(), before.storage()->bytes()));
  }
  COTAN_ASSIGN_OR_RETURN(Tensor grown, Tensor::InStorage(std::move(larger), before.dtype(), layout));
  return target.SetStorage(Variable(std::move(grown)));
}

// Returns the gradient edge of `argument`. `gradient_sizes`: of the gradient of a leaf, if not those of the leaf.
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
      // The traced function may have taken the view with gradients enabled.
      const GradModeGuard mode(GradMode::enabled() || call.in_traced_mode);
      COTAN_ASSIGN_OR_RETURN(call.metadata_mutated_inputs[i], InputAt(call, changes[i].input).View({}));
    }
    if (changes[i].gradient_sizes.has_value() && call.in_traced_mode) {
      COTAN_ASSIGN_OR_RETURN(call.mutated_leaf_edges.emplace_back(),
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

// Returns a variable without grad_fn over `tensor`, which is in the storage of returned value `index`. Variables in one
// storage share a version counter.
Variable InStorageOf(Call& call, const CallPlan& plan, int index, Tensor tensor) {
  const CallPlan::Returned& returned = plan.returned[static_cast<size_t>(index)];
  const auto owner = static_cast<size_t>(returned.owner < 0 ? index : returned.owner);
  if (!plan.returned[owner].is_shared) return Variable(std::move(tensor));
  Variable& storage = call.storages[owner];
  if (!storage.defined()) storage = Variable(tensor);
  return storage.DetachAs(std::move(tensor));
}

// Returns a variable over an unreturned base.
absl::StatusOr<Variable> HiddenBaseOf(Call& call, const CallPlan& plan, int hidden) {
  const CallPlan::HiddenBase& base = plan.hidden_bases[static_cast<size_t>(hidden)];
  const Tensor& seen = ResultAt(call, plan.returned[static_cast<size_t>(base.returned)].result);
  COTAN_ASSIGN_OR_RETURN(StridedLayout layout, EvaluateLayout(base.geometry, call.symbols()));
  COTAN_ASSIGN_OR_RETURN(Tensor tensor, Tensor::InStorage(seen.storage(), base.geometry.dtype, std::move(layout)));
  return InStorageOf(call, plan, base.returned, std::move(tensor));
}

// Returns the creation of a view made in the current grad mode.
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

// Gives an unreturned base a grad_fn that leads to that of its view, so that writing the view rebases the base and
// gradients of unwritten elements still flow.
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

// Adds an input to the node for a tangent without a new variable.
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

// The program has written the new data to the argument: bumps the version and, if tracked, rebases the grad_fn
// (rebase_history() in torch/csrc/autograd/variable.cpp).
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

// Clones saved values that share the memory of the argument, which is about to be written.
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
  // The metadata has been mutated, so that the program could not write the data in place.
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

// Applies detach_() or requires_grad_(false).
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

// Order: data-only writes, metadata mutations, data writes of metadata-mutated inputs, storage mutations.
absl::Status WriteBack(FunctionCore& core, Call& call) {
  const CallPlan& plan = core.plan();
  for (int input : plan.detached_inputs) {  // a leaf must not require grad when its metadata is mutated
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

// Returns the argument with the geometry that the program read; its metadata may have been mutated since.
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
        if (variable == nullptr || !variable->defined()) {  // used by no variable
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

// Replays the output's views on `base` (gen_alias_from_base() in functional_utils.py).
absl::StatusOr<Variable> Replay(const CallPlan::Output& output, const Call& call, const Variable& base) {
  // The traced function may have enabled gradients itself.
  const bool enabled = GradMode::enabled() || (call.in_traced_mode && output.requires_grad);
  const GradModeGuard mode(enabled && !output.under_no_grad);
  // A detached output must not evaluate the grad_fn of `base`, which may fail for a stale view.
  const bool is_detached = base.requires_grad() && !output.requires_grad;
  COTAN_ASSIGN_OR_RETURN(Variable view, ApplyView(output, call, is_detached ? base.Detach() : base));
  if (view.is_view() && output.not_a_view) view = view.Detach();
  if (!view.requires_grad() && output.requires_grad && call.in_traced_mode) {
    COTAN_RETURN_IF_ERROR(view.RequiresGrad(true));
  }
  return view;
}

// Returns an output in the storage of an argument that is not a differentiable view of it.
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
  return absl::InternalError("unknown output kind");
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
