// SPDX-License-Identifier: Apache-2.0

#include "kernels/testing/expr_builder.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/api/expr_program.h"

namespace cotan::testing {

using serialization::DTypeProto;
using serialization::Expr;
using serialization::ExprInstruction;
using serialization::ScalarFn;

ExprBuilder::ExprBuilder(absl::Span<const int64_t> domain, absl::Span<const int> reduce_dims) {
  for (const int64_t size : domain) expr().add_domain_sizes(absl::StrCat(size));
  for (const int dim : reduce_dims) expr().add_reduce_dims(static_cast<uint32_t>(dim));
}

ExprInstruction& ExprBuilder::Append(ScalarFn fn, DType dtype) {
  ExprInstruction& instruction = *expr().add_instructions();
  instruction.set_fn(fn);
  instruction.set_dtype(static_cast<DTypeProto>(dtype));
  return instruction;
}

int ExprBuilder::Input(int index, DType dtype) {
  Append(serialization::FN_INPUT, dtype).set_index(static_cast<uint32_t>(index));
  return Last();
}

int ExprBuilder::Constant(DType dtype, double value) {
  ExprInstruction& instruction = Append(serialization::FN_CONSTANT, dtype);
  if (IsFloatingPoint(dtype)) {
    instruction.set_float_value(value);
  } else {
    instruction.set_int_value(static_cast<int64_t>(value));
  }
  return Last();
}

int ExprBuilder::Size(DType dtype, absl::string_view size) {
  Append(serialization::FN_SIZE, dtype).set_size(std::string(size));
  return Last();
}

int ExprBuilder::Iota(DType dtype, int dim) {
  Append(serialization::FN_IOTA, dtype).set_index(static_cast<uint32_t>(dim));
  return Last();
}

int ExprBuilder::Random(int state_input, absl::string_view slice) {
  ExprInstruction& instruction = Append(serialization::FN_RANDOM_UNIFORM, DType::kFloat32);
  instruction.set_index(static_cast<uint32_t>(state_input));
  instruction.set_slice(std::string(slice));
  return Last();
}

int ExprBuilder::Cast(int operand, DType dtype) {
  Append(serialization::FN_CAST, dtype).add_operands(static_cast<uint32_t>(operand));
  return Last();
}

int ExprBuilder::Apply(ScalarFn fn, std::initializer_list<int> operands) {
  const bool is_test = (fn >= serialization::FN_EQ && fn <= serialization::FN_GE) || fn == serialization::FN_ISNAN ||
                       fn == serialization::FN_ISINF;
  ExprInstruction& instruction = Append(fn, is_test ? DType::kBool : dtype(*(operands.end() - 1)));
  for (const int operand : operands) instruction.add_operands(static_cast<uint32_t>(operand));
  return Last();
}

void ExprBuilder::Output(int instruction) { expr().add_outputs(static_cast<uint32_t>(instruction)); }

DType ExprBuilder::dtype(int instruction) const {
  return static_cast<DType>(op_.expr().instructions(instruction).dtype());
}

std::string ToText(const Expr& expr) {
  std::string text = absl::StrCat("domain [", absl::StrJoin(expr.domain_sizes(), ","), "] reduce {",
                                  absl::StrJoin(expr.reduce_dims(), ","), "}\n");
  for (int i = 0; i < expr.instructions_size(); ++i) {
    const ExprInstruction& instruction = expr.instructions(i);
    absl::StrAppend(&text, "  %", i, ": ", DTypeName(static_cast<DType>(instruction.dtype())), " = ",
                    ExprFnName(instruction.fn()), "(", absl::StrJoin(instruction.operands(), ", "), ") index ",
                    instruction.index(), " float ", instruction.float_value(), " int ", instruction.int_value(), "\n");
  }
  absl::StrAppend(&text, "  outputs ", absl::StrJoin(expr.outputs(), ", "), "\n");
  return text;
}

}  // namespace cotan::testing
