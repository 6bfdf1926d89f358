// SPDX-License-Identifier: Apache-2.0

#include "aot/blocks/block_values.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "aot/capture/argument.h"
#include "aot/capture/tensor_data.h"

namespace cotan::aot {
namespace {

size_t At(ValueId id) { return static_cast<size_t>(id); }

template <typename T>
T Require(absl::StatusOr<T> result) {
  TORCH_CHECK(result.ok(), std::string(result.status().message()));
  return *std::move(result);
}

// Returns whether the op needs contiguous operands: it views them by sizes or strides that the trace had of contiguous
// ones, or is a kernel of this project.
bool NeedsContiguous(absl::string_view op) {
  if (!absl::ConsumePrefix(&op, "aten::")) return true;
  return absl::StartsWith(op, "view") || absl::StartsWith(op, "as_strided") || op == "_unsafe_view" ||
         op == "_reshape_alias";
}

// Runs a node of a block's graph.
void RunNode(const Node& node, const c10::OperatorHandle& op, BlockTable::Values& values) {
  const std::vector<c10::Argument>& declared = op.schema().arguments();
  const bool contiguous = NeedsContiguous(op.schema().name());
  torch::jit::Stack stack;
  const auto tensor_of = [&](ValueId id) { return contiguous ? values[At(id)].contiguous() : values[At(id)]; };
  for (size_t i = 0; i < declared.size(); ++i) {
    stack.push_back(Require(ToIValue(node.arguments.at(i), declared[i], tensor_of)));
  }
  op.callBoxed(stack);
  size_t next = 0;
  const auto store = [&](const at::Tensor& tensor) {
    const ValueId id = node.outputs.at(next++);
    if (id != kNoValue) values[At(id)] = tensor;
  };
  for (const c10::IValue& result : stack) {
    if (result.isTensor()) {
      store(result.toTensor());
    } else {
      for (const at::Tensor& tensor : result.toTensorVector()) store(tensor);
    }
  }
}

bool IsReady(const Node& node, const BlockTable::Values& values) {
  for (const ValueId id : TensorOperands(node)) {
    if (id != kNoValue && !values[At(id)].defined()) return false;
  }
  return true;
}

bool IsGradient(const GraphOutput& output) { return output.kind == OutputKind::kGradient; }

at::Tensor ZerosLike(const TensorType& type) {
  std::vector<int64_t> sizes;
  for (const SymInt& size : type.sizes) sizes.push_back(size.constant());
  return at::zeros(sizes, at::TensorOptions(ToScalarType(type.dtype)));
}

// Returns the generator's state at the draws of the call.
at::Tensor StateAt(const at::Tensor& state, int64_t slice) {
  at::Tensor moved = state.clone();
  moved.mutable_data_ptr<int64_t>()[1] += slice;
  return moved;
}

}  // namespace

std::vector<at::Tensor> ComputeResults(const TracedBlock& block, absl::Span<const at::Tensor> operands, int64_t slice,
                                       BlockTable::Values& values) {
  const Graph& graph = block.traced.graph;
  values.assign(static_cast<size_t>(graph.num_values()), at::Tensor());
  for (size_t i = 0; i < operands.size(); ++i) {
    const bool is_state = block.operands[i].kind == BlockOperand::Kind::kRngState;
    values[At(graph.inputs()[i].value)] = is_state ? StateAt(operands[i], slice) : operands[i].contiguous();
  }
  auto op = block.operators.begin();
  for (const Node& node : graph.nodes()) {
    if (IsReady(node, values)) RunNode(node, *op, values);
    ++op;
  }
  std::vector<at::Tensor> results;
  for (const GraphOutput& output : graph.outputs()) {
    if (IsGradient(output)) continue;
    const at::Tensor& value = values[At(output.value)];
    const std::vector<int64_t>& strides = block.strides[results.size()];
    const bool has_strides = value.strides() == strides;
    results.push_back(has_strides ? value : at::empty_strided(value.sizes(), strides, value.options()).copy_(value));
  }
  return results;
}

std::vector<at::Tensor> ComputeGradients(const TracedBlock& block, absl::Span<const at::Tensor> tangents,
                                         BlockTable::Values& values) {
  const Graph& graph = block.traced.graph;
  for (size_t i = 0; i < tangents.size(); ++i) {
    values[At(graph.inputs()[block.operands.size() + i].value)] = tangents[i].contiguous();
  }
  auto op = block.operators.begin();
  for (const Node& node : graph.nodes()) {
    bool is_known = true;
    for (const ValueId id : node.outputs) is_known = is_known && (id == kNoValue || values[At(id)].defined());
    if (!is_known) RunNode(node, *op, values);
    ++op;
  }
  std::vector<at::Tensor> gradients;
  for (const GraphOutput& output : graph.outputs()) {
    if (IsGradient(output) && output.value != kNoValue) gradients.push_back(values[At(output.value)].contiguous());
  }
  values.clear();
  return gradients;
}

std::vector<at::Tensor> ZeroResults(const TracedBlock& block) {
  const Graph& graph = block.traced.graph;
  std::vector<at::Tensor> results;
  for (const GraphOutput& output : graph.outputs()) {
    if (IsGradient(output)) continue;
    const at::Tensor zeros = ZerosLike(graph.value(output.value).type);
    results.push_back(at::empty_strided(zeros.sizes(), block.strides[results.size()], zeros.options()).copy_(zeros));
  }
  return results;
}

std::vector<at::Tensor> ZeroGradients(const TracedBlock& block) {
  const Graph& graph = block.traced.graph;
  std::vector<at::Tensor> gradients;
  for (const GraphOutput& output : graph.outputs()) {
    if (IsGradient(output) && output.value != kNoValue) gradients.push_back(ZerosLike(graph.value(output.value).type));
  }
  return gradients;
}

}  // namespace cotan::aot
