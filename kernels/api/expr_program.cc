// SPDX-License-Identifier: Apache-2.0

#include "kernels/api/expr_program.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "base/sym_int.h"
#include "kernels/api/op_check.h"

namespace cotan {
namespace {

using namespace serialization;  // NOLINT: the enumerators of ScalarFn are many

// The dtypes that a function accepts.
enum class Allowed : uint8_t {
  kAny,
  kFloat,
  kNumber,  // integer or float
  kInteger,
  kIntegerOrBool,
  kBool,
};

struct FnFacts {
  int arity = -1;
  Allowed allowed = Allowed::kAny;
  ExprCost cost = ExprCost::kAddition;
  bool bool_result = false;  // otherwise the result has the operands' dtype
  bool reduction = false;
};

FnFacts FactsOf(ScalarFn fn) {
  using enum ExprCost;
  switch (fn) {
    case FN_INPUT:
    case FN_CONSTANT:
      return {0, Allowed::kAny, kAddition};
    case FN_SIZE:
    case FN_IOTA:
      return {0, Allowed::kNumber, kAddition};
    case FN_RANDOM_UNIFORM:
      return {0, Allowed::kFloat, kRandom};
    case FN_CAST:
    case FN_SIGN:
      return {1, Allowed::kAny, kAddition};
    case FN_NEG:
    case FN_ABS:
    case FN_RELU:
      return {1, Allowed::kNumber, kAddition};
    case FN_CEIL:
    case FN_FLOOR:
    case FN_ROUND:
    case FN_TRUNC:
      return {1, Allowed::kFloat, kAddition};
    case FN_SQRT:
    case FN_RSQRT:
    case FN_RECIPROCAL:
      return {1, Allowed::kFloat, kDivision};
    case FN_EXP:
    case FN_EXPM1:
    case FN_LOG:
    case FN_LOG1P:
    case FN_SIN:
    case FN_COS:
    case FN_TANH:
    case FN_ERF:
    case FN_LOGISTIC:
      return {1, Allowed::kFloat, kFunction};
    case FN_EXP2:
    case FN_LOG2:
    case FN_LOG10:
    case FN_TAN:
    case FN_ASIN:
    case FN_ACOS:
    case FN_ATAN:
    case FN_SINH:
    case FN_COSH:
    case FN_ASINH:
    case FN_ACOSH:
    case FN_ATANH:
    case FN_ERFC:
    case FN_ERFINV:
    case FN_LGAMMA:
    case FN_DIGAMMA:
      return {1, Allowed::kFloat, kLibrary};
    case FN_LOGICAL_NOT:
      return {1, Allowed::kBool, kAddition, true};
    case FN_BITWISE_NOT:
      return {1, Allowed::kIntegerOrBool, kAddition};
    case FN_ISNAN:
    case FN_ISINF:
      return {1, Allowed::kFloat, kAddition, true};
    case FN_ADD:
    case FN_MUL:
    case FN_MAXIMUM:
    case FN_MINIMUM:
    case FN_FMAX:
    case FN_FMIN:
      return {2, Allowed::kAny, kAddition};
    case FN_SUB:
      return {2, Allowed::kNumber, kAddition};
    case FN_FLOOR_DIV:
    case FN_TRUNC_DIV:
      return {2, Allowed::kNumber, kQuotient};
    case FN_REMAINDER:
    case FN_FMOD:
      return {2, Allowed::kNumber, kRemainder};
    case FN_POW:
      return {2, Allowed::kNumber, kLibrary};
    case FN_DIV:
      return {2, Allowed::kFloat, kDivision};
    case FN_ATAN2:
    case FN_HYPOT:
      return {2, Allowed::kFloat, kLibrary};
    case FN_COPYSIGN:
      return {2, Allowed::kFloat, kAddition};
    case FN_EQ:
    case FN_NE:
    case FN_LT:
    case FN_LE:
    case FN_GT:
    case FN_GE:
      return {2, Allowed::kAny, kAddition, true};
    case FN_AND:
    case FN_OR:
    case FN_XOR:
      return {2, Allowed::kIntegerOrBool, kAddition};
    case FN_SHIFT_LEFT:
    case FN_SHIFT_RIGHT:
      return {2, Allowed::kInteger, kAddition};
    case FN_SELECT:
      return {3, Allowed::kAny, kAddition};
    case FN_REDUCE_SUM:
    case FN_REDUCE_PROD:
    case FN_REDUCE_MAX:
    case FN_REDUCE_MIN:
      return {1, Allowed::kAny, kAddition, false, true};
    case SCALAR_FN_UNSPECIFIED:
    default:  // a newer file's function: the enumeration is open
      return {};
  }
}

bool Allows(Allowed allowed, DType dtype) {
  switch (allowed) {
    case Allowed::kAny:
      return true;
    case Allowed::kFloat:
      return IsFloatingPoint(dtype);
    case Allowed::kNumber:
      return dtype != DType::kBool;
    case Allowed::kInteger:
      return IsInteger(dtype);
    case Allowed::kIntegerOrBool:
      return !IsFloatingPoint(dtype);
    case Allowed::kBool:
      return dtype == DType::kBool;
  }
  return false;
}

// Checks one Expr and builds its ExprProgram.
class Resolver {
 public:
  explicit Resolver(const KernelRequest& request) : request_(request), expr_(request.op.expr()) {}

  absl::StatusOr<ExprProgram> Resolve() {
    COTAN_RETURN_IF_ERROR(ResolveDomain());
    for (int i = 0; i < expr_.instructions_size(); ++i) {
      const absl::Status status = ResolveInstruction(expr_.instructions(i));
      if (status.ok()) continue;
      return absl::Status(status.code(), absl::StrCat("instruction ", i, " (", ExprFnName(expr_.instructions(i).fn()),
                                                      "): ", status.message()));
    }
    COTAN_RETURN_IF_ERROR(ResolveOutputs());
    return std::move(program_);
  }

 private:
  absl::StatusOr<int64_t> EvaluateSize(absl::string_view text) const {
    COTAN_ASSIGN_OR_RETURN(const SymInt size, SymInt::Parse(text));
    return size.Evaluate(request_.symbols);
  }

  absl::Status ResolveDomain() {
    for (const std::string& text : expr_.domain_sizes()) {
      COTAN_ASSIGN_OR_RETURN(const int64_t size, EvaluateSize(text));
      program_.domain_sizes.push_back(size);
    }
    if (CheckedNumElements(program_.domain_sizes) < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("domain [", absl::StrJoin(program_.domain_sizes, ","), "] is negative or too large"));
    }
    program_.reduced_sizes = program_.domain_sizes;
    program_.reduce.assign(program_.domain_sizes.size(), false);
    int64_t last = -1;
    for (const uint32_t dim : expr_.reduce_dims()) {
      if (dim >= program_.domain_sizes.size() || static_cast<int64_t>(dim) <= last) {
        return absl::InvalidArgumentError(
            absl::StrCat("reduce_dims must be ascending and below ", program_.rank(), ", found ", dim));
      }
      last = dim;
      program_.reduce[dim] = true;
      program_.reduced_sizes[dim] = 1;
      program_.has_reduce_dims = true;
    }
    return absl::OkStatus();
  }

  absl::Status ResolveInstruction(const ExprInstruction& instruction) {
    const FnFacts facts = FactsOf(instruction.fn());
    if (facts.arity < 0) return absl::InvalidArgumentError("unknown function; the program needs a newer runtime");
    ExprNode node;
    node.fn = instruction.fn();
    COTAN_RETURN_IF_ERROR(CheckExprDType(instruction.dtype()));
    node.dtype = static_cast<DType>(instruction.dtype());
    if (instruction.operands_size() != facts.arity) {
      return absl::InvalidArgumentError(
          absl::StrCat("has ", instruction.operands_size(), " operands, takes ", facts.arity));
    }
    for (int k = 0; k < facts.arity; ++k) {
      if (instruction.operands(k) >= program_.nodes.size()) {
        return absl::InvalidArgumentError(
            absl::StrCat("operand ", k, " names instruction ", instruction.operands(k), ", which does not precede it"));
      }
      node.operands[static_cast<size_t>(k)] = static_cast<int>(instruction.operands(k));
    }
    COTAN_RETURN_IF_ERROR(CheckDTypes(facts, node));
    if (facts.arity == 0) {
      COTAN_RETURN_IF_ERROR(ResolveLeaf(instruction, node));
    } else {
      node.level = LevelOf(facts, node);
    }
    if (facts.reduction && !program_.has_reduce_dims) {
      return absl::InvalidArgumentError("reduces, but the expression has no reduce_dims");
    }
    Fold(node);
    program_.nodes.push_back(node);
    return absl::OkStatus();
  }

  // Folds f64 arithmetic on constants, and casts of constants, into constants. Expressions use sizes in this
  // form.
  void Fold(ExprNode& node) const {
    const int arity = ExprArity(node.fn);
    if (arity < 1 || arity > 2 || !IsFloatingPoint(node.dtype)) return;
    double values[2] = {0, 0};
    for (int k = 0; k < arity; ++k) {
      const ExprNode& operand = program_.nodes[static_cast<size_t>(node.operands[static_cast<size_t>(k)])];
      const bool is_number = operand.fn == FN_CONSTANT || operand.fn == FN_SIZE;
      if (!is_number || operand.dtype != DType::kFloat64) return;
      values[k] = operand.float_value;
    }
    double result = 0;
    switch (node.fn) {
      case FN_CAST:
        result = values[0];
        break;
      case FN_SQRT:
        result = std::sqrt(values[0]);
        break;
      case FN_ADD:
        result = values[0] + values[1];
        break;
      case FN_MUL:
        result = values[0] * values[1];
        break;
      case FN_DIV:
        result = values[0] / values[1];
        break;
      default:
        return;
    }
    node.fn = FN_CONSTANT;
    node.operands = {-1, -1, -1};
    node.float_value = result;
  }

  static absl::Status CheckExprDType(DTypeProto dtype) {
    if (dtype <= DTYPE_UNDEFINED || dtype > DTYPE_F8E5M2) {
      return absl::InvalidArgumentError(absl::StrCat("unknown dtype ", static_cast<int>(dtype)));
    }
    if (IsComplex(static_cast<DType>(dtype))) {
      return absl::UnimplementedError(
          absl::StrCat("expressions of ", DTypeName(static_cast<DType>(dtype)), " are not supported"));
    }
    return absl::OkStatus();
  }

  DType OperandDType(const ExprNode& node, int k) const {
    return program_.nodes[static_cast<size_t>(node.operands[static_cast<size_t>(k)])].dtype;
  }

  absl::Status CheckDTypes(const FnFacts& facts, const ExprNode& node) const {
    if (node.fn == FN_CAST) return absl::OkStatus();
    // The dtype in which the function computes.
    DType dtype = facts.arity == 0 ? node.dtype : OperandDType(node, 0);
    for (int k = 0; k < facts.arity; ++k) {
      if (IsStorageOnly(OperandDType(node, k))) return NoArithmetic(OperandDType(node, k));
    }
    if (IsStorageOnly(node.dtype) && node.fn != FN_INPUT && node.fn != FN_CONSTANT) return NoArithmetic(node.dtype);
    if (node.fn == FN_SELECT) {
      if (dtype != DType::kBool) {
        return absl::InvalidArgumentError(absl::StrCat("the condition is ", DTypeName(dtype), ", not bool"));
      }
      dtype = OperandDType(node, 1);
      if (OperandDType(node, 2) != dtype) return DTypeMismatch(dtype, OperandDType(node, 2));
    } else if (facts.arity == 2 && OperandDType(node, 1) != dtype) {
      return DTypeMismatch(dtype, OperandDType(node, 1));
    }
    if (!Allows(facts.allowed, dtype)) {
      return absl::InvalidArgumentError(absl::StrCat("does not take ", DTypeName(dtype)));
    }
    const DType result = facts.bool_result ? DType::kBool : dtype;
    if (node.dtype != result) {
      return absl::InvalidArgumentError(absl::StrCat("yields ", DTypeName(result), ", not ", DTypeName(node.dtype)));
    }
    return absl::OkStatus();
  }

  static absl::Status NoArithmetic(DType dtype) {
    return absl::InvalidArgumentError(
        absl::StrCat("does not compute in ", DTypeName(dtype), ", a dtype for storage: cast to f32 first"));
  }

  static absl::Status DTypeMismatch(DType a, DType b) {
    return absl::InvalidArgumentError(absl::StrCat("operands are ", DTypeName(a), " and ", DTypeName(b)));
  }

  ExprLevel LevelOf(const FnFacts& facts, const ExprNode& node) const {
    if (facts.reduction) return ExprLevel::kReduced;
    for (int k = 0; k < facts.arity; ++k) {
      const auto operand = static_cast<size_t>(node.operands[static_cast<size_t>(k)]);
      if (program_.nodes[operand].level == ExprLevel::kFull) return ExprLevel::kFull;
    }
    return ExprLevel::kReduced;
  }

  absl::Status ResolveLeaf(const ExprInstruction& instruction, ExprNode& node) const {
    switch (node.fn) {
      case FN_INPUT:
        return ResolveInput(instruction, node);
      case FN_RANDOM_UNIFORM:
        return ResolveRandom(instruction, node);
      case FN_IOTA:
        if (instruction.index() >= program_.domain_sizes.size()) {
          return absl::InvalidArgumentError(
              absl::StrCat("domain dimension ", instruction.index(), " of ", program_.rank()));
        }
        node.index = static_cast<int>(instruction.index());
        return absl::OkStatus();
      case FN_SIZE: {
        COTAN_ASSIGN_OR_RETURN(node.int_value, EvaluateSize(instruction.size()));
        node.float_value = static_cast<double>(node.int_value);
        break;
      }
      default:  // FN_CONSTANT
        node.float_value = instruction.float_value();
        node.int_value = instruction.int_value();
        break;
    }
    node.level = program_.has_reduce_dims ? ExprLevel::kReduced : ExprLevel::kFull;
    return absl::OkStatus();
  }

  absl::Status ResolveInput(const ExprInstruction& instruction, ExprNode& node) const {
    if (instruction.index() >= request_.inputs.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("names input ", instruction.index(), " of ", request_.inputs.size()));
    }
    node.index = static_cast<int>(instruction.index());
    const TensorSpec& input = request_.inputs[instruction.index()];
    if (input.dtype != node.dtype) {
      return absl::InvalidArgumentError(
          absl::StrCat("input ", node.index, " is ", DTypeName(input.dtype), ", not ", DTypeName(node.dtype)));
    }
    const auto missing = static_cast<size_t>(program_.rank() - input.layout.rank());
    bool fits = input.layout.rank() <= program_.rank();
    node.level = program_.has_reduce_dims ? ExprLevel::kReduced : ExprLevel::kFull;
    for (size_t d = 0; fits && d < input.layout.sizes.size(); ++d) {
      const int64_t size = input.layout.sizes[d];
      fits = size == 1 || size == program_.domain_sizes[missing + d];
      if (size != 1 && program_.reduce[missing + d]) node.level = ExprLevel::kFull;
    }
    if (fits) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("input ", node.index, " has sizes [", absl::StrJoin(input.layout.sizes, ","),
                     "], which do not broadcast to the domain [", absl::StrJoin(program_.domain_sizes, ","), "]"));
  }

  absl::Status ResolveRandom(const ExprInstruction& instruction, ExprNode& node) const {
    if (node.dtype != DType::kFloat32) return absl::InvalidArgumentError("random numbers must be f32");
    if (instruction.index() >= request_.inputs.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("names input ", instruction.index(), " of ", request_.inputs.size()));
    }
    node.index = static_cast<int>(instruction.index());
    const TensorSpec& state = request_.inputs[instruction.index()];
    if (state.dtype != DType::kInt64 || state.layout.rank() != 1 || state.layout.sizes[0] != 2) {
      return absl::InvalidArgumentError(absl::StrCat("input ", node.index, " must be an RNG state, i64[2], not ",
                                                     DTypeName(state.dtype), "[",
                                                     absl::StrJoin(state.layout.sizes, ","), "]"));
    }
    if (instruction.slice().empty()) return absl::OkStatus();
    COTAN_ASSIGN_OR_RETURN(const int64_t slice, EvaluateSize(instruction.slice()));
    if (slice < 0) return absl::InvalidArgumentError(absl::StrCat("slice ", slice, " is negative"));
    node.slice = static_cast<uint64_t>(slice);
    return absl::OkStatus();
  }

  absl::Status ResolveOutputs() {
    if (static_cast<size_t>(expr_.outputs_size()) != request_.outputs.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the expression has ", expr_.outputs_size(), " outputs, the op ", request_.outputs.size()));
    }
    for (int k = 0; k < expr_.outputs_size(); ++k) {
      if (expr_.outputs(k) >= program_.nodes.size()) {
        return absl::InvalidArgumentError(
            absl::StrCat("output ", k, " names instruction ", expr_.outputs(k), " of ", program_.nodes.size()));
      }
      const ExprNode& node = program_.nodes[expr_.outputs(k)];
      const TensorSpec& output = request_.outputs[static_cast<size_t>(k)];
      const DimVector& sizes = node.level == ExprLevel::kFull ? program_.domain_sizes : program_.reduced_sizes;
      if (output.dtype != node.dtype || output.layout.sizes != sizes) {
        return absl::InvalidArgumentError(
            absl::StrCat("output ", k, " is ", DTypeName(output.dtype), "[", absl::StrJoin(output.layout.sizes, ","),
                         "], the expression yields ", DTypeName(node.dtype), "[", absl::StrJoin(sizes, ","), "]"));
      }
      program_.outputs.push_back(static_cast<int>(expr_.outputs(k)));
    }
    return absl::OkStatus();
  }

  const KernelRequest& request_;
  const Expr& expr_;
  ExprProgram program_;
};

}  // namespace

int ExprArity(ScalarFn fn) { return FactsOf(fn).arity; }

ExprCost ExprCostOf(ScalarFn fn) { return FactsOf(fn).cost; }

bool IsCheapExprFn(ScalarFn fn) {
  const FnFacts facts = FactsOf(fn);
  return facts.arity >= 0 && !facts.reduction && facts.cost <= ExprCost::kQuotient;
}

bool IsExprReduction(ScalarFn fn) { return FactsOf(fn).reduction; }

std::string ExprFnName(ScalarFn fn) {
  if (!ScalarFn_IsValid(fn)) return absl::StrCat("function ", static_cast<int>(fn));
  return absl::AsciiStrToLower(absl::StripPrefix(ScalarFn_Name(fn), "FN_"));
}

absl::StatusOr<ExprProgram> ResolveExpr(const KernelRequest& request) {
  if (!request.op.has_expr()) return absl::InvalidArgumentError("the op has no expression");
  COTAN_RETURN_IF_ERROR(CheckOperandLayouts(request));
  return Resolver(request).Resolve();
}

DimVector BroadcastStrides(const StridedLayout& layout, absl::Span<const int64_t> domain_sizes) {
  DimVector strides(domain_sizes.size(), 0);
  const size_t missing = domain_sizes.size() - layout.sizes.size();
  for (size_t d = 0; d < layout.sizes.size(); ++d) {
    if (layout.sizes[d] != 1) strides[missing + d] = layout.strides[d];
  }
  return strides;
}

}  // namespace cotan
