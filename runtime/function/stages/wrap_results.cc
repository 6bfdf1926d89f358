// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/stages/wrap_results.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/layout.h"
#include "base/status_macros.h"
#include "runtime/autograd/grad_mode.h"
#include "runtime/autograd/node.h"
#include "runtime/autograd/view_node.h"
#include "runtime/function/core/compiled_backward.h"

namespace cotan {
namespace {

// Adds an input to the node for a tangent without a new variable.
void AddTangent(CallContext& call, const ReturnedValue& returned) {
  autograd::GradientType type;
  if (returned.result < 0) {
    type = autograd::GradientType::Of(call.argument(returned.argument).tensor());
  } else {
    const TensorSpec& spec = call.executable->plan().outputs[static_cast<size_t>(returned.result)];
    type = {spec.dtype, spec.layout.sizes, call.core.session().target().device};
  }
  call.node->AddInput(std::move(type));
}

}  // namespace

std::unique_ptr<WrapResultsStage> WrapResultsStage::Create(const FunctionMetadata& function) {
  return function.returned.values.empty() ? nullptr : std::make_unique<WrapResultsStage>(function);
}

WrapResultsStage::WrapResultsStage(const FunctionMetadata& function)
    : returned_(function.returned), storages_(returned_.values.size()), hidden_bases_(returned_.hidden_bases.size()) {}

absl::Status WrapResultsStage::Run(CallContext& call) {
  const absl::Status status = Wrap(call);
  for (Variable& variable : storages_) variable = Variable();
  for (Variable& base : hidden_bases_) base = Variable();
  return status;
}

std::string WrapResultsStage::ToString() const { return absl::StrCat(returned_.values.size(), " tensors"); }

absl::Status WrapResultsStage::Wrap(CallContext& call) {
  for (size_t i = 0; i < returned_.values.size(); ++i) {
    const ReturnedValue& value = returned_.values[i];
    if (value.kind != ReturnedValue::Kind::kVariable || value.view.has_value()) continue;
    COTAN_ASSIGN_OR_RETURN(Tensor tensor, TensorOf(call, value));
    call.returned[i] = InStorageOf(static_cast<int>(i), std::move(tensor));
  }
  for (size_t i = 0; i < returned_.values.size(); ++i) {
    if (returned_.values[i].view.has_value()) COTAN_RETURN_IF_ERROR(WrapView(call, i));
  }
  COTAN_RETURN_IF_ERROR(SetGradFns(call));
  return SetHiddenGradFns(call);
}

absl::Status WrapResultsStage::WrapView(CallContext& call, size_t index) {
  const ReturnedValue& value = returned_.values[index];
  const bool is_hidden = value.view->returned < 0;
  Variable& base = is_hidden ? hidden_bases_[static_cast<size_t>(value.view->hidden)]
                             : call.returned[static_cast<size_t>(value.view->returned)];
  if (!base.defined()) {
    COTAN_ASSIGN_OR_RETURN(base, MakeHiddenBase(call, value.view->hidden));
  }
  COTAN_ASSIGN_OR_RETURN(Tensor tensor, TensorOf(call, value));
  call.returned[index] = base.ViewAs(std::move(tensor), ViewCreationNow(value.view->creation));
  return absl::OkStatus();
}

absl::Status WrapResultsStage::SetGradFns(CallContext& call) {
  for (size_t i = 0; i < returned_.values.size(); ++i) {
    const ReturnedValue& value = returned_.values[i];
    const bool has_tangent = call.is_recorded && value.tangent >= 0;
    Variable& variable = call.returned[i];
    const bool becomes_leaf = variable.defined() && value.is_leaf_that_requires_grad && call.in_traced_mode;
    if (has_tangent && (!variable.defined() || becomes_leaf)) AddTangent(call, value);
    if (becomes_leaf) {
      COTAN_RETURN_IF_ERROR(variable.RequiresGrad(true));
    } else if (has_tangent && variable.defined()) {
      variable.SetHistory(call.node);
    }
  }
  return absl::OkStatus();
}

// Gives an unreturned base a grad_fn that leads to that of its view, so that writing the view rebases the base and
// gradients of unwritten elements still flow.
absl::Status WrapResultsStage::SetHiddenGradFns(const CallContext& call) {
  for (size_t h = 0; h < hidden_bases_.size(); ++h) {
    Variable& base = hidden_bases_[h];
    const int index = returned_.hidden_bases[h].view;
    if (call.is_recorded && index >= 0) {
      const Variable& view = call.returned[static_cast<size_t>(index)];
      std::shared_ptr<autograd::Node> node = autograd::MakeStridedViewNode(
          "HiddenBaseBackward", {view.dtype(), view.layout()}, {base.dtype(), base.layout()});
      COTAN_ASSIGN_OR_RETURN(autograd::Edge edge, view.GradientEdge());
      node->AddEdge(std::move(edge));
      base.SetHistory(std::move(node));
    } else if (returned_.hidden_bases[h].requires_grad && call.in_traced_mode) {
      COTAN_RETURN_IF_ERROR(base.RequiresGrad(true));
    }
  }
  return absl::OkStatus();
}

// Returns the result, or the view with conj/neg bits of the storage's owner.
absl::StatusOr<Tensor> WrapResultsStage::TensorOf(CallContext& call, const ReturnedValue& value) const {
  if (!value.reading.has_value()) return call.result(value.result);
  const Tensor& owner = call.result(returned_.at(value.owner).result);
  COTAN_ASSIGN_OR_RETURN(StridedLayout layout, EvaluateLayout(value.geometry, call.symbols()));
  COTAN_ASSIGN_OR_RETURN(Tensor tensor, Tensor::InStorage(owner.storage(), owner.dtype(), std::move(layout)));
  return tensor.WithConjNegBits(*value.reading);
}

// Returns a variable over an unreturned base.
absl::StatusOr<Variable> WrapResultsStage::MakeHiddenBase(CallContext& call, int hidden) {
  const HiddenBase& base = returned_.hidden_bases[static_cast<size_t>(hidden)];
  const Tensor& seen = call.result(returned_.at(base.returned).result);
  COTAN_ASSIGN_OR_RETURN(StridedLayout layout, EvaluateLayout(base.geometry, call.symbols()));
  COTAN_ASSIGN_OR_RETURN(Tensor tensor, Tensor::InStorage(seen.storage(), base.geometry.dtype, std::move(layout)));
  return InStorageOf(base.returned, std::move(tensor));
}

// Returns a variable without grad_fn over `tensor`, which is in the storage of returned value `index`. Variables in one
// storage share a version counter.
Variable WrapResultsStage::InStorageOf(int index, Tensor tensor) {
  const int owner = returned_.at(index).owner < 0 ? index : returned_.at(index).owner;
  if (!returned_.at(owner).is_shared) return Variable(std::move(tensor));
  Variable& storage = storages_[static_cast<size_t>(owner)];
  if (!storage.defined()) storage = Variable(tensor);
  return storage.DetachAs(std::move(tensor));
}

ViewCreation ViewCreationNow(ViewCreation traced) {
  return GradMode::enabled() || traced == ViewCreation::kMultiOutput ? traced : ViewCreation::kNoGrad;
}

}  // namespace cotan
