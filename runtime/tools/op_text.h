// SPDX-License-Identifier: Apache-2.0

// Text of a single op.
#ifndef COTAN_RUNTIME_TOOLS_OP_TEXT_H_
#define COTAN_RUNTIME_TOOLS_OP_TEXT_H_

#include <string>

#include "serialization/schema/program.pb.h"

namespace cotan::tools {

// Returns the op with the types of its operands, which are numbered from 0 in the order of first use, so that equal ops
// have equal texts wherever they are:
//   (%0: f32[8,3], %1: f32[3,2]) %2: f32[8,2] = matmul(%0, %1)  // aten.mm fc1
// Lines of an expression follow. `op` is an op of the verified `method`.
std::string StableOpText(const serialization::Method& method, const serialization::Op& op);

}  // namespace cotan::tools

#endif  // COTAN_RUNTIME_TOOLS_OP_TEXT_H_
