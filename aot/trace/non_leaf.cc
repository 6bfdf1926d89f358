#include "aot/trace/non_leaf.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <torch/csrc/autograd/custom_function.h>

#include "aot/trace/proxy_tensor.h"

namespace cotan::aot {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct SameContent : torch::autograd::Function<SameContent> {
  static at::Tensor forward(AutogradContext*, const at::Tensor& primal) {
    return WrapFunctional(at::functionalization::impl::from_functional_tensor(primal));
  }
  static variable_list backward(AutogradContext*, variable_list gradients) { return gradients; }
};

}  // namespace

at::Tensor NonLeaf(const at::Tensor& primal) { return SameContent::apply(primal); }

}  // namespace cotan::aot
