// SPDX-License-Identifier: Apache-2.0

// Runs an exported graph node by node through LibTorch's dispatcher (like torch.fx.Interpreter).
// During a trace, the ops are recorded.
#ifndef COTAN_AOT_FRONTEND_PT2_INTERPRETER_H_
#define COTAN_AOT_FRONTEND_PT2_INTERPRETER_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "aot/frontend/pt2/exported_program.h"

namespace cotan::aot::pt2 {

// Values of a graph by name: tensors, lists and numbers.
using Environment = absl::flat_hash_map<std::string, c10::IValue>;

// Unimplemented: the graph or a subgraph has unknown ops; the message lists all of them.
absl::Status CheckTargets(const Graph& graph);

// Returns the op of a node's target ("torch.ops.aten.add.Tensor"), from LibTorch's dispatcher; unset: it has none.
std::optional<c10::OperatorHandle> FindTarget(absl::string_view target);

// Returns whether the node only checks properties that the trace records anyway; RunGraph() skips it.
bool OnlyChecks(absl::string_view target);

// Runs all nodes. `values` has the inputs of the graph and receives all results.
//
// Devices become the CPU. Nodes that only check (_assert_tensor_metadata) are skipped. Supported
// higher-order ops run one subgraph: wrap_with_set_grad_enabled, wrap_with_autocast,
// invoke_subgraph, which is a block (aot/blocks/block.h); with_effects and print are supported as well.
//
// Throws std::exception, like any traced function: an argument does not match the op, a name has no
// value, or the op throws. The message has the node and its module.
void RunGraph(const Graph& graph, Environment& values);
// Runs one node of a graph as RunGraph() does.
void RunNode(const Node& node, Environment& values);

// Returns the value of an output of a graph. Throws std::invalid_argument: a name without a value,
// or an unsupported kind.
c10::IValue ValueOf(const Argument& argument, const Environment& values);

}  // namespace cotan::aot::pt2

#endif  // COTAN_AOT_FRONTEND_PT2_INTERPRETER_H_
