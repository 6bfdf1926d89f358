// SPDX-License-Identifier: Apache-2.0

// Modules of models.h.
#ifndef COTAN_TESTING_MODELS_NETWORKS_H_
#define COTAN_TESTING_MODELS_NETWORKS_H_

#include <torch/torch.h>

#include <cstdint>
#include <tuple>
#include <vector>

#include "testing/models/models.h"

namespace cotan::testing {

// Layers one after another, under the names "layers.0", "layers.1", ...
class Chain : public Network {
 public:
  explicit Chain(torch::nn::Sequential layers);
  torch::Tensor forward(torch::Tensor input) override;

 private:
  torch::nn::Sequential layers_;
};

// Two 3x3 convolutions with batch norm and a shortcut around them.
class ResidualBlock : public Network {
 public:
  ResidualBlock(int64_t in_channels, int64_t out_channels, int64_t stride);
  torch::Tensor forward(torch::Tensor input) override;

 private:
  torch::nn::Conv2d conv1_, conv2_;
  torch::nn::BatchNorm2d norm1_, norm2_;
  torch::nn::Sequential shortcut_{nullptr};  // null: the identity
};

// Sizes of a decoder-only transformer.
struct TransformerOptions {
  int64_t vocabulary = 512;
  int64_t width = 128;
  int64_t heads = 4;
  int64_t layers = 4;
  int64_t context = 64;
  double dropout = 0.0;
  bool tie_embedding = false;  // the output layer is the token embedding
};

// Pre-norm block: causal attention, then a GELU feed-forward of 4 x width.
class TransformerBlock : public Network {
 public:
  explicit TransformerBlock(const TransformerOptions& options);
  torch::Tensor forward(torch::Tensor input) override;

 private:
  torch::Tensor Attend(torch::Tensor input);

  int64_t heads_;
  double dropout_;
  torch::nn::LayerNorm norm1_, norm2_;
  torch::nn::Linear query_key_value_, projection_, expand_, contract_;
};

// Token ids [batch, time] to logits [batch * time, vocabulary].
class Transformer : public Network {
 public:
  explicit Transformer(const TransformerOptions& options);
  torch::Tensor forward(torch::Tensor tokens) override;

 private:
  bool tie_embedding_;
  torch::nn::Embedding tokens_, positions_;
  std::vector<std::shared_ptr<TransformerBlock>> blocks_;
  torch::nn::LayerNorm norm_;
  torch::nn::Linear output_{nullptr};  // null if tied
};

// Sizes of a network that classifies each token of a text.
struct TaggerOptions {
  int64_t vocabulary = 64;
  int64_t width = 128;   // of an embedding
  int64_t hidden = 128;  // of the recurrent layers
  int64_t layers = 1;
  bool bidirectional = false;
};

// Token ids [batch, time] to logits [batch * time, vocabulary], through recurrent
// layers: nn::LSTM, nn::GRU or nn::RNN.
template <typename Recurrent, typename RecurrentOptions>
class Tagger : public Network {
 public:
  explicit Tagger(const TaggerOptions& options)
      : tokens_(register_module("tokens", torch::nn::Embedding(options.vocabulary, options.width))),
        recurrent_(register_module("recurrent", Recurrent(RecurrentOptions(options.width, options.hidden)
                                                              .num_layers(options.layers)
                                                              .bidirectional(options.bidirectional)
                                                              .batch_first(true)))),
        output_(register_module(
            "output", torch::nn::Linear(options.hidden * (options.bidirectional ? 2 : 1), options.vocabulary))) {}

  torch::Tensor forward(torch::Tensor tokens) override {
    return output_(std::get<0>(recurrent_(tokens_(tokens)))).flatten(0, 1);
  }

 private:
  torch::nn::Embedding tokens_;
  Recurrent recurrent_;
  torch::nn::Linear output_;
};

// Encoder and decoder that share one weight matrix.
class TiedAutoencoder : public Network {
 public:
  TiedAutoencoder(int64_t inputs, int64_t hidden);
  torch::Tensor forward(torch::Tensor input) override;

 private:
  torch::nn::Linear encoder_;
  torch::Tensor decoder_bias_;
};

}  // namespace cotan::testing

#endif  // COTAN_TESTING_MODELS_NETWORKS_H_
