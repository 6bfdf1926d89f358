// SPDX-License-Identifier: Apache-2.0

// Low-rank adapters of linear layers: the states that they add to a model.
#ifndef COTAN_AOT_FRONTEND_LORA_H_
#define COTAN_AOT_FRONTEND_LORA_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "aot/capture/traced_function.h"
#include "aot/decompositions/linear_adapters.h"

namespace cotan::aot {

// Fine-tuning by low-rank adapters (Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021), as the PEFT
// library does it: a linear layer with weight W computes x W^T + bias + alpha / rank * (x A^T) B^T; A and B are
// trained, and all parameters of the model are frozen.
struct LoraOptions {
  // Names of linear layers, as "*.q_proj". Patterns: '*' is any text, '?' any character. Empty: no adapters.
  std::vector<std::string> modules = {};
  int64_t rank = 8;
  double alpha = 16;
  // Names of parameters that are trained, too, as "classifier.*".
  std::vector<std::string> trained = {};
};

// Adds the states of the adapters to those of a model, parameters after its parameters and buffers after its buffers,
// and freezes the model's parameters. An adapter of layer "m" has the parameters "m.lora_A.weight" [rank, in], uniform
// within 1/sqrt(in) from `seed`, and "m.lora_B.weight" [out, rank], zeros, in the dtype of the weight; and the f32
// buffer "m.lora_scaling" [], which no checkpoint holds. Returns the adapters, for LinearAdapterScope. InvalidArgument:
// the rank is below 1; a pattern matches no layer, or no parameter, or a layer whose weight is not a matrix of floating
// point numbers; a name is in use. May throw what LibTorch throws.
absl::StatusOr<std::vector<LinearAdapter>> AddLoraAdapters(const LoraOptions& options, uint64_t seed,
                                                           std::vector<ModuleState>& states);

}  // namespace cotan::aot

#endif  // COTAN_AOT_FRONTEND_LORA_H_
