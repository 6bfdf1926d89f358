// SPDX-License-Identifier: Apache-2.0

#include "examples/chars/model.h"

#include <string>

#include "examples/chars/sizes.h"

namespace cotan::chars {

namespace nn = torch::nn;

namespace {

constexpr int64_t kWidth = 96;
constexpr int64_t kHeads = 4;
constexpr int64_t kBlocks = 2;

nn::LayerNorm Norm(int64_t width) { return nn::LayerNorm(nn::LayerNormOptions({width})); }

}  // namespace

BlockImpl::BlockImpl(int64_t width, int64_t heads)
    : heads_(heads),
      attention_norm_(register_module("attention_norm", Norm(width))),
      mlp_norm_(register_module("mlp_norm", Norm(width))),
      query_key_value_(register_module("query_key_value", nn::Linear(width, 3 * width))),
      attention_output_(register_module("attention_output", nn::Linear(width, width))),
      mlp_hidden_(register_module("mlp_hidden", nn::Linear(width, 4 * width))),
      mlp_output_(register_module("mlp_output", nn::Linear(4 * width, width))) {}

torch::Tensor BlockImpl::forward(torch::Tensor x) {
  const int64_t batch = x.size(0), time = x.size(1), width = x.size(2);
  const std::vector<torch::Tensor> heads = query_key_value_(attention_norm_(x))
                                               .view({batch, time, 3, heads_, width / heads_})
                                               .permute({2, 0, 3, 1, 4})
                                               .unbind(0);
  const torch::Tensor attended = at::scaled_dot_product_attention(heads[0], heads[1], heads[2], /*attn_mask=*/{},
                                                                  /*dropout_p=*/0.0, /*is_causal=*/true);
  x = x + attention_output_(attended.transpose(1, 2).reshape({batch, time, width}));
  return x + mlp_output_(torch::gelu(mlp_hidden_(mlp_norm_(x))));
}

CharsNetImpl::CharsNetImpl()
    : bytes_(register_module("bytes", nn::Embedding(kVocabulary, kWidth))),
      positions_(register_module("positions", nn::Embedding(kContext, kWidth))),
      norm_(register_module("norm", Norm(kWidth))),
      output_(register_module("output", nn::Linear(kWidth, kVocabulary))) {
  for (int64_t i = 0; i < kBlocks; ++i) {
    blocks_.push_back(register_module("block" + std::to_string(i), Block(kWidth, kHeads)));
  }
}

torch::Tensor CharsNetImpl::forward(torch::Tensor bytes) {
  torch::Tensor x = bytes_(bytes) + positions_->weight.slice(0, 0, bytes.size(1));
  for (Block& block : blocks_) x = block(x);
  return output_(norm_(x)).flatten(0, 1);
}

}  // namespace cotan::chars
