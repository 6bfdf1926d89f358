// SPDX-License-Identifier: Apache-2.0

#include "aot/decompositions/zero_gradient.h"

#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

namespace cotan::aot {
namespace {

struct ZeroGradient : torch::autograd::Function<ZeroGradient> {
  using Context = torch::autograd::AutogradContext;

  static at::Tensor forward(Context* context, const at::Tensor& result, const at::Tensor& tensor) {
    context->saved_data["sizes"] = tensor.sizes().vec();
    context->saved_data["dtype"] = static_cast<int64_t>(tensor.scalar_type());
    return result.clone();
  }

  static torch::autograd::variable_list backward(Context* context, const torch::autograd::variable_list& gradients) {
    const auto dtype = static_cast<at::ScalarType>(context->saved_data["dtype"].toInt());
    return {gradients[0], at::zeros(context->saved_data["sizes"].toIntVector(), dtype)};
  }
};

}  // namespace

at::Tensor WithZeroGradient(const at::Tensor& result, const at::Tensor& tensor) {
  return ZeroGradient::apply(result, tensor);
}

}  // namespace cotan::aot
