// SPDX-License-Identifier: Apache-2.0

#include "aot/lowering/lower.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "aot/fusion/fusion.h"
#include "aot/fusion/matmul_epilogue.h"
#include "aot/lowering/complex/complex.h"
#include "aot/lowering/op_table.h"
#include "aot/lowering/ops/lowering.h"
#include "aot/transforms/algebraic.h"
#include "aot/transforms/canonicalize.h"
#include "aot/transforms/common_subexpressions.h"
#include "aot/transforms/constant_folding.h"
#include "aot/transforms/dead_code.h"
#include "aot/transforms/hoist_index_checks.h"
#include "aot/transforms/layout_assignment.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

// Merges equal views. Equal expressions stay separate: fusion decides whether computing twice is
// cheaper than storing.
absl::StatusOr<bool> ShareViews(Graph& graph) {
  return EliminateCommonSubexpressionsIf(graph, [](const Node& node) { return node.op != kExprOp; });
}

}  // namespace

absl::Status CleanUp(Graph& graph, const DumpFunction& dump) {
  PassPipeline pipeline("clean_up");
  pipeline.Add("dead_code", EliminateDeadCode)
      .Add("algebraic", SimplifyAlgebra)
      .Add("constant_folding", FoldConstants)
      .Add("common_subexpressions", EliminateCommonSubexpressions);
  pipeline.set_dump(dump);
  return pipeline.Run(graph).status();
}

absl::StatusOr<Graph> LowerToPrims(const Graph& traced) {
  Graph graph = traced;
  COTAN_RETURN_IF_ERROR(SplitComplex(graph));
  const std::vector<std::string> unsupported = UnsupportedOps(graph);
  if (!unsupported.empty()) {
    return absl::UnimplementedError(
        absl::StrCat("@", graph.name, " uses ops that are not supported: ", absl::StrJoin(unsupported, ", ")));
  }
  Graph lowered;
  lowered.name = graph.name;
  Builder builder(&lowered);
  Lowering lowering(&graph, &builder);
  for (const GraphInput& input : graph.inputs()) {
    const ValueId value = lowered.AddInput(graph.value(input.value).type, input.kind, input.index, input.name);
    lowering.Map(input.value, value);
  }
  for (const Node& node : graph.nodes()) COTAN_RETURN_IF_ERROR(LowerNode(node, lowering));
  for (const GraphOutput& output : graph.outputs()) {
    const ValueId value = output.value == kNoValue ? kNoValue : lowering.Mapped(output.value);
    lowered.AddOutput(value, output.kind, output.index, output.name);
  }
  COTAN_RETURN_IF_ERROR(EliminateDeadCode(lowered).status());
  return lowered;
}

absl::Status AppendRngAdvance(Graph& graph, const SymInt& blocks) {
  for (const GraphInput& input : graph.inputs()) {
    if (input.kind != InputKind::kRngState) continue;
    const std::string name = input.name;
    Builder b(&graph);
    const Tensor state = b.Value(input.value);
    const Tensor is_offset = b.Eq(b.Iota(0, DType::kInt64, {SymInt(2)}), b.Literal(SymInt(1)));
    const Tensor advanced = b.Select(is_offset, state + b.Literal(blocks), state);
    graph.AddOutput(advanced.id(), OutputKind::kStateUpdate, 0, name);
    return b.status();
  }
  return absl::InvalidArgumentError(absl::StrCat("@", graph.name, " has no random generator to advance"));
}

absl::Status Optimize(Graph& graph, const DumpFunction& dump) {
  PassPipeline pipeline("optimize");
  pipeline.Add("dead_code", EliminateDeadCode)
      .Add("canonicalize_products", CanonicalizeProducts)
      .Add("share_views", ShareViews)
      .Add("fusion", FuseExpressions)
      .Add("matmul_epilogues", FuseMatmulEpilogues)
      .Add("checks_first", HoistIndexChecks)
      .Add("layouts", AssignLayouts);
  pipeline.set_dump(dump);
  return pipeline.Run(graph).status();
}

absl::Status OptimizePair(Graph& forward, Graph& backward, const DumpFunction& forward_dump,
                          const DumpFunction& backward_dump) {
  COTAN_RETURN_IF_ERROR(Optimize(forward, forward_dump));
  std::vector<DimVector> orders;
  for (const GraphOutput& output : forward.outputs()) {
    if (output.kind == OutputKind::kSaved) orders.push_back(forward.value(output.value).type.dim_order);
  }
  for (const GraphInput& input : backward.inputs()) {
    if (input.kind == InputKind::kSaved)
      backward.value(input.value).type.dim_order = orders[static_cast<size_t>(input.index)];
  }
  return Optimize(backward, backward_dump);
}

}  // namespace cotan::aot
