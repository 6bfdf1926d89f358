// SPDX-License-Identifier: Apache-2.0

// A model with two decompositions that the CUDA backend lacks: of matrices of more than 32 rows.
#include <torch/torch.h>

#include <memory>
#include <tuple>
#include <vector>

#include "aot/model_registry.h"

namespace cotan::aot {
namespace {

constexpr int64_t kRows = 40;

struct Decompositions : torch::nn::Module {
  Decompositions() : linear(register_module("linear", torch::nn::Linear(kRows, kRows))) {}

  std::tuple<at::Tensor, at::Tensor> forward(at::Tensor x) {
    const at::Tensor y = linear(x);
    const at::Tensor positive = y.matmul(y.mT()) + kRows * torch::eye(kRows);
    return {at::linalg_eigvalsh(positive), at::linalg_cholesky(positive)};
  }

  torch::nn::Linear linear;
};

}  // namespace

std::vector<ModelDefinition> RegisteredModels() {
  ModelDefinition definition;
  definition.name = "decompositions";
  definition.description = "eigenvalues and a Cholesky factor of a matrix of 40 rows";
  definition.factory = AdaptFactory([] { return std::make_shared<Decompositions>(); });
  definition.examples = [] {
    return std::vector<at::Tensor>{torch::rand({kRows, kRows}, at::detail::createCPUGenerator(1))};
  };
  definition.options = [] { return CompileOptions(); };
  return {definition};
}

}  // namespace cotan::aot
