// Small models of many kinds, as plain torch::nn modules: what the tests of
// whole models train and the benchmark measures. Nothing here knows Cotan.
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
  // Scalar loss of (network output, label).
  std::function<torch::Tensor(torch::Tensor, torch::Tensor)> loss;
  // A batch, drawn from `generator`.
  std::function<torch::Tensor(at::Generator generator)> make_input;
  std::function<torch::Tensor(at::Generator generator)> make_label;
};

// All models, in a fixed order. The first six are mlp, cnn, gpt, resnet, lstm and
// gru, the ones that the benchmark measures.
const std::vector<ModelCase>& AllModels();

// Their names.
std::vector<std::string> ModelNames();

// Null if no model has this name.
const ModelCase* FindModel(const std::string& name);

}  // namespace cotan::testing

#endif  // COTAN_TESTING_MODELS_MODELS_H_
