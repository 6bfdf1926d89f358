// SPDX-License-Identifier: Apache-2.0

// Takes apart an expression that reads a matrix product: into an epilogue of the product and the rest.
#ifndef COTAN_PLANNING_EXPR_PARTS_H_
#define COTAN_PLANNING_EXPR_PARTS_H_

#include <optional>
#include <vector>

#include "base/dtype.h"
#include "kernels/api/expr_program.h"
#include "serialization/schema/expr.pb.h"

namespace cotan {

// Inputs and outputs are numbered as in the whole expression.
struct ExprParts {
  // Without reductions. Input 0 is the product, input i > 0 is fused_inputs[i - 1]; outputs are fused_outputs, of which
  // the first one has the product's dtype.
  serialization::Expr fused;
  std::vector<int> fused_inputs;
  std::vector<int> fused_outputs;
  // Its inputs are rest_inputs, then fused_outputs; its outputs are rest_outputs.
  bool has_rest = false;
  serialization::Expr rest;
  std::vector<int> rest_inputs;
  std::vector<int> rest_outputs;
};

// Splits `expr`, which ResolveExpr() made `program` of. `is_product` says, by input, whether it is the product, of
// `dtype`. The epilogue has the outputs that depend on the product and on no reduction; without reductions it has all.
// Returns nothing if there is no such output, none of the product's dtype, or the rest would read the product itself.
std::optional<ExprParts> SplitExpr(const serialization::Expr& expr, const ExprProgram& program,
                                   const std::vector<bool>& is_product, DType dtype);

// Returns the epilogue. `has_addend`: its input 1 is added to the product first, and the others follow.
serialization::Expr EpilogueOf(const ExprParts& parts, bool has_addend, DType dtype);

}  // namespace cotan

#endif  // COTAN_PLANNING_EXPR_PARTS_H_
