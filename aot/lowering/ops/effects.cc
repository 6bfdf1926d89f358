// SPDX-License-Identifier: Apache-2.0

// The row of effects (aot/capture/effects.h).
#include "aot/lowering/ops/lowering.h"
#include "aot/lowering/ops/op_table_rows.h"

namespace cotan::aot {
namespace {

// (token, value, kind, name, message) -> token
absl::Status LowerEffect(Lowering& l) {
  Tensor value = l.tensor(1);
  if (value.is_literal()) {
    const bool is_integer = std::holds_alternative<SymInt>(l.node().arguments[1]);
    value = l.b.Full(value, is_integer ? DType::kInt64 : DType::kFloat32, {});
  }
  const std::vector<Tensor> token = l.b.Emit(
      PrimOp::kEffect, {Use{l.tensor(0).id()}, Use{value.id()}, l.text(2), l.text(3), l.text(4)}, {{l.result()}});
  return l.ReturnAll(token);
}

constexpr OpRow kRows[] = {
    {"cotan.effect.default", OpFamily::kKernel, LowerEffect},
};

}  // namespace

absl::Span<const OpRow> EffectRows() { return kRows; }

}  // namespace cotan::aot
