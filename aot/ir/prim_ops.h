// Kinds of ops of the prim dialect.
#ifndef COTAN_AOT_IR_PRIM_OPS_H_
#define COTAN_AOT_IR_PRIM_OPS_H_

#include "absl/strings/string_view.h"

namespace cotan::aot {

// Whether the result is the first operand's memory under another geometry
// (prim.view, prim.permute, ...): a step of a ViewOp for the runtime.
bool IsViewOp(absl::string_view op);

// Max and average pooling, forward and backward.
bool IsPoolOp(absl::string_view op);

// Recurrent layers, forward and backward.
bool IsRecurrentOp(absl::string_view op);

}  // namespace cotan::aot

#endif  // COTAN_AOT_IR_PRIM_OPS_H_
