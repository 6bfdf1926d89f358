// SPDX-License-Identifier: Apache-2.0

// Invariants of graphs, which every stage of the compiler preserves.
#ifndef COTAN_AOT_IR_VERIFIER_H_
#define COTAN_AOT_IR_VERIFIER_H_

#include "absl/status/status.h"
#include "aot/ir/graph.h"
#include "serialization/schema/expr.pb.h"

namespace cotan::aot {

// Checks that
//   - each value is defined once, by an input or a node, before its uses;
//   - each defined value has a dtype and a dim_order that is a permutation;
//   - each op is of a known dialect, and only cotan.expr and prim.matmul_epilogue have a program;
//   - each prim node has the arguments and results of its signature (VerifyPrim);
//   - each expression program is well formed and agrees with the types of the
//     node's operands and results (VerifyExpr).
// Internal: an invariant is violated, which is a bug of the stage that made the graph; the message
// has the node's text.
absl::Status VerifyGraph(const Graph& graph);

// Checks the rules of serialization/schema/expr.proto for a program with operands of the types
// `inputs` and results of the types `outputs`.
// Internal: a rule is violated; the message names it and the instruction.
absl::Status VerifyExpr(const serialization::Expr& expr, absl::Span<const TensorType> inputs,
                        absl::Span<const TensorType> outputs);

}  // namespace cotan::aot

#endif  // COTAN_AOT_IR_VERIFIER_H_
