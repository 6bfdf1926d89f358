// SPDX-License-Identifier: Apache-2.0

// Finds the tensors that eager saves for a backward without checking their versions: a torch::autograd::Function keeps
// them in AutogradContext::saved_data instead of calling save_for_backward().
#ifndef COTAN_AOT_AOTAUTOGRAD_VERSION_CHECKS_H_
#define COTAN_AOT_AOTAUTOGRAD_VERSION_CHECKS_H_

#include <ATen/core/Tensor.h>

#include <vector>

#include "absl/types/span.h"
#include "aot/ir/graph.h"

namespace cotan::aot {

// Returns, for each of `tensors`, whether the saved_data of a node behind `roots` holds it, or an alias of it, and no
// node behind them checks its version. False for all tensors if a node does not say what it saves. The autograd graph
// behind `roots` must not have been freed.
std::vector<bool> SavedWithoutVersionCheck(const std::vector<at::Tensor>& roots, absl::Span<const at::Tensor> tensors);

// Returns whether ops of the backward read `value`, or an alias of it, and read no value that the forward computes from
// it. The first `num_forward_nodes` nodes of the joint graph are those of the forward.
bool IsReadByBackwardAlone(const Graph& joint, size_t num_forward_nodes, ValueId value);

}  // namespace cotan::aot

#endif  // COTAN_AOT_AOTAUTOGRAD_VERSION_CHECKS_H_
