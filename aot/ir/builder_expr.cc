// SPDX-License-Identifier: Apache-2.0

// Pointwise functions and reductions of the Builder: one-function cotan.expr nodes.
#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "aot/ir/builder.h"
#include "aot/ir/expr_text.h"

namespace cotan::aot {
namespace {

using serialization::Expr;
using serialization::ExprInstruction;
using serialization::ScalarFn;

bool IsComparison(ScalarFn fn) { return fn >= serialization::FN_EQ && fn <= serialization::FN_GE; }

bool HasBoolResult(ScalarFn fn) {
  return IsComparison(fn) || fn == serialization::FN_ISNAN || fn == serialization::FN_ISINF;
}

uint32_t AddInstruction(Expr& expr, ScalarFn fn, DType dtype, absl::Span<const uint32_t> operands) {
  ExprInstruction& instruction = *expr.add_instructions();
  instruction.set_fn(fn);
  instruction.set_dtype(ToProto(dtype));
  for (const uint32_t operand : operands) instruction.add_operands(operand);
  return static_cast<uint32_t>(expr.instructions_size() - 1);
}

void SetDomain(Expr& expr, const SymIntVector& sizes) {
  for (const SymInt& size : sizes) expr.add_domain_sizes(size.ToString());
}

}  // namespace

Tensor Builder::EmitExpr(Expr expr, std::vector<Argument> arguments, TensorType type) {
  expr.add_outputs(static_cast<uint32_t>(expr.instructions_size() - 1));
  return EmitNode(std::string(kExprOp), std::move(arguments), {std::move(type)},
                  std::make_shared<const Expr>(std::move(expr)))[0];
}

uint32_t Builder::Load(const Tensor& tensor, DType dtype, Expr& expr, std::vector<Argument>& arguments) {
  if (tensor.is_literal()) {
    if (!tensor.is_float_ && !tensor.integer_.is_constant()) {
      const uint32_t position = AddInstruction(expr, serialization::FN_SIZE, dtype, {});
      expr.mutable_instructions(static_cast<int>(position))->set_size(tensor.integer_.ToString());
      return position;
    }
    const uint32_t position = AddInstruction(expr, serialization::FN_CONSTANT, dtype, {});
    ExprInstruction& instruction = *expr.mutable_instructions(static_cast<int>(position));
    const double number = tensor.is_float_ ? tensor.number_ : static_cast<double>(tensor.integer_.constant());
    if (IsFloatingPoint(dtype)) {
      instruction.set_float_value(number);
    } else if (dtype == DType::kBool) {
      instruction.set_int_value(number != 0);
    } else {
      instruction.set_int_value(tensor.is_float_ ? static_cast<int64_t>(number) : tensor.integer_.constant());
    }
    return position;
  }
  const Use use{StripExpand(tensor).id()};
  size_t index = 0;
  while (index < arguments.size() && !(std::get<Use>(arguments[index]) == use)) ++index;
  if (index == arguments.size()) arguments.push_back(use);
  const uint32_t position = AddInstruction(expr, serialization::FN_INPUT, tensor.dtype(), {});
  expr.mutable_instructions(static_cast<int>(position))->set_index(static_cast<uint32_t>(index));
  if (tensor.dtype() != dtype) {
    Fail(absl::InternalError(
        absl::StrCat("operand has dtype ", DTypeName(tensor.dtype()), ", expected ", DTypeName(dtype))));
  }
  return position;
}

SymIntVector Builder::Broadcast(absl::Span<const Tensor> tensors) {
  SymIntVector sizes;
  for (const Tensor& tensor : tensors) {
    if (tensor.is_literal()) continue;
    const SymIntVector& other = tensor.sizes();
    if (other.size() > sizes.size()) sizes.insert(sizes.begin(), other.size() - sizes.size(), SymInt(1));
    const size_t lead = sizes.size() - other.size();
    for (size_t i = 0; i < other.size(); ++i) {
      SymInt& size = sizes[lead + i];
      if (size == SymInt(1)) {
        size = other[i];
      } else if (!(other[i] == SymInt(1)) && !(other[i] == size)) {
        Fail(absl::InternalError(
            absl::StrCat("sizes that do not broadcast: ", size.ToString(), " and ", other[i].ToString())));
      }
    }
  }
  return sizes;
}

Tensor Builder::Pointwise(ScalarFn fn, absl::Span<const Tensor> operands, DType operand_dtype, DType dtype) {
  Expr expr;
  std::vector<Argument> arguments;
  std::vector<uint32_t> positions;
  for (size_t i = 0; i < operands.size(); ++i) {
    const bool is_condition = fn == serialization::FN_SELECT && i == 0;
    positions.push_back(Load(operands[i], is_condition ? DType::kBool : operand_dtype, expr, arguments));
  }
  TensorType type{dtype, Broadcast(operands), {}};
  SetDomain(expr, type.sizes);
  AddInstruction(expr, fn, dtype, positions);
  return EmitExpr(std::move(expr), std::move(arguments), std::move(type));
}

Tensor Builder::Full(const Tensor& value, DType dtype, SymIntVector sizes) {
  if (!value.is_literal()) return Expand(Cast(value, dtype), std::move(sizes));
  Expr expr;
  std::vector<Argument> arguments;
  Load(value, dtype, expr, arguments);
  SetDomain(expr, sizes);
  return EmitExpr(std::move(expr), {}, {dtype, std::move(sizes), {}});
}

Tensor Builder::Unary(ScalarFn fn, const Tensor& a) {
  if (a.is_literal() && fn == serialization::FN_NEG)
    return a.is_float_ ? Literal(-a.number_) : Literal(SymInt(0) - a.integer_);
  if (a.is_literal()) {
    Fail(absl::InternalError("a function of a literal alone"));
    return a;
  }
  return Pointwise(fn, {a}, a.dtype(), HasBoolResult(fn) ? DType::kBool : a.dtype());
}

Tensor Builder::Binary(ScalarFn fn, Tensor a, Tensor b) {
  if (a.is_literal() && b.is_literal()) {
    if (a.is_float_ || b.is_float_) {
      const double x = a.is_float_ ? a.number_ : static_cast<double>(a.integer_.constant());
      const double y = b.is_float_ ? b.number_ : static_cast<double>(b.integer_.constant());
      if (fn == serialization::FN_ADD) return Literal(x + y);
      if (fn == serialization::FN_SUB) return Literal(x - y);
      if (fn == serialization::FN_MUL) return Literal(x * y);
      if (fn == serialization::FN_DIV) return Literal(x / y);
    } else {
      if (fn == serialization::FN_ADD) return Literal(a.integer_ + b.integer_);
      if (fn == serialization::FN_SUB) return Literal(a.integer_ - b.integer_);
      if (fn == serialization::FN_MUL) return Literal(a.integer_ * b.integer_);
    }
    Fail(absl::InternalError("a function of literals alone"));
    return a;
  }
  const DType dtype = a.is_literal() ? b.dtype() : a.dtype();
  const bool b_is_one = b.is_literal() && (b.is_float_ ? b.number_ == 1 : b.integer_ == SymInt(1));
  const bool a_is_one = a.is_literal() && (a.is_float_ ? a.number_ == 1 : a.integer_ == SymInt(1));
  if (b_is_one && (fn == serialization::FN_MUL || fn == serialization::FN_DIV)) return a;
  if (a_is_one && fn == serialization::FN_MUL) return b;
  return Pointwise(fn, {a, b}, dtype, HasBoolResult(fn) ? DType::kBool : dtype);
}

Tensor Builder::Select(const Tensor& condition, Tensor a, Tensor b) {
  if (a.is_literal() && b.is_literal()) {
    a = Full(a, a.is_float_ || b.is_float_ ? DType::kFloat32 : DType::kInt64, {});
  }
  const DType dtype = a.is_literal() ? b.dtype() : a.dtype();
  return Pointwise(serialization::FN_SELECT, {condition, a, b}, dtype, dtype);
}

Tensor Builder::Cast(const Tensor& a, DType dtype) {
  if (a.is_literal() || a.dtype() == dtype) return a;
  return Pointwise(serialization::FN_CAST, {a}, a.dtype(), dtype);
}

Tensor Builder::Iota(int dim, DType dtype, SymIntVector sizes) {
  Expr expr;
  const uint32_t position = AddInstruction(expr, serialization::FN_IOTA, dtype, {});
  expr.mutable_instructions(static_cast<int>(position))->set_index(static_cast<uint32_t>(dim));
  SetDomain(expr, sizes);
  return EmitExpr(std::move(expr), {}, {dtype, std::move(sizes), {}});
}

Tensor Builder::Random(const Tensor& rng_state, const SymInt& slice, SymIntVector sizes) {
  Expr expr;
  const uint32_t position = AddInstruction(expr, serialization::FN_RANDOM_UNIFORM, DType::kFloat32, {});
  expr.mutable_instructions(static_cast<int>(position))->set_slice(slice.ToString());
  SetDomain(expr, sizes);
  return EmitExpr(std::move(expr), {Use{rng_state.id()}}, {DType::kFloat32, std::move(sizes), {}});
}

Tensor Builder::Reduce(ScalarFn fn, const Tensor& a, absl::Span<const int64_t> dims) {
  std::vector<uint32_t> wrapped;
  for (const int64_t dim : dims) wrapped.push_back(static_cast<uint32_t>(WrapDim(dim, a.rank())));
  std::sort(wrapped.begin(), wrapped.end());
  if (a.rank() == 0 || wrapped.empty()) return a;
  Expr expr;
  std::vector<Argument> arguments;
  TensorType type{a.dtype(), a.sizes(), {}};
  const uint32_t operand = Load(a, a.dtype(), expr, arguments);
  SetDomain(expr, type.sizes);
  for (const uint32_t dim : wrapped) {
    expr.add_reduce_dims(dim);
    type.sizes[dim] = SymInt(1);
  }
  AddInstruction(expr, fn, a.dtype(), {operand});
  return EmitExpr(std::move(expr), std::move(arguments), std::move(type));
}

Tensor Builder::ReduceMean(const Tensor& a, absl::Span<const int64_t> dims) {
  SymInt count = 1;
  for (const int64_t dim : dims) {
    if (a.rank() > 0) count = count * a.sizes()[static_cast<size_t>(WrapDim(dim, a.rank()))];
  }
  return ReduceSum(a, dims) / Literal(count);
}

}  // namespace cotan::aot
