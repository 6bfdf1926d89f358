// The form that updates of parameters have: the gradient, made step by step
// into new contents of states.
#ifndef COTAN_KERNELS_CPU_MATMUL_UPDATE_CHAIN_H_
#define COTAN_KERNELS_CPU_MATMUL_UPDATE_CHAIN_H_

#include <vector>

#include "kernels/api/expr_program.h"

namespace cotan::cpu {

// A number that is the same for all elements: `constant`, times the 0-d input
// `input` unless that is -1.
struct ChainFactor {
  float constant = 1;
  int input = -1;
};

// value = product * value + operand * (element of `input`), which is then
// stored to `output` unless that is -1.
struct ChainStep {
  ChainFactor product;
  ChainFactor operand;
  int input = 0;
  int output = -1;
};

inline constexpr int kMaxChainSteps = 3;

// The steps from input 0 of an expression of f32 to its outputs, 1 to
// kMaxChainSteps of them; indexes are the expression's. SGD with momentum and
// weight decay is such a chain. Empty if the expression is none.
std::vector<ChainStep> FindUpdateChain(const ExprProgram& program, absl::Span<const TensorSpec> inputs);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_MATMUL_UPDATE_CHAIN_H_
