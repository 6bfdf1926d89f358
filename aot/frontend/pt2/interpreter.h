// Runs an exported graph node by node through LibTorch's dispatcher. While a
// trace is under way, that traces it.
#ifndef COTAN_AOT_FRONTEND_PT2_INTERPRETER_H_
#define COTAN_AOT_FRONTEND_PT2_INTERPRETER_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "aot/frontend/pt2/exported_program.h"

namespace cotan::aot::pt2 {

// Tensors, lists and numbers of a graph by name.
using Environment = absl::flat_hash_map<std::string, c10::IValue>;

// Whether all ops of a graph, subgraphs included, are known.
// Unimplemented: the message names every one that is not.
absl::Status CheckTargets(const Graph& graph);

// Runs all nodes; `values` holds the graph's inputs and receives its results.
//
// Devices become the CPU. Nodes that only check (_assert_tensor_metadata) are
// left out. Of higher-order ops those are known that run one subgraph:
// wrap_with_set_grad_enabled, wrap_with_autocast, invoke_subgraph.
//
// Throws std::exception, as what is traced does: an argument that does not fit
// the op, a name without a value, or what the op throws; the message names the
// node and its module.
void RunGraph(const Graph& graph, Environment& values);

// The value of an argument that no op asks for: an output of a graph.
c10::IValue ValueOf(const Argument& argument, const Environment& values);

}  // namespace cotan::aot::pt2

#endif  // COTAN_AOT_FRONTEND_PT2_INTERPRETER_H_
