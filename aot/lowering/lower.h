// From aten.* to what the runtime executes, in two steps:
//
//   LowerToPrims   aten.* -> prim.* and one-function cotan.expr nodes, by the
//                  rows of the op table. Joint graphs are lowered whole; the
//                  optimizer and the partition work on the result.
//   Optimize       fusion of expressions, layout assignment, clean-ups; the
//                  graph is then ready for Emit (aot/emit).
#ifndef COTAN_AOT_LOWERING_LOWER_H_
#define COTAN_AOT_LOWERING_LOWER_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "aot/ir/graph.h"
#include "aot/ir/pass.h"
#include "base/sym_int.h"

namespace cotan::aot {

// Clean-ups that shrink a traced graph before lowering: dead code, common
// subexpressions, constant folding, algebraic identities.
absl::Status CleanUp(Graph& graph, const DumpFunction& dump = nullptr);

// Inputs and outputs stay, in order and kind. Complex numbers become pairs of
// real ones first (complex.h).
// Unimplemented: ops without a row (all of them are named), or a combination
// of arguments that a row does not cover.
absl::StatusOr<Graph> LowerToPrims(const Graph& graph);

// Appends the advance of the generator by `blocks` Philox blocks as the new
// content of the state that the input of kind kRngState names.
// InvalidArgument: the graph has no such input.
absl::Status AppendRngAdvance(Graph& graph, const SymInt& blocks);

// Fusion, layout, clean-ups of a lowered graph.
absl::Status Optimize(Graph& graph, const DumpFunction& dump = nullptr);

// Optimizes the two programs of a partition, so that the backward expects its
// saved values in the layouts in which the forward leaves them.
absl::Status OptimizePair(Graph& forward, Graph& backward, const DumpFunction& forward_dump = nullptr,
                          const DumpFunction& backward_dump = nullptr);

}  // namespace cotan::aot

#endif  // COTAN_AOT_LOWERING_LOWER_H_
