#include "serialization/graph_signature.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "serialization/field.h"

namespace cotan {
namespace {

using NameSet = absl::flat_hash_set<absl::string_view>;

std::string Quoted(absl::string_view name) { return absl::StrCat("\"", absl::CEscape(name), "\""); }

// Takes names off the front of a list.
class NameReader {
 public:
  NameReader(absl::Span<const std::string> names, absl::string_view field)
      : rest_(names), total_(names.size()), field_(field) {}

  absl::StatusOr<std::vector<std::string>> Take(size_t count, absl::string_view things) {
    if (count > rest_.size()) {
      return InvalidField(field_, total_, " names, which leaves ", rest_.size(), " for ", count, " ", things);
    }
    std::vector<std::string> names(rest_.begin(), rest_.begin() + static_cast<ptrdiff_t>(count));
    rest_.remove_prefix(count);
    return names;
  }

  absl::Span<const std::string> rest() const { return rest_; }

 private:
  absl::Span<const std::string> rest_;
  size_t total_;
  absl::string_view field_;
};

std::vector<NamedTarget> Pair(const std::vector<std::string>& names, const std::vector<std::string>& targets) {
  std::vector<NamedTarget> pairs;
  for (size_t i = 0; i < names.size(); ++i) pairs.push_back({names[i], targets[i]});
  return pairs;
}

absl::Status ReadInputs(const TracedNames& names, const ViewAndMutationMeta& metadata, GraphSignature& signature) {
  if (names.num_user_inputs < 0) return InvalidField("num_user_inputs", "is negative");
  NameReader reader(names.graph_inputs, "graph_inputs");
  COTAN_ASSIGN_OR_RETURN(signature.input_tokens,
                         reader.Take(static_cast<size_t>(metadata.num_tokens()), "effect tokens"));
  COTAN_ASSIGN_OR_RETURN(std::vector<std::string> parameters, reader.Take(names.parameters.size(), "parameters"));
  COTAN_ASSIGN_OR_RETURN(std::vector<std::string> buffers, reader.Take(names.buffers.size(), "buffers"));
  COTAN_ASSIGN_OR_RETURN(signature.user_inputs, reader.Take(static_cast<size_t>(names.num_user_inputs), "user inputs"));
  if (!reader.rest().empty()) {
    return InvalidField("graph_inputs", reader.rest().size(),
                        " names are left after tokens, parameters, buffers and user inputs, the "
                        "first of them ",
                        Quoted(reader.rest().front()));
  }
  signature.inputs_to_parameters = Pair(parameters, names.parameters);
  signature.inputs_to_buffers = Pair(buffers, names.buffers);
  return absl::OkStatus();
}

// Tells which list of `signature` says that traced input `i` is replaced.
absl::StatusOr<std::vector<NamedTarget>*> MutationList(int i, bool trace_joint, GraphSignature& signature,
                                                       std::string& target) {
  const size_t index = static_cast<size_t>(i);
  const size_t num_parameters = signature.parameters.size();
  const size_t num_states = num_parameters + signature.buffers.size();
  if (index >= num_states) {
    target = signature.user_inputs[index - num_states];
    return &signature.user_inputs_to_mutate;
  }
  if (index >= num_parameters) {
    target = signature.buffers[index - num_parameters];
    return &signature.buffers_to_mutate;
  }
  target = signature.parameters[index];
  if (trace_joint) {
    return InvalidField(Element("input_info", index), "the parameter ", Quoted(target),
                        " is mutated, but with a backward only buffers and user inputs may be");
  }
  return &signature.parameters_to_mutate;
}

absl::Status ReadMutations(const TracedNames& names, const ViewAndMutationMeta& metadata, NameReader& outputs,
                           GraphSignature& signature) {
  const std::vector<int>& written_back = metadata.derived().mutated_inp_runtime_indices;
  COTAN_ASSIGN_OR_RETURN(std::vector<std::string> output_names,
                         outputs.Take(written_back.size(), "written-back inputs"));
  const std::vector<std::string> input_names = signature.InputNames();
  for (int i = 0; i < metadata.num_inputs(); ++i) {
    const bool is_written_back = std::binary_search(written_back.begin(), written_back.end(), i);
    if (metadata.input(i).mutates_data == is_written_back) continue;
    return InvalidField(Element("input_info", static_cast<size_t>(i)),
                        "a graph with a signature returns the new "
                        "content of inputs, and of nothing but content; input ",
                        Quoted(input_names[static_cast<size_t>(i)]), ": ", metadata.input(i).ToString());
  }
  for (size_t k = 0; k < written_back.size(); ++k) {
    std::string target;
    COTAN_ASSIGN_OR_RETURN(std::vector<NamedTarget> * list,
                           MutationList(written_back[k], names.trace_joint, signature, target));
    list->push_back({output_names[k], std::move(target)});
  }
  return absl::OkStatus();
}

absl::Status ReadLoss(const TracedNames& names, GraphSignature& signature) {
  if (!names.backward_signature.has_value()) {
    if (!names.loss_index.has_value()) return absl::OkStatus();
    return InvalidField("loss_index", "must not be set without a backward signature");
  }
  signature.backward_signature = names.backward_signature;
  if (!names.loss_index.has_value()) return absl::OkStatus();
  COTAN_RETURN_IF_ERROR(CheckIndex("loss_index", *names.loss_index, names.num_user_outputs, "user outputs"));
  // Of the user outputs: the graph's outputs begin with tokens and mutations.
  const std::string& loss = signature.user_outputs[static_cast<size_t>(*names.loss_index)];
  std::string& loss_output = signature.backward_signature->loss_output;
  if (!loss_output.empty() && loss_output != loss) {
    return InvalidField("backward_signature.loss_output", Quoted(loss_output), ", but user output ", *names.loss_index,
                        " is ", Quoted(loss));
  }
  loss_output = loss;
  return absl::OkStatus();
}

absl::Status CheckGradients(const GraphSignature& signature, absl::Span<const std::string> rest) {
  size_t num_gradients = 0;
  if (signature.backward_signature.has_value()) {
    const BackwardSignature& backward = *signature.backward_signature;
    const NameSet last_outputs(rest.begin(), rest.end());
    for (const auto* list : {&backward.gradients_to_parameters, &backward.gradients_to_user_inputs}) {
      num_gradients += list->size();
      for (const NamedTarget& gradient : *list) {
        if (last_outputs.contains(gradient.name)) continue;
        return InvalidField("backward_signature", "the gradient ", Quoted(gradient.name), " of ",
                            Quoted(gradient.target), " is none of the graph's last outputs");
      }
    }
  }
  if (num_gradients == rest.size()) return absl::OkStatus();
  return InvalidField("graph_outputs", rest.size(),
                      " names are left after tokens, written-back inputs and user outputs, but "
                      "there are ",
                      num_gradients, " gradients");
}

// Adds `names` to `seen`; refuses a name that is there.
absl::Status CheckUnique(absl::string_view field, absl::Span<const std::string> names, NameSet& seen) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (seen.insert(names[i]).second) continue;
    return InvalidField(Element(field, i), Quoted(names[i]), " occurs twice");
  }
  return absl::OkStatus();
}

// Each target of `pairs` is one of `names`, and none occurs twice.
absl::Status CheckTargets(absl::string_view field, const std::vector<NamedTarget>& pairs,
                          const std::vector<std::string>& names, absl::string_view thing) {
  const NameSet known(names.begin(), names.end());
  NameSet seen;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const std::string& target = pairs[i].target;
    if (!known.contains(target)) {
      return InvalidField(Element(field, i), Quoted(target), " is no ", thing);
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
      return InvalidField(Element(field, i), Quoted(bindings[i].target), " stands where ", Quoted(targets[i]),
                          " belongs");
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
  return InvalidField("loss_output", Quoted(backward.loss_output), " is no user output");
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
  signature.parameters = names.parameters;
  signature.buffers = names.buffers;
  signature.in_spec = names.in_spec;
  signature.out_spec = names.out_spec;
  COTAN_RETURN_IF_ERROR(ReadInputs(names, metadata, signature));
  COTAN_RETURN_IF_ERROR(metadata.Verify(static_cast<int>(signature.InputNames().size()), names.num_user_outputs));

  NameReader outputs(names.graph_outputs, "graph_outputs");
  COTAN_ASSIGN_OR_RETURN(signature.output_tokens,
                         outputs.Take(static_cast<size_t>(metadata.num_tokens()), "effect tokens"));
  COTAN_RETURN_IF_ERROR(ReadMutations(names, metadata, outputs, signature));
  COTAN_ASSIGN_OR_RETURN(signature.user_outputs,
                         outputs.Take(static_cast<size_t>(names.num_user_outputs), "user outputs"));
  COTAN_RETURN_IF_ERROR(ReadLoss(names, signature));
  COTAN_RETURN_IF_ERROR(CheckGradients(signature, outputs.rest()));
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
