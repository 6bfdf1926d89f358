// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/core/function_metadata.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "serialization/metadata/graph_signature.h"
#include "serialization/schema/continuation.h"

namespace cotan {
namespace {

using serialization::Method;

// The steps of FunctionMetadata::Create() in their order.
class Builder {
 public:
  Builder(const Program& program, int method) : program_(program), method_(program.method(method)) {
    made_.program = &program;
    made_.method = method;
    made_.name = method_.name();
    made_.node_name = absl::StrCat("CompiledBackward('", made_.name, "')");
  }

  absl::StatusOr<FunctionMetadata> Build() {
    COTAN_RETURN_IF_ERROR(Read());
    COTAN_RETURN_IF_ERROR(AddInputs());
    BindArguments();
    AddResults();
    COTAN_ASSIGN_OR_RETURN(made_.backward, BackwardMetadata::Create(made_));
    made_.has_detached_grad_sink = method_.backward_method().empty() && !method_.traced_without_grad() &&
                                   made_.num_tangents() > 0 &&
                                   std::none_of(made_.inputs.begin(), made_.inputs.end(),
                                                [](const FunctionInput& input) { return input.requires_grad; });
    made_.returned = ReturnedValues::Create(made_);
    if (made_.returned.num_results != made_.first_saved) {
      return made_.Unsupported(absl::StrCat("returns ", made_.first_saved, " values, but its metadata describes ",
                                            made_.returned.num_results,
                                            " (a method without a backward of its own returns gradients as well)"));
    }
    made_.mutations = Mutations::Create(made_);
    AddRequests();
    return std::move(made_);
  }

 private:
  absl::Status Read() {
    if (!IsCallable(method_)) {
      return absl::InvalidArgumentError(absl::StrCat("method '", made_.name, "' computes sizes for '",
                                                     method_.continuation().method(),
                                                     "', which is the function to call"));
    }
    for (const Method& other : program_.artifact().methods()) {
      if (other.backward_method() != made_.name) continue;
      return absl::InvalidArgumentError(absl::StrCat("method '", made_.name, "' is the backward of '", other.name(),
                                                     "', which is the function to call"));
    }
    COTAN_ASSIGN_OR_RETURN(made_.metadata, ViewAndMutationMeta::FromProto(method_.metadata()));
    COTAN_ASSIGN_OR_RETURN(signature_, GraphSignature::FromProto(method_.signature()));
    if (!HasMetadata()) return made_.Unsupported("has no metadata of aliases and mutations");
    argument_names_ = signature_.user_inputs;
    if (made_.metadata.facts().subclass_meta.has_value()) ReadWrappers();
    made_.program_metadata = made_.metadata;
    if (method_.has_program_metadata()) {
      COTAN_ASSIGN_OR_RETURN(made_.program_metadata, ViewAndMutationMeta::FromProto(method_.program_metadata()));
    }
    COTAN_ASSIGN_OR_RETURN(made_.binding, InputBinding::FromProto(method_.input_binding(), "input_binding"));
    return absl::OkStatus();
  }

  // VerifyArtifact() takes empty metadata as absent; it describes a function without inputs and outputs.
  bool HasMetadata() const {
    if (made_.metadata.num_inputs() + made_.metadata.num_outputs() > 0) return true;
    return method_.has_metadata() && !method_.has_program_metadata() && !method_.has_input_binding() &&
           method_.inputs_size() + method_.outputs_size() == 0 && signature_.InputNames().empty();
  }

  // Reads the wrapper types of arguments and outputs, then replaces the metadata by that of the flat function.
  void ReadWrappers() {
    const ViewAndMutationMetaFields& facts = made_.metadata.facts();
    const size_t num_states = signature_.parameters.size() + signature_.buffers.size();
    WrapperTypes& wrappers = made_.wrappers.emplace();
    std::vector<FlatMeta> metas = facts.input_wrappers;
    if (metas.empty()) metas.resize(facts.input_info.size());  // all are plain tensors
    metas.erase(metas.begin(), metas.begin() + static_cast<std::ptrdiff_t>(num_states));
    for (size_t i = 0; i < metas.size(); ++i) wrappers.arguments.push_back({signature_.user_inputs[i], metas[i]});
    argument_names_ = FlatNames(metas, signature_.user_inputs);

    const size_t first = made_.metadata.derived().mutated_inp_runtime_indices.size();
    wrappers.outputs.resize(facts.output_info.size());  // plain by default
    if (!facts.forward_return_wrappers.empty()) {
      std::copy_n(facts.forward_return_wrappers.begin() + static_cast<std::ptrdiff_t>(first), wrappers.outputs.size(),
                  wrappers.outputs.begin());
    }
    const ViewAndMutationMeta flat = *facts.subclass_meta->fw_metadata;
    made_.metadata = flat;
  }

  absl::Status AddInputs() {
    std::vector<std::string> states = signature_.parameters;
    states.insert(states.end(), signature_.buffers.begin(), signature_.buffers.end());
    made_.num_states = static_cast<int>(states.size());
    for (int i = 0; i < made_.metadata.num_inputs(); ++i) {
      const InputAliasInfo& info = made_.metadata.input(i);
      FunctionInput input;
      input.requires_grad = info.requires_grad_at_entry.value_or(info.requires_grad);
      input.requires_grad_at_exit = info.requires_grad;
      if (i < made_.num_states) {
        input.name = states[static_cast<size_t>(i)];
        COTAN_ASSIGN_OR_RETURN(input.state, program_.FindState(input.name));
      } else {
        input.name = NameOfArgument(i - made_.num_states);
      }
      made_.inputs.push_back(std::move(input));
    }
    return absl::OkStatus();
  }

  std::string NameOfArgument(int argument) const {
    const auto at = static_cast<size_t>(argument);
    if (at < argument_names_.size()) return argument_names_[at];
    // Without a binding, method inputs and user arguments correspond, and so do their names.
    return method_.has_input_binding() ? absl::StrCat("input.", argument) : program_.InputName(method_, argument);
  }

  // Maps inputs to program arguments and these to method inputs.
  void BindArguments() {
    const std::vector<int> kept = made_.binding.KeptInputs(made_.metadata.num_inputs());
    made_.argument_inputs = kept;
    if (made_.binding.has_bases()) {
      made_.argument_inputs.assign(static_cast<size_t>(made_.program_metadata.num_inputs()), -1);
      for (size_t u = 0; u < made_.binding.inner_inputs.size(); ++u) {
        const auto* argument = std::get_if<InputBinding::Argument>(&made_.binding.inner_inputs[u]);
        if (argument != nullptr) made_.argument_inputs[static_cast<size_t>(argument->index)] = kept[u];
      }
    }
    for (int k = 0; k < static_cast<int>(made_.argument_inputs.size()); ++k) {
      if (!made_.IsState(k)) made_.method_arguments.push_back(k);
    }
  }

  void AddResults() {
    made_.num_outputs = made_.num_results = method_.outputs_size();
    for (const serialization::InputUpdate& update : method_.input_updates()) {
      if (update.sets_storage()) ++made_.num_results;
    }
    made_.num_saved = static_cast<int>(method_.num_saved());
    made_.first_saved = made_.num_outputs - made_.num_saved;
  }

  void AddRequests() {
    made_.requests.resize(static_cast<size_t>(made_.num_outputs));
    const auto request = [this](int result) -> ResultRequest& { return made_.requests[static_cast<size_t>(result)]; };
    for (const ReturnedValue& value : made_.returned.values) {
      const bool is_elsewhere = value.kind == ReturnedValue::Kind::kReturnedElsewhere;
      if (is_elsewhere || value.reading.has_value()) request(value.result).use = ResultUse::kSkip;
    }
    for (const DataMutation& write : made_.mutations.data) {
      if (write.copies) continue;
      request(write.result) = {.use = ResultUse::kWriteBack, .input = made_.MethodInputOf(write.argument)};
    }
    for (int r = made_.first_saved; r < made_.num_outputs; ++r) request(r).use = ResultUse::kSave;
  }

  const Program& program_;
  const Method& method_;
  GraphSignature signature_;
  std::vector<std::string> argument_names_;  // of flat values
  FunctionMetadata made_;
};

}  // namespace

absl::StatusOr<FunctionMetadata> FunctionMetadata::Create(const Program& program, int method) {
  return Builder(program, method).Build();
}

bool FunctionMetadata::IsState(int argument) const {
  const int input = argument_inputs[static_cast<size_t>(argument)];
  return input >= 0 && input < num_states;
}

int FunctionMetadata::OriginalOf(int input) const {
  if (!binding.has_duplicates()) return input;
  const std::vector<int>& unique = binding.add_dupe_map;
  const auto original = std::find(unique.begin(), unique.end(), unique[static_cast<size_t>(input)]);
  return static_cast<int>(original - unique.begin());
}

int FunctionMetadata::ArgumentOf(int input) const {
  const auto found = std::find(argument_inputs.begin(), argument_inputs.end(), input);
  return found == argument_inputs.end() ? -1 : static_cast<int>(found - argument_inputs.begin());
}

int FunctionMetadata::MethodInputOf(int argument) const {
  const auto found = std::find(method_arguments.begin(), method_arguments.end(), argument);
  return static_cast<int>(found - method_arguments.begin());
}

std::vector<std::pair<int, const InputBinding::BaseView*>> FunctionMetadata::ViewsOf(int base) const {
  std::vector<std::pair<int, const InputBinding::BaseView*>> views;
  const std::vector<int> kept = binding.KeptInputs(static_cast<int>(inputs.size()));
  for (size_t u = 0; u < binding.inner_inputs.size(); ++u) {
    const auto* view = std::get_if<InputBinding::BaseView>(&binding.inner_inputs[u]);
    if (view != nullptr && view->base == base) views.emplace_back(kept[u], view);
  }
  return views;
}

std::string FunctionMetadata::ArgumentName(int argument) const {
  const int of_input = argument_inputs[static_cast<size_t>(argument)];
  if (of_input >= 0) return input(of_input).name;
  std::vector<int> views;
  for (const auto& [view, geometry] : ViewsOf(argument)) views.push_back(view);
  return absl::StrCat("base of ", InputNames(views));
}

std::string FunctionMetadata::InputNames(const std::vector<int>& of_inputs) const {
  return absl::StrJoin(of_inputs, ", ", [this](std::string* out, int index) { out->append(input(index).name); });
}

absl::StatusOr<Tensor> FunctionMetadata::TensorOfNumber(NumberValue number, int argument) const {
  const int of_input = num_states + argument;
  if (argument >= num_arguments()) return Refuse(*this, "takes ", num_arguments(), " arguments, got more");
  const int of_program = ArgumentOf(of_input);
  const int of_method = of_program < 0 ? -1 : MethodInputOf(of_program);
  const serialization::Method& proto = method_proto();
  if (of_method < 0 || of_method >= NumArguments(program->artifact(), proto)) {
    return Refuse(*this, "argument '", input(of_input).name, "' is not a number of its own; give a tensor");
  }
  const auto value = static_cast<int>(proto.inputs(of_method));
  return cotan::TensorOfNumber(number, proto.values(value).type(), input(of_input).name);
}

absl::Status FunctionMetadata::Unsupported(absl::string_view what) const {
  return absl::FailedPreconditionError(
      absl::StrCat("method '", name, "' ", what, ": compile the model again, or use Session::Run()"));
}

}  // namespace cotan
