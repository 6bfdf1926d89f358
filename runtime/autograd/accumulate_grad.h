// Where gradients end: they are added to those of a leaf. For this package only.
#ifndef COTAN_RUNTIME_AUTOGRAD_ACCUMULATE_GRAD_H_
#define COTAN_RUNTIME_AUTOGRAD_ACCUMULATE_GRAD_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "runtime/autograd/node.h"
#include "runtime/autograd/variable.h"

namespace cotan::autograd {

// Keeps its leaf alive; the leaf knows it while it lives. One per leaf. Input 0,
// of the leaf's type, but of `sizes`, is added when it is made.
//
// A first gradient is taken over without a copy if nobody else has its memory
// and it lies there as the leaf does (row-major, if the leaf is not dense). Later
// ones are added in place.
class AccumulateGrad final : public Node {
 public:
  AccumulateGrad(Variable leaf, absl::Span<const int64_t> sizes);

  absl::string_view name() const override { return "AccumulateGrad"; }
  absl::StatusOr<Gradients> Apply(BackwardContext& context, absl::Span<Tensor> incoming) override;

 private:
  Variable leaf_;
};

}  // namespace cotan::autograd

#endif  // COTAN_RUNTIME_AUTOGRAD_ACCUMULATE_GRAD_H_
