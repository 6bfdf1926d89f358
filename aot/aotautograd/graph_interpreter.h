// SPDX-License-Identifier: Apache-2.0

// Runs a traced graph op by op through LibTorch's dispatcher. An oracle for tests: the results must
// equal those of the traced function.
#ifndef COTAN_AOT_AOTAUTOGRAD_GRAPH_INTERPRETER_H_
#define COTAN_AOT_AOTAUTOGRAD_GRAPH_INTERPRETER_H_

#include <ATen/core/Tensor.h>

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "aot/ir/graph.h"

namespace cotan::aot {

// Returns one tensor for each output of `graph`, undefined where it is kNoValue. `inputs`: one
// tensor for each graph input.
// NotFound: an op that LibTorch does not have. InvalidArgument: a node has another number of
// arguments than its op. Throws what an op throws.
absl::StatusOr<std::vector<at::Tensor>> InterpretGraph(const Graph& graph, absl::Span<const at::Tensor> inputs);

}  // namespace cotan::aot

#endif  // COTAN_AOT_AOTAUTOGRAD_GRAPH_INTERPRETER_H_
