// SPDX-License-Identifier: Apache-2.0

#include "aot/blocks/lower_calls.h"

#include <algorithm>
#include <variant>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "aot/emit/emit.h"
#include "aot/ir/call_node.h"
#include "aot/partitioner/forward_only.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

using Ref = LoweredBlock::Ref;
using serialization::Method;

// Returns the operand that is an input of a graph of the block.
size_t OperandOf(const GraphInput& input, const Graph& traced) {
  const auto is_same = [&](const GraphInput& other) { return other.kind == input.kind && other.index == input.index; };
  const auto found = std::find_if(traced.inputs().begin(), traced.inputs().end(), is_same);
  return static_cast<size_t>(found - traced.inputs().begin());
}

// --- calls ---------------------------------------------------------------------------

// Lowers the calls in one graph. A backward finds its forward by the ticket.
class GraphCalls : public CallLowering {
 public:
  explicit GraphCalls(BlockLowerer& lowerer) : lowerer_(lowerer) {}

  void Start(const Graph& graph) override {
    for (const Node& node : graph.nodes()) {
      if (node.op == kBlockBackwardOp) differentiated_.insert(std::get<Use>(node.arguments[0]).value);
    }
  }

  absl::Status Lower(const Graph& graph, const Node& node, Lowering& lowering) override {
    lowering.b.set_source(node.source);
    return node.op == kBlockOp ? LowerForward(node, lowering) : LowerBackward(node, lowering);
  }

 private:
  struct Call {
    const LoweredBlock* block = nullptr;
    std::vector<ValueId> operands;
    std::vector<ValueId> forward_outputs;
    std::vector<ValueId> tangents;
    std::vector<ValueId> backward_outputs;

    ValueId ValueOf(const Ref& ref) const {
      switch (ref.kind) {
        case Ref::Kind::kOperand:
          return operands[ref.index];
        case Ref::Kind::kTangent:
          return tangents[ref.index];
        case Ref::Kind::kForwardOutput:
          return forward_outputs[ref.index];
        case Ref::Kind::kBackwardOutput:
          break;
      }
      return backward_outputs[ref.index];
    }
  };

  static std::vector<ValueId> Mapped(const Argument& argument, const Lowering& lowering) {
    std::vector<ValueId> values;
    for (const Use use : std::get<std::vector<Use>>(argument)) values.push_back(lowering.Mapped(use.value));
    return values;
  }

  // Emits the call of a part of a block. The last two arguments of `node` are slice and path.
  static std::vector<ValueId> Emit(const LoweredBlock::Part& part, const Call& call, const Node& node, Builder& b) {
    if (part.outputs.empty()) return {};
    std::vector<Use> inputs;
    for (const Ref& ref : part.inputs) inputs.push_back(Use{call.ValueOf(ref)});
    std::vector<ValueId> outputs;
    for (const Tensor& tensor :
         b.EmitNode(std::string(kCallOp),
                    {inputs, SymInt(static_cast<int64_t>(part.block)), node.arguments.end()[-2], node.arguments.back()},
                    part.outputs, nullptr)) {
      outputs.push_back(tensor.id());
    }
    return outputs;
  }

  absl::Status LowerForward(const Node& node, Lowering& lowering) {
    const ValueId ticket = node.outputs.back();
    Call call;
    const auto number = static_cast<int>(std::get<SymInt>(node.arguments[1]).constant());
    COTAN_ASSIGN_OR_RETURN(call.block, lowerer_.Lowered(number, differentiated_.contains(ticket)));
    call.operands = Mapped(node.arguments[0], lowering);
    call.forward_outputs = Emit(call.block->forward, call, node, lowering.b);
    for (size_t i = 0; i < call.block->results.size(); ++i) {
      lowering.Map(node.outputs[i], call.ValueOf(call.block->results[i]));
    }
    calls_.emplace(ticket, std::move(call));
    return absl::OkStatus();
  }

  absl::Status LowerBackward(const Node& node, Lowering& lowering) {
    Call& call = calls_.at(std::get<Use>(node.arguments[0]).value);
    call.tangents = Mapped(node.arguments[1], lowering);
    call.backward_outputs = Emit(call.block->backward, call, node, lowering.b);
    for (size_t i = 0; i < call.block->gradients.size(); ++i) {
      lowering.Map(node.outputs[i], call.ValueOf(call.block->gradients[i]));
    }
    return absl::OkStatus();
  }

  BlockLowerer& lowerer_;
  absl::flat_hash_set<ValueId> differentiated_;  // tickets
  absl::flat_hash_map<ValueId, Call> calls_;     // by ticket
};

}  // namespace

std::unique_ptr<CallLowering> BlockLowerer::ForGraph() { return std::make_unique<GraphCalls>(*this); }

absl::StatusOr<const LoweredBlock*> BlockLowerer::Lowered(int block, bool has_backward) {
  const std::pair<int, bool> key(block, has_backward);
  if (const auto found = lowered_.find(key); found != lowered_.end()) return found->second.get();
  absl::StatusOr<LoweredBlock> made = has_backward ? LowerPair(block) : LowerForward(block);
  if (!made.ok()) {
    return absl::Status(made.status().code(), absl::StrCat("block ", block, ": ", made.status().message()));
  }
  return lowered_.emplace(key, std::make_unique<LoweredBlock>(*std::move(made))).first->second.get();
}

bool BlockLowerer::IsSavedByBlock(const Node& call, size_t output) const {
  const auto block = static_cast<uint32_t>(std::get<SymInt>(call.arguments[1]).constant());
  const auto found = num_returned_.find(block);
  return found != num_returned_.end() && output >= found->second;
}

absl::StatusOr<AddedBlock> BlockLowerer::Add(Graph graph, const std::string& name) {
  COTAN_RETURN_IF_ERROR(Optimize(graph, layouts_));
  return AddOptimized(std::move(graph), name);
}

absl::StatusOr<AddedBlock> BlockLowerer::AddOptimized(Graph graph, const std::string& name) {
  AddedBlock added;
  absl::flat_hash_map<ValueId, size_t> input_of;
  for (size_t i = 0; i < graph.inputs().size(); ++i) input_of.emplace(graph.inputs()[i].value, i);
  absl::flat_hash_map<ValueId, size_t> output_of;
  std::vector<GraphOutput> outputs;
  for (const GraphOutput& output : graph.outputs()) {
    if (output.value == kNoValue) continue;
    if (const auto input = input_of.find(output.value); input != input_of.end()) {
      added.values.emplace_back(true, input->second);
      continue;
    }
    const auto [entry, is_new] = output_of.try_emplace(output.value, outputs.size());
    added.values.emplace_back(false, entry->second);
    if (!is_new) continue;
    outputs.push_back({output.value, OutputKind::kUserOutput, static_cast<int>(outputs.size()), ""});
    added.outputs.push_back(graph.value(output.value).type);
  }
  graph.outputs() = std::move(outputs);
  absl::flat_hash_set<ValueId> used;
  for (const Node& node : graph.nodes()) {
    for (const ValueId id : TensorOperands(node)) used.insert(id);
  }
  std::vector<GraphInput> inputs;
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    if (!used.contains(graph.inputs()[i].value)) continue;
    added.inputs.push_back(i);
    inputs.push_back({graph.inputs()[i].value, InputKind::kUserInput, static_cast<int>(inputs.size()), ""});
  }
  graph.inputs() = std::move(inputs);
  graph.name = name;
  COTAN_ASSIGN_OR_RETURN(Method method, Emit(graph, {}));
  method.clear_input_names();
  method.clear_output_names();
  for (serialization::Value& value : *method.mutable_values()) value.clear_name();
  if (!added.outputs.empty()) added.block = add_(std::move(method));
  return added;
}

absl::StatusOr<LoweredBlock> BlockLowerer::LowerForward(int block) {
  const Graph& traced = table_.block(block).traced.graph;
  Graph graph = traced;
  if (HasBackward(traced)) {
    COTAN_ASSIGN_OR_RETURN(graph, ForwardOnly(traced));
  }
  COTAN_RETURN_IF_ERROR(CleanUp(graph));
  COTAN_ASSIGN_OR_RETURN(Graph lowered, LowerToPrims(graph, ForGraph().get()));
  COTAN_RETURN_IF_ERROR(Optimize(lowered, layouts_));
  COTAN_ASSIGN_OR_RETURN(AddedBlock added, AddOptimized(lowered, absl::StrCat("block.", block, ".forward")));
  LoweredBlock result;
  for (const size_t input : added.inputs) {
    result.forward.inputs.push_back({Ref::Kind::kOperand, OperandOf(lowered.inputs()[input], traced)});
  }
  for (const auto& [is_input, index] : added.values) {
    result.results.push_back(is_input ? Ref{Ref::Kind::kOperand, OperandOf(lowered.inputs()[index], traced)}
                                      : Ref{Ref::Kind::kForwardOutput, index});
  }
  result.forward.block = added.block;
  result.forward.outputs = std::move(added.outputs);
  return result;
}

absl::StatusOr<LoweredBlock> BlockLowerer::LowerPair(int block) {
  const Graph& traced = table_.block(block).traced.graph;
  Graph graph = traced;
  COTAN_RETURN_IF_ERROR(CleanUp(graph));
  COTAN_ASSIGN_OR_RETURN(const Graph lowered, LowerToPrims(graph, ForGraph().get()));
  COTAN_ASSIGN_OR_RETURN(Partitioned parts, Partition(lowered, options_));
  COTAN_RETURN_IF_ERROR(pack_(parts));
  COTAN_RETURN_IF_ERROR(OptimizePair(parts.forward, parts.backward, layouts_));
  COTAN_ASSIGN_OR_RETURN(AddedBlock forward,
                         AddOptimized(parts.forward, absl::StrCat("block.", block, ".forward.saving")));
  COTAN_ASSIGN_OR_RETURN(AddedBlock backward, AddOptimized(parts.backward, absl::StrCat("block.", block, ".backward")));

  LoweredBlock result;
  const auto operand = [&](const GraphInput& input) { return Ref{Ref::Kind::kOperand, OperandOf(input, traced)}; };
  std::vector<Ref> saved;
  const size_t num_results = table_.block(block).num_results();
  size_t num_returned = 0;
  for (size_t i = 0; i < forward.values.size(); ++i) {
    const auto& [is_input, index] = forward.values[i];
    if (i < num_results && !is_input) num_returned = std::max(num_returned, index + 1);
    const Ref ref = is_input ? operand(parts.forward.inputs()[index]) : Ref{Ref::Kind::kForwardOutput, index};
    (i < num_results ? result.results : saved).push_back(ref);
  }
  for (const size_t input : forward.inputs) result.forward.inputs.push_back(operand(parts.forward.inputs()[input]));
  const auto of_backward = [&](size_t input) {
    const GraphInput& taken = parts.backward.inputs()[input];
    if (taken.kind == InputKind::kSaved) return saved[static_cast<size_t>(taken.index)];
    if (taken.kind == InputKind::kTangent) return Ref{Ref::Kind::kTangent, static_cast<size_t>(taken.index)};
    return operand(taken);
  };
  for (const size_t input : backward.inputs) result.backward.inputs.push_back(of_backward(input));
  for (const auto& [is_input, index] : backward.values) {
    result.gradients.push_back(is_input ? of_backward(index) : Ref{Ref::Kind::kBackwardOutput, index});
  }
  if (!forward.outputs.empty()) num_returned_.emplace(forward.block, num_returned);
  result.forward.block = forward.block;
  result.forward.outputs = std::move(forward.outputs);
  result.backward.block = backward.block;
  result.backward.outputs = std::move(backward.outputs);
  return result;
}

}  // namespace cotan::aot
