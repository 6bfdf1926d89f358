// SPDX-License-Identifier: Apache-2.0

// Runs nodes of exported graphs that compute with numbers instead of tensors: sizes and values
// derived from them.
#ifndef COTAN_AOT_FRONTEND_PT2_SCALAR_OP_H_
#define COTAN_AOT_FRONTEND_PT2_SCALAR_OP_H_

#include <ATen/core/ivalue.h>

#include <vector>

#include "absl/strings/string_view.h"

namespace cotan::aot::pt2 {

// Returns whether `target` is such an op: "_operator.mul", "torch.sym_max", "math.floor".
bool IsScalarOp(absl::string_view target);

// Returns the result of the op; a symbolic number (aot/capture/number.h) if an operand is one. It has Python's
// semantics: `//` and `%` round towards minus infinity. Throws std::invalid_argument: a wrong number of operands, an
// operand that is not a number, division by zero, a power that overflows.
c10::IValue RunScalarOp(absl::string_view target, const std::vector<c10::IValue>& operands);

}  // namespace cotan::aot::pt2

#endif  // COTAN_AOT_FRONTEND_PT2_SCALAR_OP_H_
