// SPDX-License-Identifier: Apache-2.0

// Expressions that turn small integers into f32: value = (integer - zero) * factor, with a factor for each row, or for
// each group of a row. They are the weights that are stored in 8 or 4 bits (aot/decompositions/quantized_weights.h).
#ifndef COTAN_KERNELS_CPU_EXPR_DEQUANTIZATION_H_
#define COTAN_KERNELS_CPU_EXPR_DEQUANTIZATION_H_

#include <optional>

#include "absl/types/span.h"
#include "kernels/api/expr_program.h"
#include "kernels/api/kernel.h"

namespace cotan::cpu::expr {

// Inputs and dimensions are those of the expression.
struct Dequantization {
  int data = -1;    // input: bytes, i8 or u8
  int factor = -1;  // input: factors, f32
  // -1: the integer is the byte. Otherwise a domain dimension of size 2: the integer is the low four bits of the byte
  // at index 0, and the high four bits at index 1.
  int half_dim = -1;
  // -1, or the input of bytes that selects the half: this holds if it has 0 and 4, the shifts, along half_dim. Its
  // values are data.
  int shift = -1;
  float zero = 0;
};

// Returns what `program`, an expression with these inputs, computes if it has this form, whatever instructions compute
// (integer - zero): they are evaluated for each of the 256 bytes. Otherwise returns nothing.
std::optional<Dequantization> FindDequantization(const ExprProgram& program, absl::Span<const TensorSpec> inputs);

}  // namespace cotan::cpu::expr

#endif  // COTAN_KERNELS_CPU_EXPR_DEQUANTIZATION_H_
