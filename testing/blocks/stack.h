// SPDX-License-Identifier: Apache-2.0

// A transformer whose layers are blocks.
#ifndef COTAN_TESTING_BLOCKS_STACK_H_
#define COTAN_TESTING_BLOCKS_STACK_H_

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "testing/models/networks.h"

namespace cotan::testing {

// How the layers are called.
enum class LayerCalls : uint8_t {
  kInline,    // as part of the model
  kDeclared,  // COTAN_BLOCK
  kKeyed,     // CallKeyedBlock
};

// Token ids [batch, time] to logits [batch * time, vocabulary], as testing::Transformer.
class Stack : public Network {
 public:
  Stack(const TransformerOptions& options, LayerCalls calls);
  torch::Tensor forward(torch::Tensor tokens) override;

 private:
  const LayerCalls calls_;
  torch::nn::Embedding tokens_, positions_;
  std::vector<std::shared_ptr<TransformerBlock>> layers_;
  torch::nn::LayerNorm norm_;
  torch::nn::Linear output_;
};

}  // namespace cotan::testing

#endif  // COTAN_TESTING_BLOCKS_STACK_H_
