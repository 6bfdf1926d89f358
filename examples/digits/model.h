// SPDX-License-Identifier: Apache-2.0

// The network that examples/digits trains: an ordinary torch::nn module.
#ifndef COTAN_EXAMPLES_DIGITS_MODEL_H_
#define COTAN_EXAMPLES_DIGITS_MODEL_H_

#include <torch/torch.h>

namespace cotan::digits {

// Images [batch, 1, 28, 28] to logits [batch, 10].
class DigitsNetImpl : public torch::nn::Module {
 public:
  DigitsNetImpl();
  torch::Tensor forward(torch::Tensor images);

 private:
  torch::nn::Conv2d conv1_, conv2_;
  torch::nn::BatchNorm2d norm1_, norm2_;
  torch::nn::Dropout dropout_;
  torch::nn::Linear hidden_, output_;
};
TORCH_MODULE(DigitsNet);

}  // namespace cotan::digits

#endif  // COTAN_EXAMPLES_DIGITS_MODEL_H_
