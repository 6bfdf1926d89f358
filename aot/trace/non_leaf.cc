#include "aot/trace/non_leaf.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/clone.h>

#include "aot/trace/proxy_tensor.h"

namespace cotan::aot {

at::Tensor NonLeaf(const at::Tensor& primal) {
  const c10::AutoGradMode grad_mode(true);
  at::Tensor result = primal.clone();
  Reseat(result, at::functionalization::impl::from_functional_tensor(primal));
  return result;
}

}  // namespace cotan::aot
