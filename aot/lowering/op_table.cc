// SPDX-License-Identifier: Apache-2.0

#include "aot/lowering/op_table.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "aot/ir/call_node.h"
#include "aot/lowering/ops/lowering.h"
#include "aot/lowering/ops/op_table_rows.h"

namespace cotan::aot {

absl::Span<const OpRow> OpTable() {
  static const std::vector<OpRow>* const kTable = [] {
    auto* table = new std::vector<OpRow>();
    for (const absl::Span<const OpRow> rows :
         {PointwiseRows(), ActivationRows(),    ReductionRows(), NormalizationRows(), LossRows(),
          ViewRows(),      IndexingRows(),      SearchRows(),    SortingRows(),       KernelRows(),
          CreationRows(),  ScanRows(),          ResizeRows(),    EmbeddingBagRows(),  EffectRows(),
          RecurrentRows(), PaddingRows(),       WindowRows(),    SpecialRows(),       BesselRows(),
          GammaRows(),     LinearAlgebraRows(), SpectralRows(),  BoundedSizeRows()}) {
      table->insert(table->end(), rows.begin(), rows.end());
    }
    std::sort(table->begin(), table->end(), [](const OpRow& a, const OpRow& b) { return a.op < b.op; });
    return table;
  }();
  return *kTable;
}

const OpRow* FindOp(absl::string_view op) {
  const absl::Span<const OpRow> table = OpTable();
  const auto it = std::lower_bound(table.begin(), table.end(), op,
                                   [](const OpRow& row, absl::string_view name) { return row.op < name; });
  return it != table.end() && it->op == op ? &*it : nullptr;
}

bool IsSupported(absl::string_view op) { return FindOp(op) != nullptr; }

absl::Status LowerNode(const Node& node, Lowering& lowering) {
  const OpRow* row = FindOp(node.op);
  if (row == nullptr) return absl::UnimplementedError(absl::StrCat(node.op, " is not supported"));
  return lowering.Lower(node, *row);
}

std::vector<std::string> UnsupportedOps(const Graph& graph) {
  std::set<std::string> missing;
  for (const Node& node : graph.nodes()) {
    if (!IsSupported(node.op) && !IsTracedCall(node.op)) missing.insert(node.op);
  }
  return {missing.begin(), missing.end()};
}

}  // namespace cotan::aot
