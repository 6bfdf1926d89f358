// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/signature.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace cotan::aot {
namespace {

bool IsNewContent(OutputKind kind) {
  return kind == OutputKind::kMutatedInput || kind == OutputKind::kInputUpdate || kind == OutputKind::kInputStorage ||
         kind == OutputKind::kSharedStorage;
}

// Collects the names of inputs and outputs from a graph.
class Reader {
 public:
  Reader(const Graph& graph, const ViewAndMutationMeta& metadata, const CallingConvention& call)
      : graph_(graph), metadata_(metadata), call_(call) {}

  TracedNames Read() {
    ReadInputs();
    names_.user_inputs = call_.user_inputs;
    names_.user_outputs = call_.user_outputs;
    names_.in_spec = call_.in_spec.value_or(TreeSpec::FlatTuple(static_cast<int>(call_.user_inputs.size())));
    names_.out_spec = call_.out_spec.value_or(TreeSpec::FlatTuple(static_cast<int>(call_.user_outputs.size())));
    names_.loss_index = call_.loss_output;
    for (const GraphOutput& output : graph_.outputs()) ReadOutput(output);
    return std::move(names_);
  }

 private:
  void ReadInputs() {
    for (const GraphInput& input : graph_.inputs()) {
      const bool is_forward_token = input.kind == InputKind::kToken && input.index == 0;
      if (is_forward_token) names_.input_tokens.push_back(input.name);
      if (input.kind == InputKind::kParameter) AddState("parameter.", input.name, names_.parameters);
      if (input.kind == InputKind::kBuffer) AddState("buffer.", input.name, names_.buffers);
    }
  }

  void AddState(absl::string_view prefix, const std::string& name, std::vector<NamedTarget>& states) {
    states.push_back({absl::StrCat(prefix, name), name});
    input_names_.push_back(name);
  }

  void ReadOutput(const GraphOutput& output) {
    if (output.kind == OutputKind::kToken && output.index == 0) names_.output_tokens.push_back(output.name);
    if (IsNewContent(output.kind)) AddNewContents(output.index);
    if (output.kind == OutputKind::kGradient && output.value != kNoValue) AddGradient(output.index);
  }

  // Adds the new contents of the inputs of `graph_input`. If several inputs share it (views of one
  // base, duplicates), or if it is a base, only those that the metadata lists as mutated.
  void AddNewContents(int graph_input) {
    const bool is_shared = std::count(call_.graph_inputs.begin(), call_.graph_inputs.end(), graph_input) > 1;
    for (size_t i = 0; i < call_.graph_inputs.size(); ++i) {
      if (call_.graph_inputs[i] != graph_input) continue;
      if ((is_shared || IsBase(graph_input)) && !IsMutated(static_cast<int>(i))) continue;
      names_.new_contents.push_back({absl::StrCat("mutated.", NameOf(i)), static_cast<int>(i)});
    }
  }

  // Adds a gradient. A synthetic base is not an input of the caller, so its gradient has no name.
  void AddGradient(int graph_input) {
    if (IsBase(graph_input)) return;
    const auto found = std::find(call_.graph_inputs.begin(), call_.graph_inputs.end(), graph_input);
    if (found == call_.graph_inputs.end()) return;
    const auto input = static_cast<size_t>(found - call_.graph_inputs.begin());
    names_.gradients.push_back({absl::StrCat("gradient.", NameOf(input)), static_cast<int>(input)});
  }

  bool IsBase(int graph_input) const {
    const std::string& name = graph_.inputs()[static_cast<size_t>(graph_input)].name;
    return static_cast<size_t>(graph_input) >= input_names_.size() &&
           std::find(call_.user_inputs.begin(), call_.user_inputs.end(), name) == call_.user_inputs.end();
  }

  bool IsMutated(int input) const {
    if (input >= metadata_.num_inputs()) return false;
    return metadata_.input(input).mutates_data || metadata_.input(input).mutates_storage_metadata;
  }

  // Returns the name of a state or user input.
  const std::string& NameOf(size_t input) const {
    return input < input_names_.size() ? input_names_[input] : call_.user_inputs[input - input_names_.size()];
  }

  const Graph& graph_;
  const ViewAndMutationMeta& metadata_;
  const CallingConvention& call_;
  std::vector<std::string> input_names_;  // of states
  TracedNames names_;
};

}  // namespace

absl::StatusOr<GraphSignature> SignatureOf(const Graph& graph, const ViewAndMutationMeta& metadata,
                                           const CallingConvention& call) {
  return GraphSignature::FromTracingMetadata(Reader(graph, metadata, call).Read(), metadata);
}

}  // namespace cotan::aot
