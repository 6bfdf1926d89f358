// SPDX-License-Identifier: Apache-2.0

// scaled_dot_product_attention in two forms (attention_form.h). The fused one is
// _scaled_dot_product_flash_attention_for_cpu, which LibTorch computes in eager mode on the CPU. Its backward has no
// derivative in LibTorch; a backward that is to be differentiated (create_graph) computes the attention again in the
// composed form.
#ifndef COTAN_AOT_DECOMPOSITIONS_ATTENTION_H_
#define COTAN_AOT_DECOMPOSITIONS_ATTENTION_H_

#include <ATen/core/Tensor.h>

#include <optional>

#include "aot/decompositions/attention_form.h"

namespace cotan::aot {

// Sets the rule of the attentions that this thread traces within its scope. Outside of any scope: kComposed.
class AttentionScope {
 public:
  explicit AttentionScope(const AttentionRule& rule);
  ~AttentionScope();
  AttentionScope(const AttentionScope&) = delete;
  AttentionScope& operator=(const AttentionScope&) = delete;

 private:
  AttentionRule previous_;
};

// The operands of an attention after autocast: q [B, H, L, E], k [B, H, S, E], v [B, H, S, E] if it is fusable.
struct AttentionOperands {
  at::Tensor q, k, v;
  std::optional<at::Tensor> mask;  // bool, or added to the scores
  bool is_causal = false;
  double scale = 1;
};

// Returns whether the fused op takes the operands: rank 4 with elements; one floating-point dtype and one size of rows,
// whose elements are adjacent; a mask that needs no gradient, has 2 or 4 dimensions, and is bool or of the same dtype.
bool IsFusable(const AttentionOperands& operands);

// Returns whether an attention that is fusable is fused. kAuto fuses
// - for CUDA, with rows of at most 128 elements: f32 at 64 keys or more; f16 and bf16 at 128 keys or more, without a
//   mask and with rows of a multiple of 8 elements, which cuDNN computes on tensor cores; at any number of keys if
//   sizes vary;
// - for the CPU, at sizes that do not vary: with a causal mask, f32 and f64 at 32 keys or more, f16 and bf16 at 192;
//   without a mask, f32 and f64 at 512 queries and keys or more.
bool IsFused(const AttentionRule& rule, const AttentionOperands& operands);

// The rewrite of the op; its arguments are those of LibTorch.
at::Tensor Attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     const std::optional<at::Tensor>& mask, double dropout_p, bool is_causal,
                     std::optional<double> scale, bool enable_gqa);

}  // namespace cotan::aot

#endif  // COTAN_AOT_DECOMPOSITIONS_ATTENTION_H_
