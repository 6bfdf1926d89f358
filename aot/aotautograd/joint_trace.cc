// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/joint_trace.h"

#include <ATen/FunctionalStorageImpl.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "aot/capture/effects.h"
#include "aot/capture/inputs.h"
#include "aot/capture/proxy_tensor.h"
#include "aot/capture/tensor_data.h"

namespace cotan::aot {
JointTrace::JointTrace(absl::Span<const ModuleState> states, FirstPass first_pass, const TraceOptions& options)
    : states(states),
      options(options),
      first(std::move(first_pass)),
      facts(std::move(first.bound.program_facts)),
      recorder(options.decompositions),
      recording(recorder) {
  recorder.graph().name = options.name;
}

void JointTrace::InstallProxies(absl::Span<const at::Tensor> examples) {
  input_names = NamesFor(examples.size(), options.input_names, "input");
  program_arguments = AddProgramArguments(first.bound.binding, states, examples, input_names, recorder);
  for (const ModuleState& state : states) {
    program.states.push_back(
        {state.name, state.role, ToTensorData(state.initial), state.requires_grad, state.persistent, state.aliases});
  }
  for (const ProgramArgument& argument : program_arguments.arguments) {
    arguments.push_back(argument.tensor);
    if (argument.example.defined()) program.reference.inputs.push_back(ToTensorData(argument.example));
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    const at::Tensor& tensor = arguments[i];
    if (!facts.input_info[i].mutates_storage_metadata || !tensor.requires_grad() || !tensor.is_leaf()) continue;
    edges_before_new_storage.emplace_back(static_cast<int>(i), torch::autograd::impl::gradient_edge(tensor));
  }
  InstallRngState(options.seed, recorder);
  InstallEffectToken(recorder, /*index=*/0);
  program.reference.rng_seed = static_cast<int64_t>(options.seed);
}

void JointTrace::Release() {
  tangents.clear();
  edges_before_new_storage.clear();
  intermediate_bases.clear();
  outputs.clear();
  arguments.clear();
  // Keep the metadata of the arguments, drop their tensors.
  for (ProgramArgument& argument : program_arguments.arguments) argument.primal = argument.tensor = at::Tensor();
  program_arguments.function_inputs.clear();
  recorder.rng_state = at::Tensor();
  recorder.effect_token = at::Tensor();
  recorder.RevokeRawWrites();
  recorder.autograd_views().ReleaseHistories();
  RestoreStates(states);
}

int JointTrace::LossOutput() const {
  if (options.backward != TraceOptions::Backward::kLoss) return -1;
  const int from_end = options.loss_output < 0 ? static_cast<int>(output_names.size()) : 0;
  return options.loss_output + from_end;
}

GraphInput& JointTrace::GraphInputOf(int argument) {
  const int index = program_arguments.arguments[static_cast<size_t>(argument)].graph_input;
  return recorder.graph().inputs()[static_cast<size_t>(index)];
}

at::Tensor JointTrace::AtExit(int argument) const {
  const at::Tensor& tensor = arguments[static_cast<size_t>(argument)];
  const at::Tensor& example = program_arguments.arguments[static_cast<size_t>(argument)].example;
  const bool is_base = argument < first.bound.binding.num_bases();
  if (!is_base || LayoutOf(tensor) == LayoutOf(example)) return tensor;
  return StorageContentOf(tensor);
}

at::Tensor JointTrace::TensorOf(const ForwardTensor& tensor) const {
  const size_t index = static_cast<size_t>(tensor.index);
  switch (tensor.kind) {
    case ForwardTensor::Kind::kMutatedInput:
      return AtExit(tensor.index);
    case ForwardTensor::Kind::kOutput:
      return outputs[index];
    case ForwardTensor::Kind::kIntermediateBase:
      break;
  }
  return intermediate_bases[index];
}

std::string JointTrace::NameOf(const ForwardTensor& tensor) {
  switch (tensor.kind) {
    case ForwardTensor::Kind::kMutatedInput:
      return GraphInputOf(tensor.index).name;
    case ForwardTensor::Kind::kOutput:
      return output_names[static_cast<size_t>(tensor.index)];
    case ForwardTensor::Kind::kIntermediateBase:
      break;
  }
  return absl::StrCat("intermediate_base.", tensor.index);
}

bool JointTrace::AddTokenOutput(int index) {
  Graph& graph = recorder.graph();
  const ValueId last = recorder.ValueOf(recorder.effect_token);
  recorder.effect_token = at::Tensor();
  const bool has_effects = std::none_of(graph.inputs().begin(), graph.inputs().end(),
                                        [last](const GraphInput& input) { return input.value == last; });
  if (has_effects) graph.AddOutput(last, OutputKind::kToken, index, index == 0 ? "token" : "backward_token");
  return has_effects;
}

at::Tensor StorageContentOf(const at::Tensor& tensor) {
  auto* storage = static_cast<at::functionalization::FunctionalStorageImpl*>(tensor.storage().unsafeGetStorageImpl());
  storage->apply_updates();
  return WrapFunctional(storage->base());
}

std::vector<std::string> NamesFor(size_t count, const std::vector<std::string>& given, absl::string_view prefix) {
  std::vector<std::string> names = given;
  for (size_t i = names.size(); i < count; ++i) names.push_back(absl::StrCat(prefix, ".", i));
  names.resize(count);
  return names;
}

}  // namespace cotan::aot
