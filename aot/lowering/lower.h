// SPDX-License-Identifier: Apache-2.0

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
#include "aot/lowering/ops/lowering.h"
#include "aot/transforms/layout_assignment.h"
#include "base/sym_int.h"

namespace cotan::aot {

// Simplifies a traced graph before lowering: dead code, common subexpressions, constant folding,
// algebraic identities.
absl::Status CleanUp(Graph& graph, const DumpFunction& dump = nullptr);

// Lowers the calls of blocks in one graph (aot/blocks).
class CallLowering {
 public:
  virtual ~CallLowering() = default;

  // Prepares for the calls in `graph`, which LowerToPrims() passes to Lower() in order.
  virtual void Start(const Graph& graph) = 0;
  // Emits a node for which IsTracedCall() is true, and maps its results.
  virtual absl::Status Lower(const Graph& graph, const Node& node, Lowering& lowering) = 0;
};

// Returns `graph` in prim.*, cotan.expr and cotan.call nodes, with the same inputs and outputs in order and
// kind. Complex numbers become pairs of real ones first (complex.h). `calls` may be null if the graph has no calls.
// Unimplemented: an op has no row (the message names all such ops), or its row does not cover the
// arguments.
absl::StatusOr<Graph> LowerToPrims(const Graph& graph, CallLowering* calls = nullptr);

// Appends an output that advances the generator by `blocks` Philox blocks: the new content of the
// state that the input of kind kRngState names.
// InvalidArgument: the graph has no such input.
absl::Status AppendRngAdvance(Graph& graph, const SymInt& blocks);

// Optimizes a lowered graph: fusion, layout assignment, simplification.
absl::Status Optimize(Graph& graph, const LayoutPreferences& layouts, const DumpFunction& dump = nullptr);

// Optimizes the two programs of a partition. The backward takes its saved values in the layouts
// that the forward gives them.
absl::Status OptimizePair(Graph& forward, Graph& backward, const LayoutPreferences& layouts,
                          const DumpFunction& forward_dump = nullptr, const DumpFunction& backward_dump = nullptr);

}  // namespace cotan::aot

#endif  // COTAN_AOT_LOWERING_LOWER_H_
