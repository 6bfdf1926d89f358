// SPDX-License-Identifier: Apache-2.0

#include "aot/blocks/outline_updates.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "aot/ir/text.h"
#include "base/status_macros.h"

namespace cotan::aot {

OutlinedUpdates::OutlinedUpdates(const Graph& graph, BlockLowerer& blocks) : blocks_(blocks) {
  for (const Node& node : graph.nodes()) {
    if (node.op == kCallOp) of_call_.insert(node.outputs.begin(), node.outputs.end());
  }
}

absl::StatusOr<AddedBlock> OutlinedUpdates::Add(Graph update) {
  std::string text = PrintGraph(update);
  if (const auto found = added_.find(text); found != added_.end()) return found->second;
  const std::string name = absl::StrCat("update.", added_.size());
  COTAN_ASSIGN_OR_RETURN(AddedBlock added, blocks_.Add(std::move(update), name));
  return added_.emplace(std::move(text), std::move(added)).first->second;
}

}  // namespace cotan::aot
