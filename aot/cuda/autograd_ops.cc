// SPDX-License-Identifier: Apache-2.0

#include "aot/cuda/autograd_ops.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "serialization/schema/tensor_type.h"

namespace cotan::aot {
namespace {

using serialization::Expr;
using serialization::ExprInstruction;
using serialization::Method;

ExprInstruction& AddInstruction(Expr& expr, serialization::ScalarFn fn, DType dtype) {
  ExprInstruction& instruction = *expr.add_instructions();
  instruction.set_fn(fn);
  instruction.set_dtype(static_cast<serialization::DTypeProto>(dtype));
  return instruction;
}

// Completes an expression whose last instruction is its result.
AutogradOp Finish(Expr expr, std::vector<TensorSpec> inputs, TensorSpec output) {
  for (const int64_t size : output.layout.sizes) expr.add_domain_sizes(absl::StrCat(size));
  expr.add_outputs(static_cast<uint32_t>(expr.instructions_size() - 1));
  AutogradOp result = {.op = {}, .inputs = std::move(inputs), .output = std::move(output)};
  *result.op.mutable_expr() = std::move(expr);
  return result;
}

AutogradOp Fill(int value, TensorSpec spec) {
  Expr expr;
  ExprInstruction& constant = AddInstruction(expr, serialization::FN_CONSTANT, spec.dtype);
  if (IsFloatingPoint(spec.dtype)) {
    constant.set_float_value(value);
  } else {
    constant.set_int_value(value);
  }
  return Finish(std::move(expr), {}, std::move(spec));
}

// Adds `value` to `sum` in place.
AutogradOp Add(TensorSpec sum, TensorSpec value) {
  Expr expr;
  AddInstruction(expr, serialization::FN_INPUT, sum.dtype).set_index(0);
  AddInstruction(expr, serialization::FN_INPUT, value.dtype).set_index(1);
  ExprInstruction& add = AddInstruction(expr, serialization::FN_ADD, sum.dtype);
  add.add_operands(0);
  add.add_operands(1);
  return Finish(std::move(expr), {sum, std::move(value)}, sum);
}

AutogradOp Copy(TensorSpec from, TensorSpec to) {
  AutogradOp result = {.op = {}, .inputs = {std::move(from)}, .output = std::move(to)};
  result.op.mutable_copy();
  return result;
}

// Returns the real and imaginary parts of complex numbers as a last dimension, and other numbers as they are.
TensorSpec PartsOf(TensorSpec spec) {
  if (!IsComplex(spec.dtype)) return spec;
  spec.dtype = spec.dtype == DType::kComplex64 ? DType::kFloat32 : DType::kFloat64;
  for (int64_t& stride : spec.layout.strides) stride *= 2;
  spec.layout.sizes.push_back(2);
  spec.layout.strides.push_back(1);
  return spec;
}

// Returns the real parts of complex numbers, which have the layout of the imaginary ones, and other numbers as they
// are.
TensorSpec PartOf(TensorSpec spec) {
  if (!IsComplex(spec.dtype)) return spec;
  spec = PartsOf(std::move(spec));
  spec.layout.sizes.pop_back();
  spec.layout.strides.pop_back();
  return spec;
}

TensorSpec RowMajor(TensorSpec spec) {
  spec.layout.strides = ContiguousStrides(spec.layout.sizes);
  return spec;
}

absl::StatusOr<TensorSpec> SpecOf(const Method& method, uint32_t value, const DimVector& sizes) {
  const serialization::TensorType& type = method.values(static_cast<int>(value)).type();
  TensorSpec spec;
  spec.dtype = ToDType(type.dtype());
  COTAN_ASSIGN_OR_RETURN(spec.layout, DenseLayout(type, sizes));
  return spec;
}

void AddTangent(const TensorSpec& spec, bool is_only_one, std::vector<AutogradOp>& ops) {
  const bool is_flag = spec.dtype == DType::kBool;
  const bool has_one_element = NumElements(spec.layout.sizes) == 1;
  if (!is_only_one) ops.push_back(Fill(0, PartOf(RowMajor(spec))));
  if (is_flag || (has_one_element && !IsComplex(spec.dtype))) ops.push_back(Fill(1, RowMajor(spec)));
}

void AddGradient(const TensorSpec& spec, std::vector<AutogradOp>& ops) {
  ops.push_back(Add(PartsOf(spec), PartsOf(spec)));
  const TensorSpec leaf = RowMajor(spec);
  if (leaf.layout.strides == spec.layout.strides) return;
  ops.push_back(Copy(spec, leaf));
  ops.push_back(Add(PartsOf(leaf), PartsOf(spec)));
}

}  // namespace

absl::StatusOr<std::vector<AutogradOp>> AutogradOps(const Method& backward, int num_saved, const DimVector& sizes) {
  std::vector<AutogradOp> ops;
  for (int i = num_saved; i < backward.inputs_size(); ++i) {
    COTAN_ASSIGN_OR_RETURN(const TensorSpec spec, SpecOf(backward, backward.inputs(i), sizes));
    const bool is_only_one = backward.inputs_size() - num_saved == 1;
    if (NumElements(spec.layout.sizes) > 0) AddTangent(spec, is_only_one, ops);
  }
  for (const uint32_t output : backward.outputs()) {
    COTAN_ASSIGN_OR_RETURN(const TensorSpec spec, SpecOf(backward, output, sizes));
    if (NumElements(spec.layout.sizes) > 0) AddGradient(spec, ops);
  }
  return ops;
}

}  // namespace cotan::aot
