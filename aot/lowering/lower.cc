// SPDX-License-Identifier: Apache-2.0

#include "aot/lowering/lower.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "aot/fusion/fusion.h"
#include "aot/fusion/matmul_epilogue.h"
#include "aot/ir/call_node.h"
#include "aot/ir/prim_node.h"
#include "aot/lowering/complex/complex.h"
#include "aot/lowering/op_table.h"
#include "aot/lowering/ops/lowering.h"
#include "aot/transforms/algebraic.h"
#include "aot/transforms/canonicalize.h"
#include "aot/transforms/common_subexpressions.h"
#include "aot/transforms/constant_folding.h"
#include "aot/transforms/dead_code.h"
#include "aot/transforms/drop_barriers.h"
#include "aot/transforms/hoist_index_checks.h"
#include "aot/transforms/join_slices.h"
#include "aot/transforms/layout_assignment.h"
#include "aot/transforms/overlap_collectives.h"
#include "aot/transforms/place_host_copies.h"
#include "aot/transforms/pool_index_dtype.h"
#include "aot/transforms/reorder_gathers.h"
#include "base/dtype.h"
#include "base/status_macros.h"
#include "serialization/schema/tensor_type.h"

namespace cotan::aot {
namespace {

// Merges equal views. Equal expressions stay separate: fusion decides whether computing twice is
// cheaper than storing.
absl::StatusOr<bool> ShareViews(Graph& graph) {
  return EliminateCommonSubexpressionsIf(graph, [](const Node& node) { return node.op != kExprOp; });
}

// Returns the first storage-only dtype among the values; kUndefined if there is none.
DType StorageDTypeOf(const Graph& graph, absl::Span<const ValueId> values) {
  for (const ValueId value : values) {
    if (value != kNoValue && IsStorageOnly(graph.value(value).type.dtype)) return graph.value(value).type.dtype;
  }
  return DType::kUndefined;
}

// Returns whether an expression only loads, stores and converts elements of storage-only dtypes.
bool OnlyConverts(const serialization::Expr& expr) {
  const auto is_storage = [&](uint32_t i) {
    return IsStorageOnly(ToDType(expr.instructions(static_cast<int>(i)).dtype()));
  };
  for (int i = 0; i < expr.instructions_size(); ++i) {
    const serialization::ExprInstruction& instruction = expr.instructions(i);
    const serialization::ScalarFn fn = instruction.fn();
    if (fn == serialization::FN_INPUT || fn == serialization::FN_CONSTANT || fn == serialization::FN_CAST) continue;
    if (is_storage(static_cast<uint32_t>(i))) return false;
    if (std::any_of(instruction.operands().begin(), instruction.operands().end(), is_storage)) return false;
  }
  return true;
}

// Returns whether a lowered node only moves or converts elements.
bool OnlyMoves(const Node& node) {
  if (node.op == kExprOp) return OnlyConverts(*node.expr);
  return IsView(node) || IsPrim(node, PrimKind::kCopy) || IsPrim(node, PrimOp::kGather);
}

// Lowers a node.
// Unimplemented: it computes in a storage-only dtype.
absl::Status LowerChecked(const Graph& graph, const Node& node, Graph& lowered, Lowering& lowering) {
  DType dtype = StorageDTypeOf(graph, TensorOperands(node));
  if (dtype == DType::kUndefined) dtype = StorageDTypeOf(graph, node.outputs);
  if (dtype == DType::kUndefined) return LowerNode(node, lowering);
  const size_t before = lowered.nodes().size();
  absl::Status status = LowerNode(node, lowering);
  const auto first = std::next(lowered.nodes().begin(), static_cast<std::ptrdiff_t>(before));
  for (auto it = first; it != lowered.nodes().end() && status.ok(); ++it) {
    const bool touches = StorageDTypeOf(lowered, TensorOperands(*it)) != DType::kUndefined ||
                         StorageDTypeOf(lowered, it->outputs) != DType::kUndefined;
    if (touches && !OnlyMoves(*it)) status = absl::UnimplementedError(absl::StrCat("it becomes ", it->op));
  }
  if (status.ok()) return status;
  return absl::UnimplementedError(absl::StrCat("@", graph.name, ": ", node.op, " computes in ", DTypeName(dtype),
                                               ", which is for storage only: convert to f32 first (", status.message(),
                                               ")"));
}

}  // namespace

absl::Status CleanUp(Graph& graph, const DumpFunction& dump) {
  PassPipeline pipeline("clean_up");
  pipeline.Add("dead_code", EliminateDeadCode)
      .Add("algebraic", SimplifyAlgebra)
      .Add("join_slices", JoinSlices)
      .Add("constant_folding", FoldConstants)
      .Add("common_subexpressions", EliminateCommonSubexpressions);
  pipeline.set_dump(dump);
  return pipeline.Run(graph).status();
}

absl::StatusOr<Graph> LowerToPrims(const Graph& traced, CallLowering* calls) {
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
    lowered.inputs().back().without_version_check = input.without_version_check;
    lowering.Map(input.value, value);
  }
  if (calls != nullptr) calls->Start(graph);
  for (const Node& node : graph.nodes()) {
    if (!IsTracedCall(node.op)) {
      COTAN_RETURN_IF_ERROR(LowerChecked(graph, node, lowered, lowering));
    } else if (calls != nullptr) {
      COTAN_RETURN_IF_ERROR(calls->Lower(graph, node, lowering));
    } else {
      return absl::InternalError(absl::StrCat("@", graph.name, " calls blocks, which are unknown here"));
    }
  }
  for (const GraphOutput& output : graph.outputs()) {
    const ValueId value = output.value == kNoValue ? kNoValue : lowering.Mapped(output.value);
    lowered.AddOutput(value, output.kind, output.index, output.name);
    lowered.outputs().back().without_version_check = output.without_version_check;
  }
  COTAN_RETURN_IF_ERROR(EliminateDeadCode(lowered).status());
  COTAN_RETURN_IF_ERROR(ReorderGathers(lowered).status());
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

absl::Status Optimize(Graph& graph, const LayoutPreferences& layouts, const DumpFunction& dump) {
  PassPipeline pipeline("optimize");
  pipeline.Add("dead_code", EliminateDeadCode)
      .Add("canonicalize_products", CanonicalizeProducts)
      .Add("share_views", ShareViews)
      .Add("pool_index_dtypes", NarrowPoolIndexDTypes)
      .Add("fusion", FuseExpressions)
      .Add("drop_barriers", DropBarriers)
      .Add("matmul_epilogues", FuseMatmulEpilogues)
      .Add("checks_first", HoistIndexChecks)
      .Add("place_host_copies", PlaceHostCopies)
      .Add("overlap_collectives", OverlapCollectives)
      .Add("layouts", [&](Graph& g) { return AssignLayouts(g, layouts); });
  pipeline.set_dump(dump);
  return pipeline.Run(graph).status();
}

absl::Status OptimizePair(Graph& forward, Graph& backward, const LayoutPreferences& layouts,
                          const DumpFunction& forward_dump, const DumpFunction& backward_dump) {
  COTAN_RETURN_IF_ERROR(Optimize(forward, layouts, forward_dump));
  std::vector<DimVector> orders;
  for (const GraphOutput& output : forward.outputs()) {
    if (output.kind == OutputKind::kSaved) orders.push_back(forward.value(output.value).type.dim_order);
  }
  for (const GraphInput& input : backward.inputs()) {
    if (input.kind == InputKind::kSaved)
      backward.value(input.value).type.dim_order = orders[static_cast<size_t>(input.index)];
  }
  return Optimize(backward, layouts, backward_dump);
}

}  // namespace cotan::aot
