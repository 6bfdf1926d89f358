// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/accumulate_grad.h"

#include <memory>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/overlap.h"
#include "base/status_macros.h"
#include "runtime/autograd/capture.h"
#include "runtime/autograd/recorded_ops.h"
#include "runtime/autograd/tensor_ops.h"
#include "runtime/autograd/variable_state.h"

namespace cotan::autograd {
namespace {

// Returns whether no other tensor shares the storage of `tensor`.
bool IsExclusive(const Tensor& tensor) { return tensor.storage().use_count() == 1; }

// Returns whether the strides of `tensor` are those of `layout`, ignoring dimensions of size 1.
bool HasStridesOf(const Tensor& tensor, const StridedLayout& layout) {
  if (tensor.sizes() != absl::MakeConstSpan(layout.sizes)) return false;
  for (size_t d = 0; d < layout.sizes.size(); ++d) {
    if (layout.sizes[d] != 1 && tensor.layout().strides[d] != layout.strides[d]) return false;
  }
  return true;
}

// Returns the layout of the first value of grad(): that of the leaf, row-major if the leaf is not dense.
StridedLayout LayoutOfGrad(const Tensor& leaf) {
  StridedLayout layout = leaf.layout();
  layout.offset = 0;
  if (!IsDenseNonOverlapping(layout)) layout.strides = ContiguousStrides(layout.sizes);
  return layout;
}

// Returns `gradient`, or a copy with the strides of `leaf`, as the first value of grad().
absl::StatusOr<Tensor> Own(TensorOps& ops, Tensor gradient, const Tensor& leaf) {
  StridedLayout layout = LayoutOfGrad(leaf);
  if (IsExclusive(gradient) && HasStridesOf(gradient, layout)) return gradient;
  COTAN_ASSIGN_OR_RETURN(Tensor copy, Tensor::EmptyStrided(gradient.dtype(), std::move(layout), gradient.device()));
  COTAN_RETURN_IF_ERROR(ops.Copy(gradient, copy));
  return copy;
}

// Adds `gradient` to grad(). It may need broadcasting if the leaf was given another storage. InvalidArgument: dtype or
// sizes differ, or elements of grad() share memory, each of which would get the sum of several.
absl::Status AddTo(TensorOps& ops, const Tensor& gradient, const Tensor& sum) {
  if (OverlapsItself(sum.layout())) {
    return absl::InvalidArgumentError(absl::StrCat("a gradient cannot be added to the leaf's grad, which is ",
                                                   sum.ToString(), ": its elements share memory. Set it to a Clone()"));
  }
  const absl::StatusOr<StridedLayout> layout = BroadcastTo(gradient.layout(), sum.sizes());
  if (gradient.dtype() != sum.dtype() || !layout.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("the gradient ", gradient.ToString(),
                                                   " cannot be added to the leaf's grad, which is ", sum.ToString()));
  }
  COTAN_ASSIGN_OR_RETURN(const Tensor seen, Tensor::InStorage(gradient.storage(), gradient.dtype(), *layout));
  return ops.AddTo(seen, sum);
}

}  // namespace

AccumulateGrad::AccumulateGrad(Variable leaf, absl::Span<const int64_t> sizes)
    : Node(kRunFirst, leaf.state()->leaf_hooks), leaf_(std::move(leaf)) {
  AddInput({leaf_.grad_dtype(), DimVector(sizes.begin(), sizes.end()), &leaf_.tensor().device()});
}

absl::Status AccumulateGrad::CheckIsLeaf() const {
  // Regenerates the grad_fn of a stale view.
  COTAN_ASSIGN_OR_RETURN(const std::shared_ptr<Node> history, leaf_.grad_fn());
  if (history == nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "a leaf variable has been moved into the graph interior: it was written in place after it was used");
}

absl::StatusOr<bool> AccumulateGrad::Describe(const BackwardContext& context, absl::Span<const bool> incoming,
                                              absl::Span<bool> results, CaptureRecord& record) {
  const VariableState& leaf = *leaf_.state();
  const GradientType& type = input(0);
  const Tensor& place = leaf.grad.defined() ? leaf.grad.tensor() : leaf.tensor;
  const bool fits = place.dtype() == type.dtype && place.sizes() == absl::MakeConstSpan(type.sizes) &&
                    place.is_plain() && &place.device() == &context.ops().device() && !IsComplex(type.dtype);
  if (incoming[0]) COTAN_RETURN_IF_ERROR(CheckIsLeaf());
  if (leaf_.requires_grad() && !leaf.post_accumulate_hooks.empty()) return false;
  const bool accumulates = incoming[0] && leaf_.requires_grad();
  if (accumulates && !fits) return false;
  if (accumulates && leaf.grad.defined() && OverlapsItself(place.layout())) return false;
  record.KeyText("AccumulateGrad");
  record.Key(!accumulates ? 0 : leaf.grad.defined() ? 1 : 2);
  if (!accumulates) return true;
  if (leaf.grad.defined()) {
    record.AddInput(place, InputUse::kWritten);
  } else {
    record.AddOutput(type.dtype, LayoutOfGrad(place));
  }
  return true;
}

absl::Status AccumulateGrad::Emit(CaptureEmitter& emitter, absl::Span<const CapturedValue> incoming,
                                  absl::Span<CapturedValue> results) {
  const VariableState& leaf = *leaf_.state();
  if (!incoming[0].has_value() || !leaf_.requires_grad()) return absl::OkStatus();
  LinkBuilder& link = emitter.link();
  if (!leaf.grad.defined()) {
    emitter.Output(0, *incoming[0]);
    return absl::OkStatus();
  }
  serialization::TensorType type = link.TypeOf(*incoming[0]);
  type.clear_dim_order();
  const LinkBuilder::Value grad = emitter.Input(0, type, "grad");
  COTAN_ASSIGN_OR_RETURN(const LinkBuilder::Value sum, link.Add(grad, *incoming[0]));
  emitter.Update(0, sum);
  return absl::OkStatus();
}

void AccumulateGrad::CompleteCapture(const BackwardContext& context, absl::Span<Tensor> outputs) {
  VariableState& leaf = *leaf_.state();
  if (!outputs.empty()) {
    leaf.grad = Variable(std::move(outputs[0]));
  } else if (leaf.grad.defined()) {
    leaf.grad.BumpVersion();
  }
}

absl::Status AccumulateGrad::RunPostAccumulateHooks() {
  if (!leaf_.requires_grad()) return absl::OkStatus();
  const auto hooks = leaf_.state()->post_accumulate_hooks;  // a hook may change them
  for (const VariableState::PostAccumulateHook& hook : hooks) {
    COTAN_RETURN_IF_ERROR(hook.run(leaf_));
  }
  return absl::OkStatus();
}

absl::Status AccumulateGrad::Accumulate(TensorOps& ops, Tensor gradient) {
  VariableState& leaf = *leaf_.state();
  const std::lock_guard lock(leaf.leaf_mutex);
  if (!leaf.grad.defined()) {
    COTAN_ASSIGN_OR_RETURN(gradient, Own(ops, std::move(gradient), leaf.tensor));
    leaf.grad = Variable(std::move(gradient));
    return absl::OkStatus();
  }
  if (input(0).dtype == DType::kUndefined) {
    COTAN_ASSIGN_OR_RETURN(gradient, ops.Cast(gradient, leaf.grad.dtype()));
  }
  COTAN_RETURN_IF_ERROR(AddTo(ops, gradient, leaf.grad.tensor()));
  leaf.grad.BumpVersion();
  return absl::OkStatus();
}

absl::StatusOr<Gradients> AccumulateGrad::Apply(BackwardContext& context, absl::Span<Tensor> incoming) {
  if (!incoming[0].defined()) {
    COTAN_RETURN_IF_ERROR(RunPostAccumulateHooks());
    return Gradients();
  }
  COTAN_RETURN_IF_ERROR(CheckIsLeaf());
  if (!leaf_.requires_grad()) return Gradients();
  COTAN_RETURN_IF_ERROR(Accumulate(context.ops(), std::move(incoming[0])));
  COTAN_RETURN_IF_ERROR(RunPostAccumulateHooks());
  return Gradients();
}

absl::Status AccumulateGrad::ApplyRecorded(BackwardContext& context, absl::Span<Variable> incoming,
                                           std::vector<Variable>& results) {
  if (!incoming[0].defined()) return RunPostAccumulateHooks();
  COTAN_RETURN_IF_ERROR(CheckIsLeaf());
  if (!leaf_.requires_grad()) return absl::OkStatus();
  VariableState& leaf = *leaf_.state();
  if (input(0).dtype == DType::kUndefined && leaf.grad.defined()) {
    COTAN_ASSIGN_OR_RETURN(incoming[0], RecordedCast(context.ops(), incoming[0], leaf.grad.dtype()));
  }
  if (!leaf.grad.defined()) {
    COTAN_ASSIGN_OR_RETURN(leaf.grad, RecordedCloneAs(context.ops(), incoming[0], LayoutOfGrad(leaf.tensor)));
  } else if (leaf.grad.sizes() != incoming[0].sizes() || leaf.grad.dtype() != incoming[0].dtype()) {
    return absl::InvalidArgumentError(absl::StrCat("the gradient ", incoming[0].tensor().ToString(),
                                                   " cannot be added to the leaf's grad, which is ",
                                                   leaf.grad.tensor().ToString()));
  } else {
    COTAN_ASSIGN_OR_RETURN(leaf.grad, RecordedAdd(context.ops(), leaf.grad, incoming[0]));
  }
  return RunPostAccumulateHooks();
}

}  // namespace cotan::autograd
