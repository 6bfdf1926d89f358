// SPDX-License-Identifier: Apache-2.0

// Puts lowered saved-tensor hooks into the forward and the backward of a function
// (torch/_functorch/_aot_autograd/graph_compile.py, maybe_inline_graph_saved_tensors_hooks).
#ifndef COTAN_AOT_SAVED_TENSOR_HOOKS_PACK_SAVED_VALUES_H_
#define COTAN_AOT_SAVED_TENSOR_HOOKS_PACK_SAVED_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "aot/ir/graph.h"
#include "aot/partitioner/partition.h"
#include "aot/saved_tensor_hooks/hook_filter.h"

namespace cotan::aot {

// The hooks for values of one type, lowered.
struct TracedPair {
  Graph pack;    // one input; outputs: the packed tensors
  Graph unpack;  // inputs: the packed tensors; one output
};

// Returns the hooks for a saved value of `type`; `name` describes the value in messages.
using PairTracer = std::function<absl::StatusOr<TracedPair>(const TensorType& type, const std::string& name)>;

// The saved values that are packed.
struct PackedSelection {
  HookFilter filter = HookFilter::kDonated;
  int64_t min_elements = 0;  // a value of dynamic sizes counts with its usual ones (size_estimate.h)
  bool on_host = false;      // packed tensors with at least min_elements elements go to the host
  // The parts are those of a block: the values that it takes or returns, and states, are left to its callers.
  bool is_block = false;
  // Returns whether an output of a call (aot/ir/call_node.h) is a value that the block saves for itself and has packed,
  // if it is among the chosen ones. Null: there are no such values.
  std::function<bool(const Node& call, size_t output)> is_saved_by_block = nullptr;
};

// Packs saved values: in the forward, right after a value is computed; in the backward, the value is unpacked right
// before its first use. The packed tensors of a value take its place among the saved values. With kAll, states that
// the backward reads are packed too, and become saved values after all others. A tensor that the backward writes to
// is not packed. unpack reads its arguments through prim.barrier or prim.from_host: if the parts are joined again,
// fusion does not repeat pack in the backward, which would keep alive what was packed. Errors are those of `trace`.
absl::Status PackSavedValues(const PackedSelection& selection, const PairTracer& trace, Partitioned& parts);

// Returns `joint` again, with the packed values of `parts`, which was cut from it: the inputs and outputs of `joint`,
// and the nodes of the forward, then those of the backward.
Graph Rejoin(const Graph& joint, const Partitioned& parts);

}  // namespace cotan::aot

#endif  // COTAN_AOT_SAVED_TENSOR_HOOKS_PACK_SAVED_VALUES_H_
