// Runs a traced graph by LibTorch's dispatcher, op by op: the oracle that tells
// whether a graph means what was traced. For tests.
#ifndef COTAN_AOT_AOTAUTOGRAD_GRAPH_INTERPRETER_H_
#define COTAN_AOT_AOTAUTOGRAD_GRAPH_INTERPRETER_H_

#include <ATen/core/Tensor.h>

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "aot/ir/graph.h"

namespace cotan::aot {

// One tensor per graph input; returns one per graph output, undefined where the
// graph has kNoValue.
// NotFound: an op that LibTorch does not know.
absl::StatusOr<std::vector<at::Tensor>> InterpretGraph(const Graph& graph, absl::Span<const at::Tensor> inputs);

}  // namespace cotan::aot

#endif  // COTAN_AOT_AOTAUTOGRAD_GRAPH_INTERPRETER_H_
