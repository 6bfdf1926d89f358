// An expression op, checked and with its sizes evaluated: what every backend
// compiles or interprets, and what the verifier builds to know that it can.
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

// Facts about a scalar function. See serialization/schema/expr.proto for meanings.
int ExprArity(serialization::ScalarFn fn);  // -1: a function that this build does not know
bool IsExprReduction(serialization::ScalarFn fn);

// What one element costs, in classes that grow about threefold.
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

// Whether an element costs about as much as loading the operands: compilers rather
// compute it again than store it. Neither reductions nor random numbers.
bool IsCheapExprFn(serialization::ScalarFn fn);

// "exp", "reduce_sum": for messages.
std::string ExprFnName(serialization::ScalarFn fn);

enum class ExprLevel : uint8_t {
  kReduced,  // one value per index of ExprProgram::reduced_sizes
  kFull,     // one value per index of ExprProgram::domain_sizes
};

struct ExprNode {
  serialization::ScalarFn fn = serialization::SCALAR_FN_UNSPECIFIED;
  DType dtype = DType::kUndefined;  // of the result
  ExprLevel level = ExprLevel::kFull;
  // The first ExprArity(fn) are indexes of earlier nodes.
  std::array<int, 3> operands = {-1, -1, -1};
  // FN_INPUT, FN_RANDOM_UNIFORM: index of an op input, in range and of the
  // right dtype. FN_IOTA: a domain dimension.
  int index = 0;
  // FN_CONSTANT, FN_SIZE: the value; `float_value` counts for float dtypes
  // (not yet rounded to the dtype), `int_value` for all others.
  double float_value = 0;
  int64_t int_value = 0;
  // FN_RANDOM_UNIFORM: first Philox block, relative to the state's offset.
  uint64_t slice = 0;
};

// Immutable once made. Without reduce dims every node is full.
struct ExprProgram {
  std::vector<ExprNode> nodes;
  // Length = number of op outputs: node stored by each.
  std::vector<int> outputs;
  DimVector domain_sizes;
  DimVector reduced_sizes;   // domain_sizes with 1 in every reduce dim
  std::vector<bool> reduce;  // length = rank of the domain

  bool has_reduce_dims = false;

  int rank() const { return static_cast<int>(domain_sizes.size()); }
};

// Checks the op `request.op` (which holds an Expr) against its operands and
// evaluates its sizes. A program that passes can be run on the operands' memory
// without reading or writing outside of it.
// InvalidArgument: anything that expr.proto does not allow; the message names
// the instruction or operand. Unimplemented: complex dtypes.
absl::StatusOr<ExprProgram> ResolveExpr(const KernelRequest& request);

// Strides, in elements, with which an operand walks the domain: 0 along
// dimensions it broadcasts. `layout` has at most the domain's rank, aligned at
// the last dimension.
DimVector BroadcastStrides(const StridedLayout& layout, absl::Span<const int64_t> domain_sizes);

}  // namespace cotan

#endif  // COTAN_KERNELS_API_EXPR_PROGRAM_H_
