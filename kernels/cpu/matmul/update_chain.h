// SPDX-License-Identifier: Apache-2.0

// Optimizer updates of a parameter as a chain: starting with the gradient, each step is a multiply-add whose
// value may be stored to a state.
#ifndef COTAN_KERNELS_CPU_MATMUL_UPDATE_CHAIN_H_
#define COTAN_KERNELS_CPU_MATMUL_UPDATE_CHAIN_H_

#include <vector>

#include "kernels/api/expr_program.h"

namespace cotan::cpu {

// A factor that all elements share: `constant`, times the 0-d input `input` unless that is -1.
struct ChainFactor {
  float constant = 1;
  int input = -1;
};

// value = product * value + operand * (element of input `input`). The new value is then stored to output
// `output` unless that is -1.
struct ChainStep {
  ChainFactor product;
  ChainFactor operand;
  int input = 0;
  int output = -1;
};

inline constexpr int kMaxChainSteps = 3;

// Returns the steps from input 0 of an f32 expression to its outputs, 1 to kMaxChainSteps of them, or no step
// if the expression does not have this form. SGD with momentum and weight decay has it. Inputs and outputs
// are numbered as in the expression.
std::vector<ChainStep> FindUpdateChain(const ExprProgram& program, absl::Span<const TensorSpec> inputs);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_MATMUL_UPDATE_CHAIN_H_
