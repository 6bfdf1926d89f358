// Nodes of exported graphs that compute with numbers instead of tensors: sizes
// and what is derived from them.
#ifndef COTAN_AOT_FRONTEND_PT2_SCALAR_OP_H_
#define COTAN_AOT_FRONTEND_PT2_SCALAR_OP_H_

#include <ATen/core/ivalue.h>

#include <vector>

#include "absl/strings/string_view.h"

namespace cotan::aot::pt2 {

// Whether `target` is one: "_operator.mul", "torch.sym_max", "math.floor".
bool IsScalarOp(absl::string_view target);

// With Python's meaning: `//` and `%` round towards minus infinity.
// Throws std::invalid_argument: a wrong number of operands, one that is no
// number, division by zero.
c10::IValue RunScalarOp(absl::string_view target, const std::vector<c10::IValue>& operands);

}  // namespace cotan::aot::pt2

#endif  // COTAN_AOT_FRONTEND_PT2_SCALAR_OP_H_
