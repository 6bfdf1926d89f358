// SPDX-License-Identifier: Apache-2.0

// Small models of many kinds, as plain torch::nn modules: for the tests of whole models and the
// benchmark. This package does not depend on Cotan.
#ifndef COTAN_TESTING_MODELS_MODELS_H_
#define COTAN_TESTING_MODELS_MODELS_H_

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace cotan::testing {

// A module from one tensor to one tensor.
class Network : public torch::nn::Module {
 public:
  virtual torch::Tensor forward(torch::Tensor input) = 0;
};

// A network with everything needed to train it for a step. Stateless: every
// call makes new objects.
struct ModelCase {
  std::string name;
  std::string description;
  // Initial parameters depend only on LibTorch's default generator.
  std::function<std::shared_ptr<Network>()> make_network;
  // Returns the scalar loss of (network output, label).
  std::function<torch::Tensor(torch::Tensor, torch::Tensor)> loss;
  // Returns a batch, drawn from `generator`.
  std::function<torch::Tensor(at::Generator generator)> make_input;
  std::function<torch::Tensor(at::Generator generator)> make_label;
};

// Returns all models, in a fixed order. The first six are mlp, cnn, gpt, resnet, lstm and gru, the
// ones that the benchmark measures.
const std::vector<ModelCase>& AllModels();

// Returns their names.
std::vector<std::string> ModelNames();

// Returns the model of this name, or null.
const ModelCase* FindModel(const std::string& name);

}  // namespace cotan::testing

#endif  // COTAN_TESTING_MODELS_MODELS_H_
