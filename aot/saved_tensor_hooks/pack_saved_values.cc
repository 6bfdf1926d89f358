// SPDX-License-Identifier: Apache-2.0

#include "aot/saved_tensor_hooks/pack_saved_values.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "aot/ir/call_node.h"
#include "aot/ir/prim_node.h"
#include "aot/ir/size_estimate.h"
#include "aot/ir/text.h"
#include "aot/partitioner/saved_values.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

using ValueMap = absl::flat_hash_map<ValueId, ValueId>;
using Position = Graph::NodeList::iterator;

// Copies a node with its operands replaced by `map`, which gets its results.
void CopyNode(const Graph& from, const Node& node, ValueMap& map, Graph& to, Position position) {
  Node copy = node;
  const auto replace = [&map](Use& use) {
    if (use.value != kNoValue) use.value = map.at(use.value);
  };
  for (Argument& argument : copy.arguments) {
    if (Use* use = std::get_if<Use>(&argument)) replace(*use);
    if (auto* uses = std::get_if<std::vector<Use>>(&argument)) std::for_each(uses->begin(), uses->end(), replace);
  }
  for (ValueId& result : copy.outputs) {
    if (result == kNoValue) continue;
    const Value& value = from.value(result);
    result = map[result] = to.AddValue(value.type, value.name);
  }
  to.nodes().insert(position, std::move(copy));
}

// Copies the nodes of `body` with its inputs replaced by `arguments`, and returns the values of its outputs.
std::vector<ValueId> Inline(const Graph& body, absl::Span<const ValueId> arguments, Graph& to, Position position) {
  ValueMap map;
  for (size_t i = 0; i < body.inputs().size(); ++i) map[body.inputs()[i].value] = arguments[i];
  for (const Node& node : body.nodes()) CopyNode(body, node, map, to, position);
  std::vector<ValueId> results;
  for (const GraphOutput& output : body.outputs()) results.push_back(map.at(output.value));
  return results;
}

// Returns the place right after the node that computes a value; the first place for a graph input.
Position AfterProducer(Graph& graph, ValueId value) {
  for (auto it = graph.nodes().begin(); it != graph.nodes().end(); ++it) {
    if (std::find(it->outputs.begin(), it->outputs.end(), value) != it->outputs.end()) return std::next(it);
  }
  return graph.nodes().begin();
}

// Returns the place right before the first node that reads a value; the last place if only outputs do.
Position BeforeFirstUse(Graph& graph, ValueId value) {
  return std::find_if(graph.nodes().begin(), graph.nodes().end(), [&](const Node& node) {
    const std::vector<ValueId> operands = TensorOperands(node);
    return std::find(operands.begin(), operands.end(), value) != operands.end();
  });
}

// Returns a copy of a value on the other side of host and device.
ValueId HostCopy(PrimOp direction, ValueId value, Graph& graph, Position position) {
  TensorType type = graph.value(value).type;
  return graph.InsertNode(position, std::string(PrimName(direction)), {Use{value}}, {std::move(type)}).outputs[0];
}

// Returns a value behind a barrier.
ValueId Barrier(ValueId value, Graph& graph, Position position) {
  const TensorType type = graph.value(value).type;
  const Node& node =
      graph.InsertNode(position, std::string(PrimName(PrimOp::kBarrier)), {Use{value}, ToSymInts(type.sizes)}, {type});
  return node.outputs[0];
}

bool IsStatic(InputKind kind) {
  return kind == InputKind::kParameter || kind == InputKind::kBuffer || kind == InputKind::kConstant;
}

class Packer {
 public:
  Packer(const PackedSelection& selection, const PairTracer& trace, Partitioned& parts)
      : selection_(selection), trace_(trace), forward_(parts.forward), backward_(parts.backward) {}

  absl::Status Run() {
    FindWritten();
    std::vector<ValueId> saved;  // in the forward
    for (const GraphOutput& output : forward_.outputs()) {
      if (output.kind == OutputKind::kSaved) saved.push_back(output.value);
    }
    const std::vector<bool> chosen = Choose(saved);
    std::vector<GraphInput> others;
    for (const GraphInput& input : backward_.inputs()) {
      if (input.kind != InputKind::kSaved) {
        others.push_back(input);
        continue;
      }
      const auto index = static_cast<size_t>(input.index);
      if (!chosen[index]) {
        Save(saved[index], input.value);
      } else {
        COTAN_RETURN_IF_ERROR(Pack(saved[index], input.value));
      }
    }
    if (selection_.filter == HookFilter::kAll && !selection_.is_block) COTAN_RETURN_IF_ERROR(PackStates(others));
    Finish(std::move(others));
    return absl::OkStatus();
  }

 private:
  // Notes which values of the backward it writes to.
  void FindWritten() {
    for (const GraphOutput& output : backward_.outputs()) {
      if (!UpdatesInput(output.kind)) continue;
      written_.push_back(backward_.inputs()[static_cast<size_t>(output.index)].value);
    }
  }

  // Returns which saved values are packed.
  std::vector<bool> Choose(const std::vector<ValueId>& saved) const {
    ValueMap roots;  // the value that a view is of
    for (const Node& node : forward_.nodes()) {
      if (!IsView(node)) continue;
      const auto found = roots.find(TensorOperands(node)[0]);
      roots[node.outputs[0]] = found == roots.end() ? TensorOperands(node)[0] : found->second;
    }
    const absl::flat_hash_set<ValueId> left_out = LeftToOthers();
    const std::vector<bool> passing = PassingFilter(saved, roots);
    std::vector<bool> chosen;
    for (size_t i = 0; i < saved.size(); ++i) {
      chosen.push_back(passing[i] && !left_out.contains(saved[i]) && IsPackable(forward_.value(saved[i]).type) &&
                       !IsWritten(i));
    }
    return chosen;
  }

  // Returns which saved values pass the filter.
  std::vector<bool> PassingFilter(const std::vector<ValueId>& saved, const ValueMap& roots) const {
    absl::flat_hash_set<ValueId> inputs, states;
    for (const GraphInput& input : forward_.inputs()) (IsStatic(input.kind) ? states : inputs).insert(input.value);
    const serialization::SavedForBackward facts = DescribeSaved(forward_);
    const absl::flat_hash_set<uint32_t> donated(facts.donated().begin(), facts.donated().end());
    std::vector<bool> passing;
    for (size_t i = 0; i < saved.size(); ++i) {
      const auto found = roots.find(saved[i]);
      const ValueId root = found == roots.end() ? saved[i] : found->second;
      // Whether the callers of a block keep its results is not known here.
      const bool is_donated = selection_.is_block ? !inputs.contains(root) && !states.contains(root)
                                                  : donated.contains(static_cast<uint32_t>(i));
      passing.push_back(selection_.filter == HookFilter::kAll ||
                        (selection_.filter == HookFilter::kNoStatic && !states.contains(root)) || is_donated);
    }
    return passing;
  }

  // Returns the values that a caller or a called block packs.
  absl::flat_hash_set<ValueId> LeftToOthers() const {
    absl::flat_hash_set<ValueId> values;
    if (selection_.is_block) {
      for (const GraphInput& input : forward_.inputs()) values.insert(input.value);
      for (const GraphOutput& output : forward_.outputs()) {
        if (output.kind != OutputKind::kSaved) values.insert(output.value);
      }
    }
    if (selection_.is_saved_by_block == nullptr) return values;
    for (const Node& node : forward_.nodes()) {
      for (size_t i = 0; node.op == kCallOp && i < node.outputs.size(); ++i) {
        if (selection_.is_saved_by_block(node, i)) values.insert(node.outputs[i]);
      }
    }
    return values;
  }

  bool IsPackable(const TensorType& type) const {
    return IsFloatingPoint(type.dtype) && !IsStorageOnly(type.dtype) &&
           EstimatedCount(type.sizes) >= selection_.min_elements;
  }

  // Returns whether the backward reads one of its inputs.
  bool IsRead(ValueId value) {
    return BeforeFirstUse(backward_, value) != backward_.nodes().end() ||
           std::any_of(backward_.outputs().begin(), backward_.outputs().end(),
                       [value](const GraphOutput& output) { return output.value == value; });
  }

  // Returns whether the backward writes to saved value `index`.
  bool IsWritten(size_t index) const {
    return std::any_of(backward_.inputs().begin(), backward_.inputs().end(), [&](const GraphInput& input) {
      return input.kind == InputKind::kSaved && static_cast<size_t>(input.index) == index &&
             std::find(written_.begin(), written_.end(), input.value) != written_.end();
    });
  }

  // Appends a saved value: `value` in the forward, `received` in the backward.
  void Save(ValueId value, ValueId received) {
    const auto index = static_cast<int>(saved_.size());
    saved_.push_back({value, OutputKind::kSaved, index, absl::StrCat("saved.", index)});
    received_.push_back({received, InputKind::kSaved, index, absl::StrCat("saved.", index)});
  }

  // Returns a description of a value of the forward.
  std::string Describe(ValueId value) const {
    std::string source;
    for (const GraphInput& input : forward_.inputs()) {
      if (input.value == value) source = absl::StrCat("input '", input.name, "'");
    }
    for (const Node& node : forward_.nodes()) {
      if (std::find(node.outputs.begin(), node.outputs.end(), value) == node.outputs.end()) continue;
      source = node.source.empty() ? node.op : node.source;
    }
    return absl::StrCat("saved value ", PrintType(forward_.value(value).type), " (", source, ")");
  }

  // Packs `value` of the forward, which the backward receives as `received`.
  absl::Status Pack(ValueId value, ValueId received) {
    COTAN_ASSIGN_OR_RETURN(const TracedPair pair, trace_(forward_.value(value).type, Describe(value)));
    const Position after = AfterProducer(forward_, value);
    const std::vector<ValueId> packed = Inline(pair.pack, {value}, forward_, after);
    const Position first_use = BeforeFirstUse(backward_, received);
    std::vector<ValueId> arguments;
    for (const ValueId tensor : packed) {
      const TensorType type = forward_.value(tensor).type;
      const ValueId argument = backward_.AddValue(type);
      if (selection_.on_host && EstimatedCount(type.sizes) >= selection_.min_elements) {
        Save(HostCopy(PrimOp::kToHost, tensor, forward_, after), argument);
        arguments.push_back(HostCopy(PrimOp::kFromHost, argument, backward_, first_use));
      } else {
        Save(tensor, argument);
        arguments.push_back(Barrier(argument, backward_, first_use));
      }
    }
    backward_.ReplaceAllUses(received, Inline(pair.unpack, arguments, backward_, first_use)[0]);
    return absl::OkStatus();
  }

  // Packs the states among the inputs of the backward, and removes them from `others`.
  absl::Status PackStates(std::vector<GraphInput>& others) {
    std::vector<GraphInput> kept;
    for (const GraphInput& input : others) {
      const bool is_written = std::find(written_.begin(), written_.end(), input.value) != written_.end();
      if (!IsStatic(input.kind) || is_written || !IsRead(input.value) ||
          !IsPackable(backward_.value(input.value).type)) {
        kept.push_back(input);
        continue;
      }
      const auto state = std::find_if(forward_.inputs().begin(), forward_.inputs().end(), [&](const GraphInput& i) {
        return i.kind == input.kind && i.index == input.index && i.name == input.name;
      });
      COTAN_RETURN_IF_ERROR(Pack(state->value, input.value));
    }
    others = std::move(kept);
    return absl::OkStatus();
  }

  // Sets the inputs and outputs of both graphs.
  void Finish(std::vector<GraphInput> others) {
    std::erase_if(forward_.outputs(), [](const GraphOutput& output) { return output.kind == OutputKind::kSaved; });
    forward_.outputs().insert(forward_.outputs().end(), saved_.begin(), saved_.end());
    std::vector<GraphInput> inputs = std::move(received_);
    inputs.insert(inputs.end(), others.begin(), others.end());
    auto written = written_.begin();
    for (GraphOutput& output : backward_.outputs()) {
      if (!UpdatesInput(output.kind)) continue;
      const ValueId value = *written++;
      const auto found =
          std::find_if(inputs.begin(), inputs.end(), [&](const GraphInput& i) { return i.value == value; });
      output.index = static_cast<int>(found - inputs.begin());
    }
    backward_.inputs() = std::move(inputs);
    forward_.Compact();
    backward_.Compact();
  }

  const PackedSelection& selection_;
  const PairTracer& trace_;
  Graph& forward_;
  Graph& backward_;
  std::vector<ValueId> written_;  // inputs of the backward, in the order of the outputs that write to them
  std::vector<GraphOutput> saved_;
  std::vector<GraphInput> received_;
};

// Returns true for what only the backward of a joint graph has.
bool IsOfBackward(const GraphInput& input) {
  return input.kind == InputKind::kTangent || (input.kind == InputKind::kToken && input.index == 1);
}
bool IsOfBackward(const GraphOutput& output) {
  return output.kind == OutputKind::kGradient || output.kind == OutputKind::kBackwardUpdate ||
         (output.kind == OutputKind::kToken && output.index == 1);
}

}  // namespace

absl::Status PackSavedValues(const PackedSelection& selection, const PairTracer& trace, Partitioned& parts) {
  return Packer(selection, trace, parts).Run();
}

Graph Rejoin(const Graph& joint, const Partitioned& parts) {
  Graph result;
  result.name = joint.name;
  ValueMap forward;
  ValueMap backward;
  std::vector<ValueId> forward_inputs;
  for (const GraphInput& input : joint.inputs()) {
    const ValueId value = result.AddInput(joint.value(input.value).type, input.kind, input.index, input.name);
    if (!IsOfBackward(input)) forward_inputs.push_back(value);
    for (const GraphInput& other : parts.backward.inputs()) {
      if (other.kind == input.kind && other.index == input.index && other.name == input.name) {
        backward[other.value] = value;
      }
    }
  }
  for (size_t i = 0; i < forward_inputs.size(); ++i) forward[parts.forward.inputs()[i].value] = forward_inputs[i];
  for (const Node& node : parts.forward.nodes()) {
    CopyNode(parts.forward, node, forward, result, result.nodes().end());
  }
  std::vector<ValueId> of_forward;
  std::vector<ValueId> saved;
  for (const GraphOutput& output : parts.forward.outputs()) {
    const ValueId value = output.value == kNoValue ? kNoValue : forward.at(output.value);
    (output.kind == OutputKind::kSaved ? saved : of_forward).push_back(value);
  }
  for (const GraphInput& input : parts.backward.inputs()) {
    if (input.kind == InputKind::kSaved) backward[input.value] = saved[static_cast<size_t>(input.index)];
  }
  for (const Node& node : parts.backward.nodes()) {
    CopyNode(parts.backward, node, backward, result, result.nodes().end());
  }
  auto next_forward = of_forward.begin();
  auto next_backward = parts.backward.outputs().begin();
  for (const GraphOutput& output : joint.outputs()) {
    ValueId value = kNoValue;
    if (IsOfBackward(output)) {
      if (next_backward->value != kNoValue) value = backward.at(next_backward->value);
      ++next_backward;
    } else {
      value = *next_forward++;
    }
    result.AddOutput(value, output.kind, output.index, output.name);
  }
  return result;
}

}  // namespace cotan::aot
