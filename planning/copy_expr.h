// SPDX-License-Identifier: Apache-2.0

// Copies the part of an expression that some of its outputs need.
#ifndef COTAN_PLANNING_COPY_EXPR_H_
#define COTAN_PLANNING_COPY_EXPR_H_

#include <vector>

#include "absl/functional/function_ref.h"
#include "serialization/schema/expr.pb.h"

namespace cotan {

// In all functions `outputs` are numbers of outputs of the expression, and `replaced` is, by instruction, the input
// that it becomes; -1 for those that stay.

// Returns whether the instruction reads one of the expression's inputs.
bool ReadsInput(const serialization::ExprInstruction& instruction);

// Returns, by instruction, whether the outputs need it.
std::vector<bool> NeededBy(const serialization::Expr& expr, const std::vector<int>& outputs,
                           const std::vector<int>& replaced);

// Copies the instructions that the outputs need, without `reduce_dims`. Inputs get the numbers that `input` returns.
serialization::Expr CopyNeeded(const serialization::Expr& expr, const std::vector<int>& outputs,
                               const std::vector<int>& replaced, absl::FunctionRef<int(int)> input);

// Returns the inputs that the outputs need, in the order of their first use.
std::vector<int> InputsOf(const serialization::Expr& expr, const std::vector<int>& outputs,
                          const std::vector<int>& replaced);

// Returns the place of an input in a list to which it is added if it is new.
int NumberIn(std::vector<int>& list, int input);

}  // namespace cotan

#endif  // COTAN_PLANNING_COPY_EXPR_H_
