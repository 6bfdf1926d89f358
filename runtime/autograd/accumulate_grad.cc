#include "runtime/autograd/accumulate_grad.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runtime/autograd/tensor_ops.h"
#include "runtime/autograd/variable_state.h"

namespace cotan::autograd {
namespace {

// Strides of a gradient of `leaf`.
DimVector GradientStrides(const Tensor& leaf) {
  return IsDenseNonOverlapping(leaf.layout()) ? leaf.layout().strides : ContiguousStrides(leaf.sizes());
}

// Whether no other tensor sees the memory of `tensor`.
bool IsExclusive(const Tensor& tensor) { return tensor.storage().use_count() == 1; }

bool HasStrides(const Tensor& tensor, const DimVector& strides) {
  for (size_t d = 0; d < strides.size(); ++d) {
    if (tensor.sizes()[d] != 1 && tensor.layout().strides[d] != strides[d]) return false;
  }
  return true;
}

// `gradient` itself, or a copy of it, as a first gradient of `leaf`.
absl::StatusOr<Tensor> Own(TensorOps& ops, Tensor gradient, const Tensor& leaf) {
  DimVector strides = GradientStrides(leaf);
  if (IsExclusive(gradient) && HasStrides(gradient, strides)) return gradient;
  StridedLayout layout = {.sizes = gradient.layout().sizes, .strides = std::move(strides), .offset = 0};
  COTAN_ASSIGN_OR_RETURN(Tensor copy, Tensor::EmptyStrided(gradient.dtype(), std::move(layout), ops.device()));
  COTAN_RETURN_IF_ERROR(ops.Copy(gradient, copy));
  return copy;
}

}  // namespace

AccumulateGrad::AccumulateGrad(Variable leaf) : Node(kRunFirst, leaf.state()->leaf_hooks), leaf_(std::move(leaf)) {
  AddInput(GradientType::Of(leaf_.tensor()));
}

absl::StatusOr<Gradients> AccumulateGrad::Apply(BackwardContext& context, absl::Span<Tensor> incoming) {
  VariableState& leaf = *leaf_.state();
  if (!incoming[0].defined() || !leaf_.requires_grad()) return Gradients();
  if (!leaf.grad.defined()) {
    COTAN_ASSIGN_OR_RETURN(Tensor gradient, Own(context.ops(), std::move(incoming[0]), leaf.tensor));
    leaf.grad = Variable(std::move(gradient));
  } else {
    const Tensor& sum = leaf.grad.tensor();
    if (sum.dtype() != incoming[0].dtype() || sum.sizes() != incoming[0].sizes()) {
      return absl::InvalidArgumentError(absl::StrCat("the gradient ", incoming[0].ToString(),
                                                     " cannot be added to the leaf's grad, which is ", sum.ToString()));
    }
    COTAN_RETURN_IF_ERROR(context.ops().AddTo(incoming[0], sum));
    leaf.grad.BumpVersion();
  }
  for (const VariableState::PostAccumulateHook& hook : leaf.post_accumulate_hooks) {
    COTAN_RETURN_IF_ERROR(hook.run(leaf_));
  }
  return Gradients();
}

}  // namespace cotan::autograd
