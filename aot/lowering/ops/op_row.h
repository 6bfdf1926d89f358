// SPDX-License-Identifier: Apache-2.0

// A row of the op table.
#ifndef COTAN_AOT_LOWERING_OPS_OP_ROW_H_
#define COTAN_AOT_LOWERING_OPS_OP_ROW_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace cotan::aot {

class Lowering;

// Way in which an op is computed.
enum class OpFamily : uint8_t {
  kPointwise,  // one scalar function in an expression
  kReduction,  // one reduction in an expression
  kComposite,  // several expressions: softmax, normalisation, losses
  kView,       // no data moves
  kKernel,     // an op of the runtime that has its own kernel
  kCreation,   // constants, ranges, random draws
};

// Emits the replacement of one aten node (aot/lowering/ops/lowering.h).
using LowerFunction = absl::Status (*)(Lowering& lowering);

struct OpRow {
  absl::string_view op;  // "aten.add.Tensor"
  OpFamily family;
  LowerFunction lower;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_LOWERING_OPS_OP_ROW_H_
