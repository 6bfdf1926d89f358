// SPDX-License-Identifier: Apache-2.0

// An expression op that is checked and has its sizes evaluated. Backends compile or interpret it; the
// verifier builds it to check the op.
#ifndef COTAN_KERNELS_API_EXPR_PROGRAM_H_
#define COTAN_KERNELS_API_EXPR_PROGRAM_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "base/layout.h"
#include "kernels/api/kernel.h"
#include "serialization/schema/expr.pb.h"

namespace cotan {

// Properties of a scalar function. See serialization/schema/expr.proto for their meaning.
int ExprArity(serialization::ScalarFn fn);  // -1: unknown to this build
bool IsExprReduction(serialization::ScalarFn fn);

// Cost classes of one element; each class costs about three times the one before it.
enum class ExprCost : uint8_t {
  kAddition,   // loads, moves, comparisons, sums
  kDivision,   // division and roots
  kQuotient,   // rounded quotients, as index arithmetic has
  kFunction,   // by a polynomial that compilers vectorize for f32: exp, tanh, ...
  kRandom,     // a share of a Philox block
  kRemainder,  // a loop in libm
  kLibrary,    // another call of libm
};
ExprCost ExprCostOf(serialization::ScalarFn fn);

// Returns true if an element costs about as much as loading its operands, so that computing it again is
// cheaper than storing it. False for reductions and random numbers.
bool IsCheapExprFn(serialization::ScalarFn fn);

// Returns a name for messages, such as "exp" or "reduce_sum".
std::string ExprFnName(serialization::ScalarFn fn);

enum class ExprLevel : uint8_t {
  kReduced,  // one value per index of ExprProgram::reduced_sizes
  kFull,     // one value per index of ExprProgram::domain_sizes
};

struct ExprNode {
  serialization::ScalarFn fn = serialization::SCALAR_FN_UNSPECIFIED;
  DType dtype = DType::kUndefined;  // of the result
  ExprLevel level = ExprLevel::kFull;
  // The first ExprArity(fn) are indices of earlier nodes.
  std::array<int, 3> operands = {-1, -1, -1};
  // FN_INPUT, FN_RANDOM_UNIFORM: index of an op input, in range and of the right dtype. FN_IOTA: a domain
  // dimension.
  int index = 0;
  // FN_CONSTANT, FN_SIZE: the value, in `float_value` for float dtypes (not yet rounded to the dtype), in
  // `int_value` for all others.
  double float_value = 0;
  int64_t int_value = 0;
  // FN_RANDOM_UNIFORM: first Philox block, relative to the state's offset.
  uint64_t slice = 0;
};

// A checked expression. Immutable after ResolveExpr(). Without reduce dims every node has level kFull.
struct ExprProgram {
  std::vector<ExprNode> nodes;
  // The node stored by each output of the op.
  std::vector<int> outputs;
  DimVector domain_sizes;
  DimVector reduced_sizes;   // domain_sizes with 1 in every reduce dim
  std::vector<bool> reduce;  // length = rank of the domain

  bool has_reduce_dims = false;

  int rank() const { return static_cast<int>(domain_sizes.size()); }
};

// Checks `request.op`, an Expr, against its operands and evaluates its sizes. A program that passes reads and
// writes only the memory of its operands.
// InvalidArgument: the op violates expr.proto; the message names the instruction or operand.
// Unimplemented: a complex dtype.
absl::StatusOr<ExprProgram> ResolveExpr(const KernelRequest& request);

// Returns the strides, in elements, of an operand over the domain: 0 along broadcast dimensions. `layout` has
// at most the domain's rank; its dimensions are aligned with the last ones of the domain.
DimVector BroadcastStrides(const StridedLayout& layout, absl::Span<const int64_t> domain_sizes);

}  // namespace cotan

#endif  // COTAN_KERNELS_API_EXPR_PROGRAM_H_
