// SPDX-License-Identifier: Apache-2.0

#include "testing/models/networks.h"

#include <utility>

namespace cotan::testing {
namespace {

namespace nn = torch::nn;
namespace F = torch::nn::functional;

nn::Conv2d Conv3x3(int64_t in_channels, int64_t out_channels, int64_t stride) {
  return nn::Conv2d(nn::Conv2dOptions(in_channels, out_channels, 3).stride(stride).padding(1).bias(false));
}

nn::LayerNorm Norm(int64_t width) { return nn::LayerNorm(nn::LayerNormOptions({width})); }

}  // namespace

Chain::Chain(nn::Sequential layers) : layers_(register_module("layers", std::move(layers))) {}

torch::Tensor Chain::forward(torch::Tensor input) { return layers_->forward(input); }

ResidualBlock::ResidualBlock(int64_t in_channels, int64_t out_channels, int64_t stride)
    : conv1_(register_module("conv1", Conv3x3(in_channels, out_channels, stride))),
      conv2_(register_module("conv2", Conv3x3(out_channels, out_channels, 1))),
      norm1_(register_module("norm1", nn::BatchNorm2d(out_channels))),
      norm2_(register_module("norm2", nn::BatchNorm2d(out_channels))) {
  if (stride == 1 && in_channels == out_channels) return;
  shortcut_ = register_module(
      "shortcut", nn::Sequential(nn::Conv2d(nn::Conv2dOptions(in_channels, out_channels, 1).stride(stride).bias(false)),
                                 nn::BatchNorm2d(out_channels)));
}

torch::Tensor ResidualBlock::forward(torch::Tensor input) {
  const torch::Tensor hidden = torch::relu(norm1_(conv1_(input)));
  const torch::Tensor shortcut = shortcut_.is_empty() ? input : shortcut_->forward(input);
  return torch::relu(norm2_(conv2_(hidden)) + shortcut);
}

TransformerBlock::TransformerBlock(const TransformerOptions& options)
    : heads_(options.heads),
      dropout_(options.dropout),
      norm1_(register_module("norm1", Norm(options.width))),
      norm2_(register_module("norm2", Norm(options.width))),
      query_key_value_(register_module("qkv", nn::Linear(options.width, 3 * options.width))),
      projection_(register_module("projection", nn::Linear(options.width, options.width))),
      expand_(register_module("expand", nn::Linear(options.width, 4 * options.width))),
      contract_(register_module("contract", nn::Linear(4 * options.width, options.width))) {}

torch::Tensor TransformerBlock::forward(torch::Tensor input) {
  const auto drop = [this](torch::Tensor x) { return dropout_ > 0 ? torch::dropout(x, dropout_, is_training()) : x; };
  const torch::Tensor attended = input + drop(projection_(Attend(norm1_(input))));
  return attended + drop(contract_(torch::gelu(expand_(norm2_(attended)))));
}

torch::Tensor TransformerBlock::Attend(torch::Tensor input) {
  const int64_t batch = input.size(0), time = input.size(1), width = input.size(2);
  const std::vector<torch::Tensor> parts =
      query_key_value_(input).view({batch, time, 3, heads_, width / heads_}).permute({2, 0, 3, 1, 4}).unbind(0);
  const torch::Tensor attended = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], /*attn_mask=*/{},
                                                                  /*dropout_p=*/0.0, /*is_causal=*/true);
  return attended.transpose(1, 2).reshape({batch, time, width});
}

Transformer::Transformer(const TransformerOptions& options)
    : tie_embedding_(options.tie_embedding),
      tokens_(register_module("tokens", nn::Embedding(options.vocabulary, options.width))),
      positions_(register_module("positions", nn::Embedding(options.context, options.width))),
      norm_(register_module("norm", Norm(options.width))) {
  for (int64_t i = 0; i < options.layers; ++i) {
    blocks_.push_back(register_module("block" + std::to_string(i), std::make_shared<TransformerBlock>(options)));
  }
  if (tie_embedding_) return;
  output_ = register_module("output", nn::Linear(nn::LinearOptions(options.width, options.vocabulary).bias(false)));
}

torch::Tensor Transformer::forward(torch::Tensor tokens) {
  torch::Tensor x = tokens_(tokens) + positions_->weight.slice(0, 0, tokens.size(1));
  for (const std::shared_ptr<TransformerBlock>& block : blocks_) x = block->forward(x);
  x = norm_(x);
  const torch::Tensor logits = tie_embedding_ ? torch::matmul(x, tokens_->weight.t()) : output_(x);
  return logits.flatten(0, 1);
}

TiedAutoencoder::TiedAutoencoder(int64_t inputs, int64_t hidden)
    : encoder_(register_module("encoder", nn::Linear(inputs, hidden))),
      decoder_bias_(register_parameter("decoder_bias", torch::zeros({inputs}))) {}

torch::Tensor TiedAutoencoder::forward(torch::Tensor input) {
  return F::linear(torch::tanh(encoder_(input)), encoder_->weight.t(), decoder_bias_);
}

}  // namespace cotan::testing
