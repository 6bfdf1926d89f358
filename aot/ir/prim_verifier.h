// SPDX-License-Identifier: Apache-2.0

// Checks nodes of the dialect prim against their signatures in the registry (prim_ops.h).
#ifndef COTAN_AOT_IR_PRIM_VERIFIER_H_
#define COTAN_AOT_IR_PRIM_VERIFIER_H_

#include "absl/status/status.h"
#include "aot/ir/graph.h"
#include "aot/ir/prim_ops.h"

namespace cotan::aot {

// Checks the number and the types of the arguments of `node`, a node of the op `op`, and the number
// of its results. Dtypes and sizes are not checked.
// Internal: the signature is violated; the message names the argument and has the signature.
absl::Status VerifyPrim(PrimOp op, const Node& node);

}  // namespace cotan::aot

#endif  // COTAN_AOT_IR_PRIM_VERIFIER_H_
