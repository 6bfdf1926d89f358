// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/stages/input_mutations.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "runtime/autograd/copy_node.h"
#include "runtime/autograd/grad_mode.h"
#include "runtime/autograd/tensor_ops.h"
#include "runtime/function/core/compiled_backward.h"
#include "runtime/function/stages/outputs.h"
#include "runtime/function/stages/record.h"

namespace cotan {
namespace {

// --- data --------------------------------------------------------------------

// Notes that hooks of `written`, an argument or a part of it that the program has written, get the gradient `tangent`.
absl::Status NoteWritten(CallContext& call, const Variable& written, int tangent) {
  COTAN_ASSIGN_OR_RETURN(const std::shared_ptr<autograd::Node> grad_fn, written.grad_fn());
  if (grad_fn == nullptr) return absl::OkStatus();
  if (written.is_view()) grad_fn->SetWriterEdge(0);  // to that of the base, which has the new history
  call.node->AddWritten(tangent, *grad_fn);
  return absl::OkStatus();
}

// Makes the new value of the argument a result of the call. `before`: the edge of the old value, whose gradient is
// zero.
absl::Status RebaseOnCall(CallContext& call, const DataMutation& write, Variable target, autograd::Edge before) {
  auto copy = std::make_shared<autograd::CopyNode>();
  copy->AddEdge(std::move(before));
  copy->AddEdge({call.node, write.tangent});
  copy->SetWriterEdge(1);
  COTAN_RETURN_IF_ERROR(target.RebaseHistory(std::move(copy)));
  for (const int input : write.written_views) COTAN_RETURN_IF_ERROR(call.input(input).grad_fn().status());
  if (!call.node->HasDependentInputs()) return absl::OkStatus();
  COTAN_RETURN_IF_ERROR(NoteWritten(call, target, write.tangent));
  if (target.is_view()) COTAN_RETURN_IF_ERROR(NoteWritten(call, target.base(), write.tangent));
  for (const int input : write.written_views) {
    COTAN_RETURN_IF_ERROR(NoteWritten(call, call.input(input), write.tangent));
  }
  return absl::OkStatus();
}

// The program has written the new data to the argument: bumps the version and, if tracked, rebases the grad_fn
// (rebase_history() in torch/csrc/autograd/variable.cpp).
absl::Status RebaseAfterInPlaceWrite(CallContext& call, const DataMutation& write) {
  Variable target = call.argument(write.argument);
  if (!call.IsTracked(write)) {
    if (write.bumps_version) target.BumpVersion();
    return absl::OkStatus();
  }
  const GradModeGuard recorded(true);
  autograd::Edge before;
  if (write.has_gradient) {
    COTAN_ASSIGN_OR_RETURN(before, target.GradientEdge());
  }
  target.BumpVersion();
  return RebaseOnCall(call, write, std::move(target), std::move(before));
}

// Clones saved values that share the memory of the argument, which is about to be written.
absl::Status KeepSaved(CallContext& call, int argument) {
  const FunctionMetadata& function = call.function;
  for (int r = function.first_saved; call.is_recorded && r < function.first_saved + function.num_saved; ++r) {
    const ResultBuffer& place = call.executable->plan().places[static_cast<size_t>(r)];
    if (place.kind != ResultBuffer::Kind::kInput) continue;
    if (function.method_arguments[static_cast<size_t>(place.index)] != argument) continue;
    COTAN_ASSIGN_OR_RETURN(call.result(r), call.core.session().ops().Clone(call.result(r)));
  }
  return absl::OkStatus();
}

absl::Status WriteContent(CallContext& call, const DataMutation& write) {
  ++call.core.stats().write_backs;
  if (!write.copies) return RebaseAfterInPlaceWrite(call, write);
  COTAN_RETURN_IF_ERROR(KeepSaved(call, write.argument));
  // The metadata has been mutated, so that the program could not write the data in place.
  const GradModeGuard no_grad(false);
  const Variable source(call.result(write.result));
  Variable target =
      write.bumps_version ? call.argument(write.argument) : Variable(call.argument(write.argument).tensor());
  COTAN_RETURN_IF_ERROR(target.CopyInPlace(source, call.core.session().ops()));
  if (!call.IsTracked(write)) return absl::OkStatus();
  const GradModeGuard recorded(true);
  if (!target.is_view()) {
    target.SetHistory(call.node, write.tangent);
    return absl::OkStatus();
  }
  return RebaseOnCall(call, write, std::move(target), /*before=*/{});
}

// --- requires_grad, metadata, storage ----------------------------------------

// Applies detach_() or requires_grad_(false).
absl::Status DetachInput(Variable target) {
  return target.is_leaf() ? target.RequiresGrad(false) : target.DetachInPlace();
}

// Moves the argument to `grown`, a larger storage, as resize_() does: copies the old bytes.
absl::Status MoveTo(Variable target, const Tensor& grown) {
  const Storage& from = *target.tensor().storage();
  if (from.bytes() != 0) {
    void* const to = grown.storage()->data();
    const bool same_device = &from.device() == &grown.device();
    COTAN_RETURN_IF_ERROR(same_device ? grown.device().Copy(to, from.data(), from.bytes())
                                      : grown.device().CopyFromHost(to, from.data(), from.bytes()));
  }
  return target.SetStorage(Variable(grown));
}

absl::Status SetNewStorage(CallContext& call, const StorageMutation& set, const Tensor& shown_storage) {
  const GradModeGuard no_grad(false);
  Variable target = call.input(set.input);
  if (set.owner == NewStorage::Owner::kInput) {
    return target.SetStorage(Variable(shown_storage));
  }
  const bool is_new = set.owner == NewStorage::Owner::kProgram;
  const Tensor& content = is_new ? call.result(set.result) : call.input(set.owner_input).tensor();
  if (is_new && set.covers_owner) return target.SetStorage(Variable(content));
  COTAN_ASSIGN_OR_RETURN(StridedLayout layout, EvaluateLayout(set.geometry, call.symbols()));
  COTAN_ASSIGN_OR_RETURN(Tensor shown, Tensor::InStorage(content.storage(), set.geometry.dtype, std::move(layout)));
  return target.SetStorage(Variable(std::move(shown)));
}

}  // namespace

std::unique_ptr<InputMutationsStage> InputMutationsStage::Create(const FunctionMetadata& function) {
  std::vector<int> bumped_arguments;
  for (int k : function.program_metadata.derived().mutated_graph_handled_indices_seen_by_autograd) {
    if (!function.IsState(k)) bumped_arguments.push_back(k);
  }
  std::vector<int> detached_inputs;
  for (size_t i = 0; i < function.inputs.size(); ++i) {
    if (function.inputs[i].is_detached()) detached_inputs.push_back(static_cast<int>(i));
  }
  const Mutations& mutations = function.mutations;
  if (mutations.data.empty() && mutations.metadata.empty() && mutations.storage.empty() && bumped_arguments.empty() &&
      detached_inputs.empty()) {
    return nullptr;
  }
  return std::make_unique<InputMutationsStage>(function, std::move(bumped_arguments), std::move(detached_inputs),
                                               HaveViewsWithOldMetadata(function));
}

InputMutationsStage::InputMutationsStage(const FunctionMetadata& function, std::vector<int> bumped_arguments,
                                         std::vector<int> detached_inputs, std::vector<bool> keeps_view)
    : function_(function),
      mutations_(function.mutations),
      bumped_arguments_(std::move(bumped_arguments)),
      detached_inputs_(std::move(detached_inputs)),
      keeps_view_(std::move(keeps_view)) {}

absl::Status InputMutationsStage::Run(CallContext& call) {
  for (int input : detached_inputs_) {  // a leaf must not require grad when its metadata is mutated
    if (call.input(input).is_leaf()) COTAN_RETURN_IF_ERROR(DetachInput(call.input(input)));
  }
  for (const DataMutation& write : mutations_.data) {
    if (!write.copies) COTAN_RETURN_IF_ERROR(WriteContent(call, write));
  }
  for (size_t i = 0; i < mutations_.metadata.size(); ++i) COTAN_RETURN_IF_ERROR(ChangeMetadata(call, i));
  for (const DataMutation& write : mutations_.data) {
    if (write.copies) COTAN_RETURN_IF_ERROR(WriteContent(call, write));
  }
  call.core.stats().copies_elided += call.executable->plan().stats.inputs_in_place;
  COTAN_RETURN_IF_ERROR(ChangeStorages(call));
  for (int argument : bumped_arguments_) {
    Variable target = call.argument(argument);
    target.BumpVersion();
  }
  for (int input : detached_inputs_) COTAN_RETURN_IF_ERROR(DetachInput(call.input(input)));
  return absl::OkStatus();
}

absl::Status InputMutationsStage::ChangeMetadata(CallContext& call, size_t index) const {
  const MetadataMutation& change = mutations_.metadata[index];
  Variable target = call.input(change.input);
  if (keeps_view_[index]) {
    // The traced function may have taken the view with gradients enabled.
    const GradModeGuard mode(GradMode::enabled() || call.in_traced_mode);
    COTAN_ASSIGN_OR_RETURN(call.metadata_mutated_inputs[index], target.View({}));
  }
  if (change.gradient_sizes.has_value() && call.in_traced_mode) {
    COTAN_ASSIGN_OR_RETURN(call.mutated_leaf_edges.emplace_back(), GradientEdgeOf(call, target, change.gradient_sizes));
  }
  const GradModeGuard mode(call.IsTracked(change));
  if (call.grown_inputs[index].defined()) return MoveTo(std::move(target), call.grown_inputs[index]);
  // Regenerates a stale view's grad_fn before its metadata changes, as the traced function did.
  COTAN_RETURN_IF_ERROR(target.grad_fn().status());
  return target.AsStridedInPlace(call.new_layouts[index]);
}

absl::Status InputMutationsStage::ChangeStorages(CallContext& call) const {
  for (size_t i = 0; i < mutations_.storage.size(); ++i) {
    const StorageMutation& set = mutations_.storage[i];
    COTAN_RETURN_IF_ERROR(SetNewStorage(call, set, call.shown_storages[i]));
    if (set.gradient < 0 || !call.is_recorded) continue;
    COTAN_ASSIGN_OR_RETURN(autograd::Edge edge, call.input(set.input).GradientEdge());
    call.node->SetEdge(set.gradient, std::move(edge));
  }
  return absl::OkStatus();
}

std::string InputMutationsStage::ToString() const {
  std::vector<std::string> parts;
  for (const MetadataMutation& change : mutations_.metadata) {
    parts.push_back(absl::StrCat(function_.input(change.input).name, " becomes ", change.geometry.ToString()));
  }
  for (const DataMutation& write : mutations_.data) parts.push_back(write.ToString(function_));
  for (const StorageMutation& set : mutations_.storage) {
    parts.push_back(absl::StrCat("storage of ", function_.input(set.input).name));
    if (set.owner_input >= 0) absl::StrAppend(&parts.back(), ", that of ", function_.input(set.owner_input).name);
  }
  for (int argument : bumped_arguments_) {
    parts.push_back(absl::StrCat("version of ", function_.ArgumentName(argument)));
  }
  if (!detached_inputs_.empty()) parts.push_back(absl::StrCat("detached ", function_.InputNames(detached_inputs_)));
  return absl::StrJoin(parts, ", ");
}

}  // namespace cotan
