// SPDX-License-Identifier: Apache-2.0

#include "examples/digits/model.h"

namespace cotan::digits {

namespace nn = torch::nn;

// A bias before batch norm would have no effect.
DigitsNetImpl::DigitsNetImpl()
    : conv1_(register_module("conv1", nn::Conv2d(nn::Conv2dOptions(1, 16, 3).padding(1).bias(false)))),
      conv2_(register_module("conv2", nn::Conv2d(nn::Conv2dOptions(16, 32, 3).padding(1).bias(false)))),
      norm1_(register_module("norm1", nn::BatchNorm2d(16))),
      norm2_(register_module("norm2", nn::BatchNorm2d(32))),
      dropout_(register_module("dropout", nn::Dropout(0.25))),
      hidden_(register_module("hidden", nn::Linear(32 * 7 * 7, 64))),
      output_(register_module("output", nn::Linear(64, 10))) {}

torch::Tensor DigitsNetImpl::forward(torch::Tensor images) {
  torch::Tensor x = torch::max_pool2d(torch::relu(norm1_(conv1_(images))), 2);
  x = torch::max_pool2d(torch::relu(norm2_(conv2_(x))), 2);
  x = torch::relu(hidden_(x.flatten(1)));
  return output_(dropout_(x));
}

}  // namespace cotan::digits
