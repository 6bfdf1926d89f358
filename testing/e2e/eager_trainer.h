// SPDX-License-Identifier: Apache-2.0

// Trains a model step by step with LibTorch eager, as the oracle of compiled training.
#ifndef COTAN_TESTING_E2E_EAGER_TRAINER_H_
#define COTAN_TESTING_E2E_EAGER_TRAINER_H_

#include <torch/torch.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "aot/optimizer/optimizer.h"
#include "base/dtype.h"
#include "testing/models/models.h"

namespace cotan::testing {

// A model and the torch::optim optimizer that an OptimizerConfig stands for.
// `model` outlives it.
class EagerTrainer {
 public:
  // Makes a model with the initial parameters of torch::manual_seed(seed). Forwards and losses run
  // under autocast to `autocast`; kUndefined: none.
  EagerTrainer(const ModelCase& model, uint64_t seed, const aot::OptimizerConfig& config,
               DType autocast = DType::kUndefined);

  // Runs forward, loss and backward; adds to the gradients. Returns the loss.
  double Accumulate(const torch::Tensor& input, const torch::Tensor& label);
  // Clips, updates the parameters and clears the gradients. With loss scaling
  // an infinite gradient skips the update.
  void Update();
  double Step(const torch::Tensor& input, const torch::Tensor& label) {
    const double loss = Accumulate(input, label);
    Update();
    return loss;
  }

  // Returns the output in eval mode.
  torch::Tensor Predict(const torch::Tensor& input);

  // Returns copies under the names that states have in an artifact: parameters and buffers as the module
  // names them, slots as "optimizer.PARAMETER.SLOT".
  std::map<std::string, torch::Tensor> States() const;
  // Returns copies of the gradients by parameter.
  std::map<std::string, torch::Tensor> Gradients() const;

 private:
  // Divides the gradients by the scale and updates the scale. Returns false if the step is to be skipped.
  bool Unscale();

  const ModelCase& model_;
  const aot::OptimizerConfig config_;
  const DType autocast_;
  const std::shared_ptr<Network> network_;
  const std::unique_ptr<torch::optim::Optimizer> optimizer_;
  torch::Tensor scale_, growth_tracker_;  // undefined without loss scaling
};

}  // namespace cotan::testing

#endif  // COTAN_TESTING_E2E_EAGER_TRAINER_H_
