// SPDX-License-Identifier: Apache-2.0

// The network that examples/chars trains: an ordinary torch::nn module.
#ifndef COTAN_EXAMPLES_CHARS_MODEL_H_
#define COTAN_EXAMPLES_CHARS_MODEL_H_

#include <torch/torch.h>

#include <cstdint>
#include <vector>

namespace cotan::chars {

// One pre-norm transformer block: causal attention, then a GELU network.
class BlockImpl : public torch::nn::Module {
 public:
  BlockImpl(int64_t width, int64_t heads);
  torch::Tensor forward(torch::Tensor x);

 private:
  int64_t heads_;
  torch::nn::LayerNorm attention_norm_, mlp_norm_;
  torch::nn::Linear query_key_value_, attention_output_, mlp_hidden_, mlp_output_;
};
TORCH_MODULE(Block);

// Bytes [batch, time] to logits [batch * time, 256] of the byte that follows.
class CharsNetImpl : public torch::nn::Module {
 public:
  CharsNetImpl();
  torch::Tensor forward(torch::Tensor bytes);

 private:
  torch::nn::Embedding bytes_, positions_;
  std::vector<Block> blocks_;
  torch::nn::LayerNorm norm_;
  torch::nn::Linear output_;
};
TORCH_MODULE(CharsNet);

}  // namespace cotan::chars

#endif  // COTAN_EXAMPLES_CHARS_MODEL_H_
