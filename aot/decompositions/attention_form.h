// SPDX-License-Identifier: Apache-2.0

// How scaled_dot_product_attention is compiled.
#ifndef COTAN_AOT_DECOMPOSITIONS_ATTENTION_FORM_H_
#define COTAN_AOT_DECOMPOSITIONS_ATTENTION_FORM_H_

#include <cstdint>

namespace cotan::aot {

enum class AttentionForm : uint8_t {
  kAuto,      // kFused where it is expected to be faster on the target, else kComposed
  kComposed,  // products and a softmax; the matrix of scores is stored
  kFused,     // one op, and one for its backward, wherever IsFusable() in attention.h
};

// The form of the attentions of a trace, and what kAuto depends on.
struct AttentionRule {
  AttentionForm form = AttentionForm::kComposed;
  bool for_cuda = false;    // the program is compiled for a CUDA GPU
  bool sizes_vary = false;  // traces at several sizes become one program: all of them need the same form
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_DECOMPOSITIONS_ATTENTION_FORM_H_
