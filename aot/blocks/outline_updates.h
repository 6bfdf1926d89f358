// SPDX-License-Identifier: Apache-2.0

// Stores the updates of parameters that blocks use once for all parameters of a type.
#ifndef COTAN_AOT_BLOCKS_OUTLINE_UPDATES_H_
#define COTAN_AOT_BLOCKS_OUTLINE_UPDATES_H_

#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "aot/blocks/lower_calls.h"
#include "aot/ir/call_node.h"
#include "aot/ir/graph.h"
#include "aot/optimizer/optimizer.h"

namespace cotan::aot {

// Shares the updates of parameters whose gradients are results of calls. The updates of other parameters are fused with
// the computation of their gradients, as without blocks. Not thread-safe.
class OutlinedUpdates : public UpdateSharing {
 public:
  // `graph` is lowered. `blocks` outlives the object.
  OutlinedUpdates(const Graph& graph, BlockLowerer& blocks);

  bool MayShare(ValueId gradient) const override { return of_call_.contains(gradient); }
  // Errors of Optimize() and Emit().
  absl::StatusOr<AddedBlock> Add(Graph update) override;

 private:
  BlockLowerer& blocks_;
  absl::flat_hash_set<ValueId> of_call_;                // results of calls
  absl::flat_hash_map<std::string, AddedBlock> added_;  // by the text of the graph
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_BLOCKS_OUTLINE_UPDATES_H_
