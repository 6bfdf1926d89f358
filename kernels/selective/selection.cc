// SPDX-License-Identifier: Apache-2.0

#include "kernels/selective/selection.h"

#include "absl/strings/string_view.h"

namespace cotan::selective {
namespace {

using serialization::Expr;
using serialization::Method;
using serialization::ScalarFn;

// Adds the loops of one function of `dtype` on inputs, as an expression.
void AddFunction(ScalarFn fn, int arity, DType dtype, Selection& selection) {
  Expr expr;
  const auto add = [&](ScalarFn added) {
    serialization::ExprInstruction* instruction = expr.add_instructions();
    instruction->set_fn(added);
    instruction->set_dtype(static_cast<serialization::DTypeProto>(dtype));
    return instruction;
  };
  for (int k = 0; k < arity; ++k) add(serialization::FN_INPUT);
  serialization::ExprInstruction* function = add(fn);
  for (int k = 0; k < arity; ++k) function->add_operands(static_cast<uint32_t>(k));
  cpu::expr::AddNeeds(expr, selection.loops);
}

// Adds what gradients of functions are made with (runtime/autograd/tensor_ops.h).
void AddGradientOps(const Method& method, Selection& selection) {
  for (const serialization::Value& value : method.values()) {
    const auto dtype = static_cast<DType>(value.type().dtype());
    if (!IsFloatingPoint(dtype) || IsStorageOnly(dtype)) continue;
    AddFunction(serialization::FN_ADD, 2, dtype, selection);
    AddFunction(serialization::FN_DIV, 2, dtype, selection);
    AddFunction(serialization::FN_REDUCE_SUM, 1, dtype, selection);
  }
}

}  // namespace

void AddArtifact(const serialization::Artifact& artifact, Selection& selection) {
  for (const Method& method : artifact.methods()) {
    if (!method.backward_method().empty()) AddGradientOps(method, selection);
    for (const serialization::Op& op : method.ops()) {
      const bool has_kernel = op.kind_case() != OpKind::kView && op.kind_case() != OpKind::kEffect &&
                              op.kind_case() != OpKind::kCall && op.kind_case() != OpKind::kCollective;
      if (!has_kernel || op.outputs().empty()) continue;
      const auto dtype = static_cast<DType>(method.values(static_cast<int>(op.outputs(0))).type().dtype());
      if (op.kind_case() == OpKind::kExpr) {
        cpu::expr::AddNeeds(op.expr(), selection.loops);
        continue;
      }
      selection.kernels.emplace(op.kind_case(), dtype);
      if (op.kind_case() != OpKind::kMatmul) continue;
      // An epilogue begins with the sum of the product and an addend.
      AddFunction(serialization::FN_ADD, 2, dtype, selection);
      if (op.matmul().has_epilogue()) cpu::expr::AddNeeds(op.matmul().epilogue(), selection.loops);
    }
  }
}

}  // namespace cotan::selective
