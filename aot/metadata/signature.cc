#include "aot/metadata/signature.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace cotan::aot {
namespace {

using serialization::GraphSignature;

void AddMutation(const GraphInput& input, GraphSignature& signature) {
  GraphSignature::Mutation* mutation = nullptr;
  switch (input.kind) {
    case InputKind::kParameter: mutation = signature.add_parameters_to_mutate(); break;
    case InputKind::kBuffer: mutation = signature.add_buffers_to_mutate(); break;
    default: mutation = signature.add_user_inputs_to_mutate(); break;
  }
  mutation->set_output(absl::StrCat("mutated.", input.name));
  mutation->set_target(input.name);
}

void AddGradient(const GraphInput& input, GraphSignature& signature) {
  GraphSignature::Gradient* gradient = input.kind == InputKind::kParameter
                                           ? signature.add_gradients_to_parameters()
                                           : signature.add_gradients_to_user_inputs();
  gradient->set_output(absl::StrCat("gradient.", input.name));
  gradient->set_target(input.name);
}

}  // namespace

GraphSignature SignatureOf(const Graph& graph) {
  GraphSignature signature;
  for (const GraphInput& input : graph.inputs()) {
    if (input.kind == InputKind::kParameter) signature.add_parameters(input.name);
    if (input.kind == InputKind::kBuffer) signature.add_buffers(input.name);
    if (input.kind == InputKind::kUserInput) signature.add_user_inputs(input.name);
  }
  for (const GraphOutput& output : graph.outputs()) {
    const auto input = [&]() -> const GraphInput& {
      return graph.inputs()[static_cast<size_t>(output.index)];
    };
    if (output.kind == OutputKind::kUserOutput) signature.add_user_outputs(output.name);
    if (output.kind == OutputKind::kMutatedInput) AddMutation(input(), signature);
    if (output.kind == OutputKind::kGradient && output.value != kNoValue) {
      AddGradient(input(), signature);
    }
  }
  return signature;
}

}  // namespace cotan::aot
