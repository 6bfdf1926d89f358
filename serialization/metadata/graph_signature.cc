// SPDX-License-Identifier: Apache-2.0

#include "serialization/metadata/graph_signature.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "serialization/schema/field.h"

namespace cotan {
namespace {

using NameSet = absl::flat_hash_set<absl::string_view>;

std::string Quoted(absl::string_view name) { return absl::StrCat("\"", absl::CEscape(name), "\""); }

std::vector<std::string> TargetsOf(const std::vector<NamedTarget>& pairs) {
  std::vector<std::string> targets;
  for (const NamedTarget& pair : pairs) targets.push_back(pair.target);
  return targets;
}

absl::Status CheckTokens(const TracedNames& names, int num_tokens) {
  const auto count = static_cast<size_t>(num_tokens);
  if (names.input_tokens.size() != count) {
    return InvalidField("input_tokens", names.input_tokens.size(), " names for ", count, " effect tokens");
  }
  if (names.output_tokens.size() == count) return absl::OkStatus();
  return InvalidField("output_tokens", names.output_tokens.size(), " names for ", count, " effect tokens");
}

// Adds `result` to one of the three lists, by the role of its input. `input_names` are those of the signature.
void AddResult(const InputResult& result, const GraphSignature& signature, absl::Span<const std::string> input_names,
               std::vector<NamedTarget>& parameters, std::vector<NamedTarget>& buffers,
               std::vector<NamedTarget>& user_inputs) {
  const auto index = static_cast<size_t>(result.input);
  const size_t num_parameters = signature.parameters.size();
  const size_t num_states = num_parameters + signature.buffers.size();
  std::vector<NamedTarget>& list = index >= num_states ? user_inputs : index >= num_parameters ? buffers : parameters;
  list.push_back({result.name, input_names[index]});
}

absl::Status AddMutations(const TracedNames& names, const ViewAndMutationMeta& metadata, GraphSignature& signature) {
  const std::vector<std::string> input_names = signature.InputNames();
  std::vector<bool> is_returned(input_names.size());
  for (size_t k = 0; k < names.new_contents.size(); ++k) {
    const InputResult& result = names.new_contents[k];
    COTAN_RETURN_IF_ERROR(CheckIndex(absl::StrCat(Element("new_contents", k), ".input"), result.input,
                                     static_cast<int>(input_names.size()), "inputs"));
    const auto index = static_cast<size_t>(result.input);
    if (is_returned[index]) {
      return InvalidField(Element("new_contents", k), "input ", Quoted(input_names[index]), " occurs twice");
    }
    is_returned[index] = true;
    AddResult(result, signature, input_names, signature.parameters_to_mutate, signature.buffers_to_mutate,
              signature.user_inputs_to_mutate);
  }
  for (size_t i = 0; i < is_returned.size(); ++i) {
    const InputAliasInfo& info = metadata.input(static_cast<int>(i));
    if ((info.mutates_data || info.mutates_storage_metadata) == is_returned[i]) continue;
    return InvalidField(Element("input_info", i), "the graph returns ", is_returned[i] ? "a" : "no",
                        " new content of input ", Quoted(input_names[i]),
                        ", but the analysis says: ", info.is_mutated() ? info.ToString() : "not mutated");
  }
  return absl::OkStatus();
}

absl::Status AddBackward(const TracedNames& names, const ViewAndMutationMeta& metadata, GraphSignature& signature) {
  BackwardSignature backward;
  const std::vector<std::string> input_names = signature.InputNames();
  std::vector<NamedTarget> buffers;  // the signature has no list of their gradients
  for (size_t k = 0; k < names.gradients.size(); ++k) {
    const InputResult& result = names.gradients[k];
    COTAN_RETURN_IF_ERROR(CheckIndex(absl::StrCat(Element("gradients", k), ".input"), result.input,
                                     static_cast<int>(input_names.size()), "inputs"));
    const InputAliasInfo& info = metadata.input(result.input);
    if (!info.requires_grad && !info.requires_grad_at_entry.value_or(false)) {
      return InvalidField(Element("gradients", k), "input ", Quoted(input_names[static_cast<size_t>(result.input)]),
                          " does not require grad");
    }
    AddResult(result, signature, input_names, backward.gradients_to_parameters, buffers,
              backward.gradients_to_user_inputs);
  }
  if (names.loss_index.has_value()) {
    COTAN_RETURN_IF_ERROR(
        CheckIndex("loss_index", *names.loss_index, static_cast<int>(names.user_outputs.size()), "user outputs"));
    backward.loss_output = names.user_outputs[static_cast<size_t>(*names.loss_index)];
  }
  if (backward != BackwardSignature()) signature.backward_signature = std::move(backward);
  return absl::OkStatus();
}

// Adds `names` to `seen`. InvalidArgument: a name is in it already.
absl::Status CheckUnique(absl::string_view field, absl::Span<const std::string> names, NameSet& seen) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (seen.insert(names[i]).second) continue;
    return InvalidField(Element(field, i), Quoted(names[i]), " occurs twice");
  }
  return absl::OkStatus();
}

// Checks that each target of `pairs` is one of `names` and that none occurs twice.
absl::Status CheckTargets(absl::string_view field, const std::vector<NamedTarget>& pairs,
                          const std::vector<std::string>& names, absl::string_view thing) {
  const NameSet known(names.begin(), names.end());
  NameSet seen;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const std::string& target = pairs[i].target;
    if (!known.contains(target)) {
      return InvalidField(Element(field, i), Quoted(target), " is not a ", thing);
    }
    if (!seen.insert(target).second) {
      return InvalidField(Element(field, i), Quoted(target), " occurs twice");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckBindings(absl::string_view field, const std::vector<NamedTarget>& bindings,
                           const std::vector<std::string>& targets, NameSet& graph_inputs) {
  if (bindings.empty()) return absl::OkStatus();
  if (bindings.size() != targets.size()) {
    return InvalidField(field, bindings.size(), " entries for ", targets.size(), " names");
  }
  for (size_t i = 0; i < bindings.size(); ++i) {
    if (bindings[i].target != targets[i]) {
      return InvalidField(Element(field, i), Quoted(bindings[i].target), ", but expected ", Quoted(targets[i]));
    }
    if (!graph_inputs.insert(bindings[i].name).second) {
      return InvalidField(Element(field, i), Quoted(bindings[i].name), " occurs twice");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckBackward(const GraphSignature& signature) {
  if (!signature.backward_signature.has_value()) return absl::OkStatus();
  const BackwardSignature& backward = *signature.backward_signature;
  if (backward.loss_output.empty() && backward.gradients_to_parameters.empty() &&
      backward.gradients_to_user_inputs.empty()) {
    return InvalidField("backward_signature", "names neither a loss nor a gradient");
  }
  COTAN_RETURN_IF_ERROR(
      CheckTargets("gradients_to_parameters", backward.gradients_to_parameters, signature.parameters, "parameter"));
  COTAN_RETURN_IF_ERROR(
      CheckTargets("gradients_to_user_inputs", backward.gradients_to_user_inputs, signature.user_inputs, "user input"));
  const std::vector<std::string>& outputs = signature.user_outputs;
  if (backward.loss_output.empty() ||
      std::find(outputs.begin(), outputs.end(), backward.loss_output) != outputs.end()) {
    return absl::OkStatus();
  }
  return InvalidField("loss_output", Quoted(backward.loss_output), " is not a user output");
}

absl::Status CheckTree(absl::string_view field, const std::optional<TreeSpec>& spec, size_t num_names) {
  if (!spec.has_value() || static_cast<size_t>(spec->num_leaves()) == num_names) {
    return absl::OkStatus();
  }
  return InvalidField(field, spec->num_leaves(), " leaves for ", num_names, " names");
}

template <typename Protos>
std::vector<NamedTarget> ParseOutputs(const Protos& protos) {
  std::vector<NamedTarget> pairs;
  for (const auto& proto : protos) pairs.push_back({proto.output(), proto.target()});
  return pairs;
}

template <typename Protos>
std::vector<NamedTarget> ParseInputs(const Protos& protos) {
  std::vector<NamedTarget> pairs;
  for (const auto& proto : protos) pairs.push_back({proto.input(), proto.target()});
  return pairs;
}

template <typename Protos>
void AddOutputs(const std::vector<NamedTarget>& pairs, Protos* protos) {
  for (const NamedTarget& pair : pairs) {
    auto* proto = protos->Add();
    proto->set_output(pair.name);
    proto->set_target(pair.target);
  }
}

template <typename Protos>
void AddInputs(const std::vector<NamedTarget>& pairs, Protos* protos) {
  for (const NamedTarget& pair : pairs) {
    auto* proto = protos->Add();
    proto->set_input(pair.name);
    proto->set_target(pair.target);
  }
}

std::string JoinQuoted(const std::vector<std::string>& names) {
  return absl::StrJoin(names, ", ", [](std::string* out, const std::string& name) { out->append(Quoted(name)); });
}

void DescribePairs(absl::string_view indent, absl::string_view verb, const std::vector<NamedTarget>& pairs,
                   std::string& text) {
  for (const NamedTarget& pair : pairs) {
    absl::StrAppend(&text, indent, Quoted(pair.name), " ", verb, " ", Quoted(pair.target), "\n");
  }
}

}  // namespace

absl::StatusOr<GraphSignature> GraphSignature::FromTracingMetadata(const TracedNames& names,
                                                                   const ViewAndMutationMeta& metadata) {
  GraphSignature signature;
  signature.parameters = TargetsOf(names.parameters);
  signature.buffers = TargetsOf(names.buffers);
  signature.inputs_to_parameters = names.parameters;
  signature.inputs_to_buffers = names.buffers;
  signature.user_inputs = names.user_inputs;
  signature.user_outputs = names.user_outputs;
  signature.input_tokens = names.input_tokens;
  signature.output_tokens = names.output_tokens;
  signature.in_spec = names.in_spec;
  signature.out_spec = names.out_spec;
  COTAN_RETURN_IF_ERROR(
      metadata.Verify(static_cast<int>(signature.InputNames().size()), static_cast<int>(names.user_outputs.size())));
  COTAN_RETURN_IF_ERROR(CheckTokens(names, metadata.num_tokens()));
  COTAN_RETURN_IF_ERROR(AddMutations(names, metadata, signature));
  COTAN_RETURN_IF_ERROR(AddBackward(names, metadata, signature));
  COTAN_RETURN_IF_ERROR(signature.Validate());
  return signature;
}

absl::Status GraphSignature::Validate() const {
  NameSet states;
  COTAN_RETURN_IF_ERROR(CheckUnique("parameters", parameters, states));
  COTAN_RETURN_IF_ERROR(CheckUnique("buffers", buffers, states));
  NameSet graph_inputs;
  COTAN_RETURN_IF_ERROR(CheckUnique("input_tokens", input_tokens, graph_inputs));
  COTAN_RETURN_IF_ERROR(CheckBindings("inputs_to_parameters", inputs_to_parameters, parameters, graph_inputs));
  COTAN_RETURN_IF_ERROR(CheckBindings("inputs_to_buffers", inputs_to_buffers, buffers, graph_inputs));
  COTAN_RETURN_IF_ERROR(CheckUnique("user_inputs", user_inputs, graph_inputs));

  COTAN_RETURN_IF_ERROR(CheckTargets("buffers_to_mutate", buffers_to_mutate, buffers, "buffer"));
  COTAN_RETURN_IF_ERROR(CheckTargets("parameters_to_mutate", parameters_to_mutate, parameters, "parameter"));
  COTAN_RETURN_IF_ERROR(CheckTargets("user_inputs_to_mutate", user_inputs_to_mutate, user_inputs, "user input"));
  COTAN_RETURN_IF_ERROR(CheckBackward(*this));
  COTAN_RETURN_IF_ERROR(CheckTree("in_spec", in_spec, user_inputs.size()));
  return CheckTree("out_spec", out_spec, user_outputs.size());
}

absl::StatusOr<GraphSignature> GraphSignature::FromProto(const serialization::GraphSignature& proto) {
  GraphSignature signature;
  signature.parameters.assign(proto.parameters().begin(), proto.parameters().end());
  signature.buffers.assign(proto.buffers().begin(), proto.buffers().end());
  signature.user_inputs.assign(proto.user_inputs().begin(), proto.user_inputs().end());
  signature.user_outputs.assign(proto.user_outputs().begin(), proto.user_outputs().end());
  signature.inputs_to_parameters = ParseInputs(proto.inputs_to_parameters());
  signature.inputs_to_buffers = ParseInputs(proto.inputs_to_buffers());
  signature.buffers_to_mutate = ParseOutputs(proto.buffers_to_mutate());
  signature.parameters_to_mutate = ParseOutputs(proto.parameters_to_mutate());
  signature.user_inputs_to_mutate = ParseOutputs(proto.user_inputs_to_mutate());
  signature.input_tokens.assign(proto.input_tokens().begin(), proto.input_tokens().end());
  signature.output_tokens.assign(proto.output_tokens().begin(), proto.output_tokens().end());
  BackwardSignature backward = {ParseOutputs(proto.gradients_to_parameters()),
                                ParseOutputs(proto.gradients_to_user_inputs()), proto.loss_output()};
  if (backward != BackwardSignature()) signature.backward_signature = std::move(backward);
  if (proto.has_in_spec()) {
    COTAN_ASSIGN_OR_RETURN(signature.in_spec, TreeSpec::FromProto(proto.in_spec(), "in_spec"));
  }
  if (proto.has_out_spec()) {
    COTAN_ASSIGN_OR_RETURN(signature.out_spec, TreeSpec::FromProto(proto.out_spec(), "out_spec"));
  }
  COTAN_RETURN_IF_ERROR(signature.Validate());
  return signature;
}

serialization::GraphSignature GraphSignature::ToProto() const {
  serialization::GraphSignature proto;
  proto.mutable_parameters()->Assign(parameters.begin(), parameters.end());
  proto.mutable_buffers()->Assign(buffers.begin(), buffers.end());
  proto.mutable_user_inputs()->Assign(user_inputs.begin(), user_inputs.end());
  proto.mutable_user_outputs()->Assign(user_outputs.begin(), user_outputs.end());
  AddInputs(inputs_to_parameters, proto.mutable_inputs_to_parameters());
  AddInputs(inputs_to_buffers, proto.mutable_inputs_to_buffers());
  AddOutputs(buffers_to_mutate, proto.mutable_buffers_to_mutate());
  AddOutputs(parameters_to_mutate, proto.mutable_parameters_to_mutate());
  AddOutputs(user_inputs_to_mutate, proto.mutable_user_inputs_to_mutate());
  proto.mutable_input_tokens()->Assign(input_tokens.begin(), input_tokens.end());
  proto.mutable_output_tokens()->Assign(output_tokens.begin(), output_tokens.end());
  if (backward_signature.has_value()) {
    AddOutputs(backward_signature->gradients_to_parameters, proto.mutable_gradients_to_parameters());
    AddOutputs(backward_signature->gradients_to_user_inputs, proto.mutable_gradients_to_user_inputs());
    proto.set_loss_output(backward_signature->loss_output);
  }
  if (in_spec.has_value()) *proto.mutable_in_spec() = in_spec->ToProto();
  if (out_spec.has_value()) *proto.mutable_out_spec() = out_spec->ToProto();
  return proto;
}

std::vector<std::string> GraphSignature::InputNames() const {
  std::vector<std::string> names = parameters;
  names.insert(names.end(), buffers.begin(), buffers.end());
  names.insert(names.end(), user_inputs.begin(), user_inputs.end());
  return names;
}

std::string GraphSignature::ToString(absl::string_view indent) const {
  std::string text;
  const auto list = [&](absl::string_view what, const std::vector<std::string>& names,
                        const std::optional<TreeSpec>& spec) {
    if (names.empty() && !spec.has_value()) return;
    absl::StrAppend(&text, indent, what, ": ", JoinQuoted(names));
    if (spec.has_value()) absl::StrAppend(&text, " as ", spec->ToString());
    absl::StrAppend(&text, "\n");
  };
  list("effect tokens", input_tokens, std::nullopt);
  list("parameters", parameters, std::nullopt);
  list("buffers", buffers, std::nullopt);
  list("inputs", user_inputs, in_spec);
  list("outputs", user_outputs, out_spec);
  DescribePairs(indent, "becomes buffer", buffers_to_mutate, text);
  DescribePairs(indent, "becomes parameter", parameters_to_mutate, text);
  DescribePairs(indent, "becomes input", user_inputs_to_mutate, text);
  if (!backward_signature.has_value()) return text;
  if (!backward_signature->loss_output.empty()) {
    absl::StrAppend(&text, indent, "loss: ", Quoted(backward_signature->loss_output), "\n");
  }
  DescribePairs(indent, "is the gradient of parameter", backward_signature->gradients_to_parameters, text);
  DescribePairs(indent, "is the gradient of input", backward_signature->gradients_to_user_inputs, text);
  return text;
}

}  // namespace cotan
