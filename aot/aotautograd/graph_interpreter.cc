// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/graph_interpreter.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "aot/capture/argument.h"
#include "aot/decompositions/trace_scope.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

absl::Status RunNode(const Node& node, std::vector<at::Tensor>& values) {
  COTAN_ASSIGN_OR_RETURN(const c10::OperatorHandle op, FindOperator(node.op));
  const std::vector<c10::Argument>& declared = op.schema().arguments();
  if (declared.size() != node.arguments.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(node.op, " takes ", declared.size(), " arguments, the node has ", node.arguments.size()));
  }
  torch::jit::Stack stack;
  const auto tensor_of = [&](ValueId id) { return values[static_cast<size_t>(id)]; };
  for (size_t i = 0; i < declared.size(); ++i) {
    COTAN_ASSIGN_OR_RETURN(c10::IValue value, ToIValue(node.arguments[i], declared[i], tensor_of));
    stack.push_back(std::move(value));
  }
  op.callBoxed(stack);
  size_t next = 0;
  // Values of graphs have no strides: all are contiguous.
  const auto store = [&](const at::Tensor& tensor) {
    const ValueId id = node.outputs[next++];
    if (id != kNoValue) values[static_cast<size_t>(id)] = tensor.contiguous();
  };
  for (const c10::IValue& result : stack) {
    if (result.isTensor()) {
      store(result.toTensor());
    } else {
      for (const at::Tensor& tensor : result.toTensorVector()) store(tensor);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<at::Tensor>> InterpretGraph(const Graph& graph, absl::Span<const at::Tensor> inputs) {
  RegisterTracing();
  c10::NoGradGuard no_grad;
  std::vector<at::Tensor> values(static_cast<size_t>(graph.num_values()));
  for (size_t i = 0; i < inputs.size(); ++i) {
    values[static_cast<size_t>(graph.inputs()[i].value)] = inputs[i].contiguous();
  }
  for (const Node& node : graph.nodes()) COTAN_RETURN_IF_ERROR(RunNode(node, values));
  std::vector<at::Tensor> outputs;
  for (const GraphOutput& output : graph.outputs()) {
    outputs.push_back(output.value == kNoValue ? at::Tensor() : values[static_cast<size_t>(output.value)]);
  }
  return outputs;
}

}  // namespace cotan::aot
