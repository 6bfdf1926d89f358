// SPDX-License-Identifier: Apache-2.0

// A transformer with the sizes of GPT-2 small, of which adapters are trained, or which is not trained; and the same in
// small, for tests.
#include <torch/torch.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "aot/model_registry.h"

namespace cotan::aot {
namespace {

namespace nn = torch::nn;

struct Sizes {
  int64_t vocabulary, context, width, heads, layers, batch;
};

// 124 M parameters.
constexpr Sizes kGpt2 = {50257, 1024, 768, 12, 12, 1};
constexpr Sizes kSmall = {128, 32, 64, 4, 2, 2};
constexpr int64_t kTokens = 128;  // of an example, at most

struct Layer : nn::Module {
  explicit Layer(const Sizes& sizes) : heads(sizes.heads) {
    ln_1 = register_module("ln_1", nn::LayerNorm(nn::LayerNormOptions({sizes.width})));
    c_attn = register_module("c_attn", nn::Linear(sizes.width, 3 * sizes.width));
    c_proj = register_module("c_proj", nn::Linear(sizes.width, sizes.width));
    ln_2 = register_module("ln_2", nn::LayerNorm(nn::LayerNormOptions({sizes.width})));
    c_fc = register_module("c_fc", nn::Linear(sizes.width, 4 * sizes.width));
    c_out = register_module("c_out", nn::Linear(4 * sizes.width, sizes.width));
  }

  torch::Tensor Attention(const torch::Tensor& x) {
    std::vector<torch::Tensor> parts = c_attn(x).chunk(3, 2);
    for (torch::Tensor& part : parts) {
      part = part.reshape({x.size(0), x.size(1), heads, -1}).transpose(1, 2);
    }
    const torch::Tensor mixed = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0, true);
    return c_proj(mixed.transpose(1, 2).reshape(x.sizes()));
  }

  torch::Tensor forward(torch::Tensor x) {
    x = x + Attention(ln_1(x));
    return x + c_out(torch::gelu(c_fc(ln_2(x)), "tanh"));
  }

  int64_t heads;
  nn::LayerNorm ln_1{nullptr}, ln_2{nullptr};
  nn::Linear c_attn{nullptr}, c_proj{nullptr}, c_fc{nullptr}, c_out{nullptr};
};

struct Gpt : nn::Module {
  explicit Gpt(const Sizes& sizes) {
    wte = register_module("wte", nn::Embedding(sizes.vocabulary, sizes.width));
    wpe = register_module("wpe", nn::Embedding(sizes.context, sizes.width));
    const torch::NoGradGuard no_grad;
    wte->weight.mul_(0.02);
    wpe->weight.mul_(0.02);
    for (int64_t i = 0; i < sizes.layers; ++i) {
      layers.push_back(register_module(absl::StrCat("h_", i), std::make_shared<Layer>(sizes)));
    }
    ln_f = register_module("ln_f", nn::LayerNorm(nn::LayerNormOptions({sizes.width})));
  }

  torch::Tensor forward(torch::Tensor tokens) {
    torch::Tensor x = wte(tokens) + wpe(torch::arange(tokens.size(1)));
    for (const auto& layer : layers) x = layer->forward(x);
    return at::linear(ln_f(x), wte->weight);
  }

  nn::Embedding wte{nullptr}, wpe{nullptr};
  std::vector<std::shared_ptr<Layer>> layers;
  nn::LayerNorm ln_f{nullptr};
};

ModelDefinition Define(const std::string& name, const std::string& description, const Sizes& sizes,
                       const torch::Tensor& tokens) {
  ModelDefinition model;
  model.name = name;
  model.description = description;
  model.factory = AdaptFactory([sizes] { return std::make_shared<Gpt>(sizes); });
  model.examples = [tokens] { return std::vector<at::Tensor>{tokens}; };
  return model;
}

torch::Tensor Tokens(const Sizes& sizes, int64_t length) {
  return torch::arange(sizes.batch * length).view({sizes.batch, length}) * 7919 % sizes.vocabulary;
}

ModelDefinition Training(const std::string& name, const Sizes& sizes) {
  const torch::Tensor tokens = Tokens(sizes, std::min(kTokens, sizes.context));
  ModelDefinition model = Define(name, "a transformer whose adapters are trained", sizes, tokens);
  model.options = [tokens] {
    CompileOptions options;
    options.loss.function = [](const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& targets) {
      return nn::functional::cross_entropy(outputs[0].flatten(0, 1), targets[0].flatten());
    };
    options.loss.targets = {tokens};
    options.optimizer.emplace().options = AdamW();
    options.methods.forward_backward = false;
    options.methods.eval = false;
    options.module.lora = {.modules = {"*.c_attn", "*.c_proj"}, .rank = 8, .alpha = 16};
    return options;
  };
  return model;
}

ModelDefinition Inference(const std::string& name, const Sizes& sizes, int64_t length) {
  ModelDefinition model = Define(name, "a transformer without training", sizes, Tokens(sizes, length));
  model.options = [] {
    CompileOptions options;
    options.methods.forward_backward = false;
    return options;
  };
  return model;
}

}  // namespace

std::vector<ModelDefinition> RegisteredModels() {
  return {Training("gpt2", kGpt2), Training("small", kSmall), Inference("gpt2_eval_1", kGpt2, 1),
          Inference("gpt2_eval_128", kGpt2, kTokens), Inference("small_eval", kSmall, 1)};
}

}  // namespace cotan::aot
