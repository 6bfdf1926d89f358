// SPDX-License-Identifier: Apache-2.0

// The rows of recurrent layers (aot/decompositions/recurrent_layer.h).
#include <utility>
#include <vector>

#include "aot/lowering/ops/lowering.h"
#include "aot/lowering/ops/op_table_rows.h"

namespace cotan::aot {
namespace {

// Returns operand i, or None.
Argument Optional(Lowering& l, int i) { return l.is_none(i) ? Argument(None{}) : Argument(Use{l.tensor(i).id()}); }

// Emits the runtime's op with the results of the node, in order; `cell` is the index of the
// argument with the cell's name, and the next argument is the direction.
absl::Status EmitRecurrent(Lowering& l, PrimOp op, std::vector<Argument> arguments, int cell) {
  arguments.insert(arguments.end(), {l.text(cell), l.flag(cell + 1)});
  std::vector<TensorType> types;
  for (int k = 0; k < 3; ++k) {
    if (l.has_result(k)) types.push_back({l.result(k).dtype, l.result(k).sizes, {}});
  }
  const std::vector<Tensor> emitted = l.b.Emit(op, std::move(arguments), types);
  std::vector<Tensor> results(3);
  size_t next = 0;
  for (int k = 0; k < 3; ++k) {
    if (l.has_result(k)) results[static_cast<size_t>(k)] = emitted[next++];
  }
  return l.ReturnAll(results);
}

// (projected, weight, h0, c0, bias, cell, reverse) -> hidden, cell, gates
absl::Status LowerRecurrent(Lowering& l) {
  std::vector<Argument> arguments;
  for (int i = 0; i < 3; ++i) arguments.push_back(Use{l.tensor(i).id()});
  arguments.push_back(Optional(l, l.is_none(3) ? 4 : 3));
  return EmitRecurrent(l, PrimOp::kRecurrent, std::move(arguments), 5);
}

// (grad_hidden, hidden, weight, h0, gates, cell, c0, grad_last_cell, cell name,
// reverse) -> grad_gates, grad_h0, grad_c0
absl::Status LowerRecurrentBackward(Lowering& l) {
  std::vector<Argument> arguments;
  for (int i = 0; i < 4; ++i) arguments.push_back(Use{l.tensor(i).id()});
  for (int i = 4; i < 8; ++i) arguments.push_back(Optional(l, i));
  return EmitRecurrent(l, PrimOp::kRecurrentBackward, std::move(arguments), 8);
}

constexpr OpRow kRows[] = {
    {"cotan.recurrent.default", OpFamily::kKernel, LowerRecurrent},
    {"cotan.recurrent_backward.default", OpFamily::kKernel, LowerRecurrentBackward},
};

}  // namespace

absl::Span<const OpRow> RecurrentRows() { return kRows; }

}  // namespace cotan::aot
