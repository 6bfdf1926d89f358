#include "serialization/verify_metadata.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "serialization/field.h"
#include "serialization/graph_signature.h"
#include "serialization/view_and_mutation_meta.h"
#include "serialization/view_geometry.h"

namespace cotan {
namespace {

using serialization::Artifact;
using serialization::Method;
using serialization::State;

// Whether no symbol in `value` is s<num_symbols> or beyond.
bool UsesOnlySymbols(const SymInt& value, int num_symbols) {
  if (value.kind() == SymInt::Kind::kConstant) return true;
  if (value.kind() == SymInt::Kind::kSymbol) return value.symbol() < num_symbols;
  return UsesOnlySymbols(value.lhs(), num_symbols) && UsesOnlySymbols(value.rhs(), num_symbols);
}

class MethodCheck {
 public:
  MethodCheck(const Artifact& artifact, const Method& method) : artifact_(artifact), method_(method) {}

  absl::Status Run() {
    COTAN_RETURN_IF_ERROR(In("metadata", Parse(&ViewAndMutationMeta::FromProto, method_.metadata(), metadata_)));
    COTAN_RETURN_IF_ERROR(In("signature", Parse(&GraphSignature::FromProto, method_.signature(), signature_)));
    COTAN_RETURN_IF_ERROR(In("metadata", CheckSymbols()));
    if (IsBackward()) return absl::OkStatus();
    if (has_signature()) COTAN_RETURN_IF_ERROR(In("signature", CheckSignature()));
    if (has_metadata()) COTAN_RETURN_IF_ERROR(In("metadata", CheckMetadata()));
    return absl::OkStatus();
  }

 private:
  bool has_metadata() const { return metadata_.num_inputs() + metadata_.num_outputs() > 0; }
  bool has_signature() const { return !(signature_ == GraphSignature()); }

  // The error of a message of the method, prefixed with its name.
  static absl::Status In(absl::string_view message, const absl::Status& status) {
    if (status.ok()) return status;
    return absl::Status(status.code(), absl::StrCat(message, ".", status.message()));
  }

  template <typename Parser, typename Proto, typename T>
  static absl::Status Parse(Parser parser, const Proto& proto, T& result) {
    COTAN_ASSIGN_OR_RETURN(result, parser(proto));
    return absl::OkStatus();
  }

  bool IsBackward() const {
    for (const Method& other : artifact_.methods()) {
      if (other.backward_method() == method_.name()) return true;
    }
    return false;
  }

  absl::Status CheckGeometrySymbols(const TensorGeometry& geometry, const std::string& field) const {
    const int num_symbols = artifact_.symbols_size();
    for (const SymIntVector* list : {&geometry.sizes, &geometry.strides}) {
      for (const SymInt& value : *list) {
        if (!UsesOnlySymbols(value, num_symbols)) return UnknownSymbol(value, field);
      }
    }
    if (UsesOnlySymbols(geometry.offset, num_symbols)) return absl::OkStatus();
    return UnknownSymbol(geometry.offset, field);
  }

  absl::Status UnknownSymbol(const SymInt& value, const std::string& field) const {
    return InvalidField(field, value.ToString(), " uses a dynamic dimension beyond the artifact's ",
                        artifact_.symbols_size());
  }

  absl::Status CheckSymbols() const {
    const ViewAndMutationFacts& facts = metadata_.facts();
    for (size_t i = 0; i < facts.output_info.size(); ++i) {
      const OutputAliasInfo& info = facts.output_info[i];
      const std::string field = Element("output_info", i);
      if (info.geometry.has_value()) {
        COTAN_RETURN_IF_ERROR(CheckGeometrySymbols(*info.geometry, absl::StrCat(field, ".geometry")));
      }
      const auto& steps = method_.metadata().output_info(static_cast<int>(i)).view_steps();
      for (int k = 0; k < steps.size(); ++k) {
        const absl::Status status = CheckViewStep(steps.Get(k), artifact_.symbols_size());
        if (!status.ok()) return InvalidField(Element(absl::StrCat(field, ".view_steps"), k), status.message());
      }
      if (info.is_tensor()) continue;
      const SymInt* value = std::get_if<SymInt>(&*info.scalar);
      if (value != nullptr && !UsesOnlySymbols(*value, artifact_.symbols_size())) {
        return UnknownSymbol(*value, absl::StrCat(field, ".scalar"));
      }
    }
    for (size_t i = 0; i < facts.tangents.size(); ++i) {
      COTAN_RETURN_IF_ERROR(
          CheckGeometrySymbols(facts.tangents[i].expected, absl::StrCat(Element("tangents", i), ".expected")));
    }
    return absl::OkStatus();
  }

  // Each name is a state of the role, by its name or one of its aliases.
  absl::Status CheckStates(absl::string_view field, const std::vector<std::string>& names, State::Role role) const {
    absl::flat_hash_set<absl::string_view> known;
    for (const State& state : artifact_.states()) {
      if (state.role() != role) continue;
      known.insert(state.name());
      known.insert(state.aliases().begin(), state.aliases().end());
    }
    for (size_t i = 0; i < names.size(); ++i) {
      if (known.contains(names[i])) continue;
      return InvalidField(Element(field, i), "\"", names[i], "\" is no state of the artifact with ", "the role of a ",
                          role == State::PARAMETER ? "parameter" : "buffer");
    }
    return absl::OkStatus();
  }

  absl::Status CheckSignature() const {
    COTAN_RETURN_IF_ERROR(CheckStates("parameters", signature_.parameters, State::PARAMETER));
    COTAN_RETURN_IF_ERROR(CheckStates("buffers", signature_.buffers, State::BUFFER));
    if (signature_.user_inputs.size() == static_cast<size_t>(method_.inputs_size())) {
      return absl::OkStatus();
    }
    return InvalidField("user_inputs", signature_.user_inputs.size(), " names, but the method has ",
                        method_.inputs_size(), " inputs");
  }

  absl::Status CheckMetadata() const {
    if (has_signature()) {
      COTAN_RETURN_IF_ERROR(metadata_.Verify(static_cast<int>(signature_.InputNames().size()),
                                             static_cast<int>(signature_.user_outputs.size())));
    }
    COTAN_RETURN_IF_ERROR(CheckCounts());
    COTAN_RETURN_IF_ERROR(CheckReturnedValues());
    COTAN_RETURN_IF_ERROR(CheckBufferUpdates());
    return CheckBackwardInputs();
  }

  // Inputs of the traced function that a session owns come first.
  int NumStates() const { return metadata_.num_inputs() - method_.inputs_size(); }

  int NumWrittenBackUserInputs() const {
    int count = 0;
    for (int i : metadata_.derived().mutated_inp_runtime_indices) count += i >= NumStates() ? 1 : 0;
    return count;
  }

  int NumGradients() const {
    if (!signature_.backward_signature.has_value()) return 0;
    return static_cast<int>(signature_.backward_signature->gradients_to_parameters.size() +
                            signature_.backward_signature->gradients_to_user_inputs.size());
  }

  absl::Status CheckCounts() const {
    const ViewAndMutationFacts& facts = metadata_.facts();
    if (NumStates() < 0) {
      return InvalidField("input_info", metadata_.num_inputs(), " entries, but the method has ", method_.inputs_size(),
                          " inputs");
    }
    const uint32_t num_saved = method_.num_saved();
    if (facts.saved.has_value() && num_saved != static_cast<uint32_t>(facts.saved->num_tensors)) {
      return InvalidField("saved.num_tensors", facts.saved->num_tensors, ", but the method saves ", num_saved);
    }
    const int64_t returned = NumWrittenBackUserInputs() + metadata_.derived().num_tensor_outputs +
                             facts.num_intermediate_bases + int64_t{num_saved};
    const int64_t outputs = method_.outputs_size();
    // A method that computes gradients without a separate backward may return
    // them.
    if (outputs == returned || outputs == returned + NumGradients()) return absl::OkStatus();
    return InvalidField("output_info", "the method returns ", outputs, " values instead of ",
                        NumWrittenBackUserInputs(), " written-back inputs, ", metadata_.derived().num_tensor_outputs,
                        " tensor outputs, ", facts.num_intermediate_bases, " intermediate bases and ", num_saved,
                        " saved tensors");
  }

  absl::Status CheckReturnedValues() const {
    int place = NumWrittenBackUserInputs();
    for (int i = 0; i < metadata_.num_outputs(); ++i) {
      const OutputAliasInfo& info = metadata_.output(i);
      if (!info.is_tensor()) continue;
      const serialization::TensorType& type = method_.values(static_cast<int>(method_.outputs(place++))).type();
      const std::string field = Element("output_info", static_cast<size_t>(i));
      COTAN_RETURN_IF_ERROR(CheckAscending(absl::StrCat(field, ".dynamic_dims"), info.dynamic_dims, type.sizes_size(),
                                           "dimensions of the output"));
      if (!info.geometry.has_value()) continue;
      if (info.geometry->rank() != type.sizes_size() ||
          static_cast<int>(info.geometry->dtype) != static_cast<int>(type.dtype())) {
        return InvalidField(absl::StrCat(field, ".geometry"), info.geometry->ToString(),
                            " differs in dtype or rank from the value that the method returns");
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckBufferUpdates() const {
    absl::flat_hash_set<absl::string_view> updated;
    for (const serialization::StateUpdate& update : method_.state_updates()) {
      const State& state = artifact_.states(static_cast<int>(update.state()));
      if (state.role() != State::BUFFER) continue;
      updated.insert(state.name());
      updated.insert(state.aliases().begin(), state.aliases().end());
    }
    const size_t first = signature_.parameters.size();
    for (size_t k = 0; k < signature_.buffers.size(); ++k) {
      const bool is_mutated = metadata_.input(static_cast<int>(first + k)).mutates_data;
      const std::string& name = signature_.buffers[k];
      if (is_mutated == updated.contains(name)) continue;
      return InvalidField(
          absl::StrCat(Element("input_info", first + k), ".mutates_data"), "buffer \"", name, "\" is ",
          is_mutated ? "mutated, but the method does not update it" : "not mutated, but the method updates it");
    }
    return absl::OkStatus();
  }

  absl::Status CheckBackwardInputs() const {
    if (method_.backward_method().empty() || metadata_.facts().tangents.empty()) {
      return absl::OkStatus();
    }
    const int64_t expected = int64_t{method_.num_saved()} + static_cast<int64_t>(metadata_.facts().tangents.size());
    for (const Method& other : artifact_.methods()) {
      if (other.name() != method_.backward_method() || other.inputs_size() == expected) continue;
      return InvalidField("tangents", "the method \"", other.name(), "\" takes ", other.inputs_size(),
                          " inputs instead of ", method_.num_saved(), " saved tensors and ",
                          metadata_.facts().tangents.size(), " tangents");
    }
    return absl::OkStatus();
  }

  const Artifact& artifact_;
  const Method& method_;
  ViewAndMutationMeta metadata_;
  GraphSignature signature_;
};

}  // namespace

absl::Status VerifyMetadata(const Artifact& artifact, const Method& method) {
  return MethodCheck(artifact, method).Run();
}

}  // namespace cotan
