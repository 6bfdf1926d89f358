#include "aot/metadata/signature.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

namespace cotan::aot {
namespace {

using serialization::GraphSignature;

void Mutate(const std::string& name, GraphSignature::Mutation& mutation) {
  mutation.set_output(absl::StrCat("mutated.", name));
  mutation.set_target(name);
}

void AddGradient(const std::string& name, GraphSignature::Gradient& gradient) {
  gradient.set_output(absl::StrCat("gradient.", name));
  gradient.set_target(name);
}

bool Contains(absl::Span<const std::string> names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

GraphSignature SignatureOf(const Graph& graph, const ViewAndMutationFacts& facts,
                           absl::Span<const std::string> user_inputs, absl::Span<const std::string> user_outputs) {
  GraphSignature signature;
  for (const GraphInput& input : graph.inputs()) {
    if (input.kind == InputKind::kParameter) signature.add_parameters(input.name);
    if (input.kind == InputKind::kBuffer) signature.add_buffers(input.name);
  }
  for (const GraphInput& input : graph.inputs()) {
    if (input.kind == InputKind::kToken && input.index == 0) signature.add_input_tokens(input.name);
  }
  for (const GraphOutput& output : graph.outputs()) {
    if (output.kind == OutputKind::kToken && output.index == 0) signature.add_output_tokens(output.name);
  }
  for (const std::string& name : user_inputs) signature.add_user_inputs(name);
  for (const std::string& name : user_outputs) signature.add_user_outputs(name);

  const size_t num_parameters = static_cast<size_t>(signature.parameters_size());
  const size_t num_states = num_parameters + static_cast<size_t>(signature.buffers_size());
  for (size_t i = 0; i < facts.input_info.size(); ++i) {
    if (!facts.input_info[i].mutates_data && !facts.input_info[i].mutates_storage_metadata) continue;
    if (i < num_parameters) {
      Mutate(signature.parameters(static_cast<int>(i)), *signature.add_parameters_to_mutate());
    } else if (i < num_states) {
      Mutate(signature.buffers(static_cast<int>(i - num_parameters)), *signature.add_buffers_to_mutate());
    } else {
      Mutate(user_inputs[i - num_states], *signature.add_user_inputs_to_mutate());
    }
  }
  for (const GraphOutput& output : graph.outputs()) {
    if (output.kind != OutputKind::kGradient || output.value == kNoValue) continue;
    const GraphInput& input = graph.inputs()[static_cast<size_t>(output.index)];
    if (input.kind == InputKind::kParameter) AddGradient(input.name, *signature.add_gradients_to_parameters());
    // A synthetic base is none of the caller's inputs.
    if (Contains(user_inputs, input.name)) AddGradient(input.name, *signature.add_gradients_to_user_inputs());
  }
  return signature;
}

}  // namespace cotan::aot
