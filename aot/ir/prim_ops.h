// SPDX-License-Identifier: Apache-2.0

// Kinds of ops of the prim dialect.
#ifndef COTAN_AOT_IR_PRIM_OPS_H_
#define COTAN_AOT_IR_PRIM_OPS_H_

#include "absl/strings/string_view.h"

namespace cotan::aot {

// Returns true if the result shares the first operand's memory with another geometry (prim.view,
// prim.permute, ...); the runtime executes it as a step of a ViewOp.
bool IsViewOp(absl::string_view op);

// Returns true for max and average pooling, forward and backward.
bool IsPoolOp(absl::string_view op);

// Returns true for recurrent layers, forward and backward.
bool IsRecurrentOp(absl::string_view op);

}  // namespace cotan::aot

#endif  // COTAN_AOT_IR_PRIM_OPS_H_
