// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/accumulate_grad.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
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

// Returns `gradient`, or a copy with the strides of `leaf`, as the first value of grad().
absl::StatusOr<Tensor> Own(TensorOps& ops, Tensor gradient, const Tensor& leaf) {
  StridedLayout layout = leaf.layout();
  layout.offset = 0;
  if (!IsDenseNonOverlapping(layout)) layout.strides = ContiguousStrides(layout.sizes);
  if (IsExclusive(gradient) && HasStridesOf(gradient, layout)) return gradient;
  COTAN_ASSIGN_OR_RETURN(Tensor copy, Tensor::EmptyStrided(gradient.dtype(), std::move(layout), ops.device()));
  COTAN_RETURN_IF_ERROR(ops.Copy(gradient, copy));
  return copy;
}

// Adds `gradient` to grad(). It may need broadcasting if the leaf was given another storage.
absl::Status AddTo(TensorOps& ops, const Tensor& gradient, const Tensor& sum) {
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
  AddInput({leaf_.dtype(), DimVector(sizes.begin(), sizes.end()), &leaf_.tensor().device()});
}

absl::StatusOr<Gradients> AccumulateGrad::Apply(BackwardContext& context, absl::Span<Tensor> incoming) {
  VariableState& leaf = *leaf_.state();
  if (!incoming[0].defined()) return Gradients();
  // Regenerates the grad_fn of a stale view.
  COTAN_ASSIGN_OR_RETURN(const std::shared_ptr<Node> history, leaf_.grad_fn());
  if (history != nullptr) {
    return absl::FailedPreconditionError(
        "a leaf variable has been moved into the graph interior: it was written in place after it was used");
  }
  if (!leaf_.requires_grad()) return Gradients();
  if (!leaf.grad.defined()) {
    COTAN_ASSIGN_OR_RETURN(Tensor gradient, Own(context.ops(), std::move(incoming[0]), leaf.tensor));
    leaf.grad = Variable(std::move(gradient));
  } else {
    COTAN_RETURN_IF_ERROR(AddTo(context.ops(), incoming[0], leaf.grad.tensor()));
    leaf.grad.BumpVersion();
  }
  const auto hooks = leaf.post_accumulate_hooks;  // a hook may change them
  for (const VariableState::PostAccumulateHook& hook : hooks) {
    COTAN_RETURN_IF_ERROR(hook.run(leaf_));
  }
  return Gradients();
}

}  // namespace cotan::autograd
