// SPDX-License-Identifier: Apache-2.0

#include "aot/cuda/function_schedules.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <variant>

#include "base/status_macros.h"
#include "serialization/metadata/input_binding.h"
#include "serialization/metadata/view_and_mutation_meta.h"

namespace cotan::aot {
namespace {

using serialization::Artifact;
using serialization::Method;

// Reads the requests for the results of a method from its metadata.
class RequestReader {
 public:
  explicit RequestReader(const Method& method) : method_(method) {}

  absl::Status Read() {
    COTAN_ASSIGN_OR_RETURN(user_, ViewAndMutationMeta::FromProto(method_.metadata()));
    if (user_.facts().subclass_meta.has_value()) {
      const ViewAndMutationMeta flat = *user_.facts().subclass_meta->fw_metadata;
      user_ = flat;
    }
    program_ = user_;
    if (method_.has_program_metadata()) {
      COTAN_ASSIGN_OR_RETURN(program_, ViewAndMutationMeta::FromProto(method_.program_metadata()));
    }
    COTAN_ASSIGN_OR_RETURN(binding_, InputBinding::FromProto(method_.input_binding(), "input_binding"));
    BindArguments();
    NumberResults();
    return absl::OkStatus();
  }

  // Returns whether the method can be a Function: its outputs are the results that the metadata describes, then the
  // saved values.
  bool FitsMethod() const {
    return num_results_ + static_cast<int>(method_.num_saved()) == method_.outputs_size() &&
           user_.num_inputs() + user_.num_outputs() > 0;
  }

  // Returns one request per element of Method.outputs, if the call is recorded.
  std::vector<ResultRequest> Requests() const {
    std::vector<ResultRequest> requests(static_cast<size_t>(method_.outputs_size()));
    for (const Returned& value : returned_) {
      if (value.result < 0) continue;
      ResultRequest& request = requests[static_cast<size_t>(value.result)];
      if (value.is_elsewhere) request.use = ResultUse::kSkip;
      if (value.written_argument >= 0) request = {.use = ResultUse::kWriteBack, .input = value.written_argument};
    }
    for (size_t r = static_cast<size_t>(num_results_); r < requests.size(); ++r) requests[r].use = ResultUse::kSave;
    return requests;
  }

  // Returns the saved values whose memory nothing else reads after the forward.
  std::vector<int> Donated() const {
    std::vector<int> donated;
    const std::optional<SavedForBackward>& saved = program_.facts().saved;
    if (!saved.has_value()) return donated;
    for (const int i : saved->donated) {
      if (!IsSeenElsewhere(method_.outputs(num_results_ + i))) donated.push_back(i);
    }
    return donated;
  }

 private:
  // A value that the forward returns.
  struct Returned {
    int result = -1;            // index into Method.outputs; -1: new content of a state
    int written_argument = -1;  // method input that gets the value as its new content
    bool is_elsewhere = false;  // the output is made from another tensor
  };

  bool IsState(int argument) const {
    const int input = argument_inputs_[static_cast<size_t>(argument)];
    return input >= 0 && input < method_.signature().parameters_size() + method_.signature().buffers_size();
  }

  // Maps the program's arguments to inputs of the traced function; -1: a synthetic base.
  void BindArguments() {
    const std::vector<int> kept = binding_.KeptInputs(user_.num_inputs());
    argument_inputs_ = kept;
    if (!binding_.has_bases()) return;
    argument_inputs_.assign(static_cast<size_t>(program_.num_inputs()), -1);
    for (size_t u = 0; u < binding_.inner_inputs.size(); ++u) {
      const auto* const argument = std::get_if<InputBinding::Argument>(&binding_.inner_inputs[u]);
      if (argument != nullptr) argument_inputs_[static_cast<size_t>(argument->index)] = kept[u];
    }
  }

  // Returns the index among Method.inputs, which are the arguments that are not states.
  int MethodInputOf(int argument) const {
    int index = 0;
    for (int i = 0; i < argument; ++i) index += IsState(i) ? 0 : 1;
    return index;
  }

  void NumberResults() {
    std::vector<int> of_outputs(static_cast<size_t>(user_.num_outputs()), -1);  // indices into returned_
    for (const ForwardReturn& forward_return : program_.derived().forward_returns) {
      if (forward_return.is_tensor_alias) continue;
      const ForwardTensor& tensor = forward_return.tensor;
      if (tensor.kind == ForwardTensor::Kind::kOutput) {
        if (tensor.index >= user_.num_outputs() || !user_.output(tensor.index).is_tensor()) continue;
        of_outputs[static_cast<size_t>(tensor.index)] = static_cast<int>(returned_.size());
      }
      Returned value;
      const bool is_mutated_input = tensor.kind == ForwardTensor::Kind::kMutatedInput;
      if (!is_mutated_input || !IsState(tensor.index)) value.result = num_results_++;
      if (is_mutated_input && value.result >= 0 && !program_.input(tensor.index).mutates_metadata) {
        value.written_argument = MethodInputOf(tensor.index);
      }
      returned_.push_back(value);
    }
    MarkViews(of_outputs);
  }

  // Marks outputs that are other tensors, or views of others' storage with conj/neg bits.
  void MarkViews(const std::vector<int>& of_outputs) {
    using Owner = SharedStorage::Owner;
    const auto is_same = [this](int output) {
      const std::optional<SharedStorage>& shared = user_.output(output).shared_storage;
      return shared.has_value() && (shared->is_same_tensor || shared->owner == Owner::kInput);
    };
    for (int i = 0; i < user_.num_outputs(); ++i) {
      const int index = of_outputs[static_cast<size_t>(i)];
      const OutputAliasInfo& info = user_.output(i);
      if (index < 0 || !info.shared_storage.has_value()) continue;
      const SharedStorage& shared = *info.shared_storage;
      const bool owner_is_returned = shared.owner == Owner::kIntermediateBase ||
                                     (shared.owner == Owner::kOutput &&
                                      of_outputs[static_cast<size_t>(shared.index)] >= 0 && !is_same(shared.index));
      const bool is_reading =
          info.geometry.has_value() && owner_is_returned && (shared.is_conjugate || shared.is_negated);
      returned_[static_cast<size_t>(index)].is_elsewhere = is_same(i) || is_reading;
    }
  }

  // Returns whether a saved value may share the memory of an argument, of a result or of another saved value.
  bool IsSeenElsewhere(uint32_t value) const {
    return std::count(method_.outputs().begin(), method_.outputs().end(), value) != 1 ||
           std::count(method_.inputs().begin(), method_.inputs().end(), value) != 0 ||
           std::any_of(method_.input_updates().begin(), method_.input_updates().end(),
                       [value](const serialization::InputUpdate& update) { return update.value() == value; });
  }

  const Method& method_;
  ViewAndMutationMeta user_;     // over flat values
  ViewAndMutationMeta program_;  // after de-duplication and synthetic bases
  InputBinding binding_;
  std::vector<int> argument_inputs_;
  std::vector<Returned> returned_;
  int num_results_ = 0;
};

// Returns whether the options change nothing.
bool IsDefault(const ScheduleOptions& options) {
  return options.donated.empty() &&
         std::all_of(options.results.begin(), options.results.end(),
                     [](const ResultRequest& request) { return request.use == ResultUse::kReturn; });
}

// Returns the method whose backward is `method`; null if there is none.
const Method* ForwardOf(const Artifact& artifact, const Method& method) {
  const auto found = std::find_if(artifact.methods().begin(), artifact.methods().end(),
                                  [&](const Method& other) { return other.backward_method() == method.name(); });
  return found == artifact.methods().end() ? nullptr : &*found;
}

}  // namespace

absl::StatusOr<FunctionSchedules> SchedulesOfFunction(const Method& method) {
  FunctionSchedules schedules;
  if (!method.has_metadata()) return schedules;
  RequestReader reader(method);
  COTAN_RETURN_IF_ERROR(reader.Read());
  if (!reader.FitsMethod()) return schedules;
  schedules.recorded_forward.results = reader.Requests();
  schedules.plain_forward = schedules.recorded_forward;
  for (ResultRequest& request : schedules.plain_forward.results) {
    if (request.use == ResultUse::kSave) request.use = ResultUse::kSkip;
  }
  if (!method.backward_method().empty()) schedules.donated_backward.donated = reader.Donated();
  return schedules;
}

absl::StatusOr<std::vector<ScheduleOptions>> SchedulesOf(const Artifact& artifact, const Method& method) {
  std::vector<ScheduleOptions> all(1);
  const auto add = [&all](ScheduleOptions options) {
    if (!IsDefault(options)) all.push_back(std::move(options));
  };
  if (const Method* const forward = ForwardOf(artifact, method)) {
    COTAN_ASSIGN_OR_RETURN(FunctionSchedules schedules, SchedulesOfFunction(*forward));
    add(std::move(schedules.donated_backward));
    return all;
  }
  COTAN_ASSIGN_OR_RETURN(FunctionSchedules schedules, SchedulesOfFunction(method));
  const bool saves = method.num_saved() > 0;
  add(std::move(schedules.recorded_forward));
  if (saves) add(std::move(schedules.plain_forward));
  return all;
}

}  // namespace cotan::aot
