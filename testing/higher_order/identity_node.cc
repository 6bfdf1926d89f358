// SPDX-License-Identifier: Apache-2.0

#include "testing/higher_order/identity_node.h"

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "runtime/autograd/function_node.h"
#include "runtime/autograd/node.h"
#include "runtime/tensor.h"

namespace cotan::testing {

Variable IdentityNode(const Variable& x, std::function<absl::Status()> run) {
  const auto backward = [run](autograd::BackwardContext&,
                              absl::Span<Tensor> incoming) -> absl::StatusOr<autograd::Gradients> {
    COTAN_RETURN_IF_ERROR(run());
    return autograd::Gradients{incoming[0]};
  };
  const auto recorded = [run](autograd::BackwardContext&,
                              absl::Span<const Variable> incoming) -> absl::StatusOr<std::vector<Variable>> {
    COTAN_RETURN_IF_ERROR(run());
    return std::vector<Variable>{incoming[0]};
  };
  return (*autograd::ApplyFunction("IdentityNode", {x}, {x.tensor()}, backward, recorded))[0];
}

}  // namespace cotan::testing
