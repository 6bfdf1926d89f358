// SPDX-License-Identifier: Apache-2.0

// AccumulateGrad: the node that adds gradients to grad() of a leaf. For this package only.
#ifndef COTAN_RUNTIME_AUTOGRAD_ACCUMULATE_GRAD_H_
#define COTAN_RUNTIME_AUTOGRAD_ACCUMULATE_GRAD_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "runtime/autograd/node.h"
#include "runtime/autograd/variable.h"

namespace cotan::autograd {

// The gradient sink of a leaf (torch/csrc/autograd/functions/accumulate_grad.h). There is at most one per leaf; it owns
// the leaf, which has a weak reference to it. The constructor adds input 0 with the leaf's grad_dtype() and device,
// and `sizes`.
//
// The first gradient becomes grad() without a copy if no other tensor shares its memory and its strides are those of
// the leaf (row-major if the leaf is not dense). Later gradients are added in place. Apply() may be called by several
// threads at the same time; hooks run outside of the lock.
class AccumulateGrad final : public Node {
 public:
  AccumulateGrad(Variable leaf, absl::Span<const int64_t> sizes);

  absl::string_view name() const override { return "AccumulateGrad"; }
  const Variable* leaf() const override { return &leaf_; }
  absl::StatusOr<Gradients> Apply(BackwardContext& context, absl::Span<Tensor> incoming) override;
  absl::StatusOr<bool> Describe(const BackwardContext& context, absl::Span<const bool> incoming,
                                absl::Span<bool> results, CaptureRecord& record) override;
  absl::Status Emit(CaptureEmitter& emitter, absl::Span<const CapturedValue> incoming,
                    absl::Span<CapturedValue> results) override;
  void CompleteCapture(const BackwardContext& context, absl::Span<Tensor> outputs) override;

  // Gives the leaf a new grad(): a copy of the gradient, or the sum of both.
  absl::Status ApplyRecorded(BackwardContext& context, absl::Span<Variable> incoming,
                             std::vector<Variable>& results) override;

 private:
  // FailedPrecondition: the leaf has got a grad_fn.
  absl::Status CheckIsLeaf() const;
  // Makes the gradient the leaf's grad(), or adds it.
  absl::Status Accumulate(TensorOps& ops, Tensor gradient);
  absl::Status RunPostAccumulateHooks();

  Variable leaf_;
};

}  // namespace cotan::autograd

#endif  // COTAN_RUNTIME_AUTOGRAD_ACCUMULATE_GRAD_H_
