// SPDX-License-Identifier: Apache-2.0

#include "testing/blocks/stack.h"

#include <string>

#include "aot/blocks/block.h"

namespace cotan::testing {

namespace nn = torch::nn;

Stack::Stack(const TransformerOptions& options, LayerCalls calls)
    : calls_(calls),
      tokens_(register_module("tokens", nn::Embedding(options.vocabulary, options.width))),
      positions_(register_module("positions", nn::Embedding(options.context, options.width))),
      norm_(register_module("norm", nn::LayerNorm(nn::LayerNormOptions({options.width})))),
      output_(register_module("output", nn::Linear(options.width, options.vocabulary))) {
  for (int64_t i = 0; i < options.layers; ++i) {
    layers_.push_back(register_module("layer" + std::to_string(i), std::make_shared<TransformerBlock>(options)));
  }
}

torch::Tensor Stack::forward(torch::Tensor tokens) {
  torch::Tensor x = tokens_(tokens) + positions_->weight.slice(0, 0, tokens.size(1));
  for (const std::shared_ptr<TransformerBlock>& layer : layers_) {
    switch (calls_) {
      case LayerCalls::kInline:
        x = layer->forward(x);
        break;
      case LayerCalls::kDeclared:
        x = COTAN_BLOCK(layer, x);
        break;
      case LayerCalls::kKeyed:
        x = aot::CallKeyedBlock("layer", layer, x);
        break;
    }
  }
  return output_(norm_(x)).flatten(0, 1);
}

}  // namespace cotan::testing
