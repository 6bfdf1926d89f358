// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/stages/verify_call.h"

#include <cstring>
#include <utility>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runtime/session/session_core.h"
#include "serialization/metadata/output_alias_info.h"

namespace cotan {
namespace {

// Returns the elements in a dense row-major tensor on the host.
absl::StatusOr<Tensor> CopyOf(const Tensor& tensor) {
  COTAN_ASSIGN_OR_RETURN(const Tensor host, tensor.ToHost());
  return host.Clone();
}

bool HaveSameBytes(const Tensor& a, const Tensor& b) {
  const size_t bytes = static_cast<size_t>(a.num_elements()) * ByteSize(a.dtype());
  return a.dtype() == b.dtype() && a.sizes() == b.sizes() &&
         (bytes == 0 || std::memcmp(a.address(), b.address(), bytes) == 0);
}

template <typename... Parts>
absl::Status Violation(const FunctionMetadata& function, const Parts&... parts) {
  return absl::InternalError(absl::StrCat("function '", function.name, "': ", parts...,
                                          ": a kernel or the planner is wrong, or the metadata of the artifact"));
}

bool HaveSameStrides(const StridedLayout& a, const StridedLayout& b) {
  if (a.sizes != b.sizes) return false;
  if (NumElements(a.sizes) == 0) return true;
  for (size_t d = 0; d < a.sizes.size(); ++d) {
    if (a.sizes[d] > 1 && a.strides[d] != b.strides[d]) return false;
  }
  return true;
}

// Returns the input in whose storage the output is by its metadata; -1: none.
int OwnerOf(const FunctionMetadata& function, const OutputAliasInfo& info) {
  if (info.shared_storage.has_value()) {
    return info.shared_storage->owner == SharedStorage::Owner::kInput ? function.OriginalOf(info.shared_storage->index)
                                                                      : -1;
  }
  const bool is_alias = info.output_type == OutputType::kIsInput || info.output_type == OutputType::kAliasOfInput;
  return is_alias ? function.OriginalOf(*info.base_index) : -1;
}

}  // namespace

absl::Status VerifyEntryStage::Run(CallContext& call) {
  entry_->inputs.clear();
  for (const Variable* input : call.inputs) {
    const Tensor& tensor = input->tensor();
    COTAN_ASSIGN_OR_RETURN(Tensor content, CopyOf(tensor));
    entry_->inputs.push_back({std::move(content), tensor.storage(), tensor.layout(), input->version()});
  }
  return absl::OkStatus();
}

VerifyExitStage::VerifyExitStage(const FunctionMetadata& function, std::shared_ptr<const InputsAtEntry> entry)
    : function_(function), entry_(std::move(entry)), sets_storage_(!function.mutations.storage.empty()) {
  for (int i = 0; i < function.metadata.num_outputs(); ++i) {
    const OutputAliasInfo& info = function.metadata.output(i);
    owners_.push_back(info.is_tensor() ? OwnerOf(function, info) : -1);
    int memory = i;
    if (info.output_type == OutputType::kAliasOfIntermediateBaseIsUserOutput) {
      memory = *info.base_index;
    } else if (IsAliasOfIntermediate(info.output_type)) {
      memory = function.metadata.num_outputs() + *info.base_index;
    } else if (info.shared_storage.has_value() && info.shared_storage->owner == SharedStorage::Owner::kOutput) {
      memory = info.shared_storage->index;
    } else if (info.shared_storage.has_value() &&
               info.shared_storage->owner == SharedStorage::Owner::kIntermediateBase) {
      memory = function.metadata.num_outputs() + info.shared_storage->index;
    }
    memory_of_output_.push_back(memory);
  }
  // An output may refer to one that refers to another.
  for (size_t i = 0; i < memory_of_output_.size(); ++i) {
    int& memory = memory_of_output_[i];
    while (memory < static_cast<int>(memory_of_output_.size()) &&
           memory_of_output_[static_cast<size_t>(memory)] != memory) {
      memory = memory_of_output_[static_cast<size_t>(memory)];
    }
    if (memory < static_cast<int>(owners_.size()) && owners_[i] < 0) owners_[i] = owners_[static_cast<size_t>(memory)];
  }
}

bool VerifyExitStage::IsInMutatedStorage(int input) const {
  const Storage* storage = entry_->inputs[static_cast<size_t>(input)].storage.get();
  for (size_t i = 0; i < entry_->inputs.size(); ++i) {
    if (entry_->inputs[i].storage.get() == storage && function_.metadata.input(static_cast<int>(i)).is_mutated()) {
      return true;
    }
  }
  return false;
}

absl::Status VerifyExitStage::CheckInput(const CallContext& call, int input) const {
  const InputsAtEntry::Input& entry = entry_->inputs[static_cast<size_t>(input)];
  const Variable& given = call.input(input);
  const InputAliasInfo& info = function_.metadata.input(input);
  const std::string& name = function_.input(input).name;
  if (IsInMutatedStorage(input)) {
    const bool is_seen = info.mutates_data && !info.mutations_hidden_from_autograd && !info.mutates_storage_metadata;
    if (!is_seen || given.version() != entry.version) return absl::OkStatus();
    return Violation(function_, "argument '", name, "' was written, but has its version ", entry.version);
  }
  if (given.tensor().storage() != entry.storage) {
    return Violation(function_, "argument '", name, "' is not mutated, but has another storage");
  }
  if (given.layout() != entry.layout) {
    return Violation(function_, "argument '", name, "' is not mutated, but its layout ", cotan::ToString(entry.layout),
                     " became ", cotan::ToString(given.layout()));
  }
  if (given.version() != entry.version) {
    return Violation(function_, "argument '", name, "' is not mutated, but its version ", entry.version, " became ",
                     given.version());
  }
  COTAN_ASSIGN_OR_RETURN(const Tensor content, CopyOf(given.tensor()));
  if (HaveSameBytes(content, entry.content)) return absl::OkStatus();
  return Violation(function_, "argument '", name, "' is not mutated, but its elements have changed");
}

absl::Status VerifyExitStage::CheckOutput(const CallContext& call, int output) const {
  const auto* result = std::get_if<Variable>(&(*call.outputs)[static_cast<size_t>(output)]);
  const OutputAliasInfo& info = function_.metadata.output(output);
  if (info.is_tensor() != (result != nullptr)) {
    return Violation(function_, "output ", output, " is ", info.is_tensor() ? "not a" : "a", " tensor");
  }
  if (result == nullptr) return absl::OkStatus();
  if (info.geometry.has_value() && info.view_steps.empty()) {
    COTAN_ASSIGN_OR_RETURN(const StridedLayout traced, EvaluateLayout(*info.geometry, call.symbols()));
    if (!HaveSameStrides(traced, result->layout())) {
      return Violation(function_, "output ", output, " has the layout ", cotan::ToString(result->layout()),
                       " in place of ", cotan::ToString(traced));
    }
  }
  if (call.in_traced_mode && result->requires_grad() != info.requires_grad) {
    return Violation(function_, "output ", output, info.requires_grad ? " does not require" : " requires",
                     " grad, contrary to the trace");
  }
  return CheckStorages(call, output);
}

absl::Status VerifyExitStage::CheckStorages(const CallContext& call, int output) const {
  if (sets_storage_) return absl::OkStatus();
  const Storage* storage = std::get<Variable>((*call.outputs)[static_cast<size_t>(output)]).tensor().storage().get();
  const int owner = owners_[static_cast<size_t>(output)];
  const Storage* expected = owner < 0 ? nullptr : call.input(owner).tensor().storage().get();
  // An input that grew (resize_()) has another storage; views of it keep the previous one.
  if (owner >= 0 && storage == entry_->inputs[static_cast<size_t>(owner)].storage.get()) return absl::OkStatus();
  if (expected != nullptr && storage != expected) {
    return Violation(function_, "output ", output, " does not share the storage of argument '",
                     function_.input(owner).name, "'");
  }
  for (size_t i = 0; expected == nullptr && i < call.inputs.size(); ++i) {
    if (call.inputs[i]->tensor().storage().get() != storage) continue;
    return Violation(function_, "output ", output, " shares the storage of argument '", function_.inputs[i].name, "'");
  }
  for (int other = 0; expected == nullptr && other < output; ++other) {
    const auto* result = std::get_if<Variable>(&(*call.outputs)[static_cast<size_t>(other)]);
    if (result == nullptr) continue;
    const bool shares = result->tensor().storage().get() == storage;
    const bool shared = memory_of_output_[static_cast<size_t>(other)] == memory_of_output_[static_cast<size_t>(output)];
    if (shares == shared) continue;
    return Violation(function_, "outputs ", other, " and ", output, shares ? " share" : " do not share", " a storage");
  }
  return absl::OkStatus();
}

absl::Status VerifyExitStage::Run(CallContext& call) {
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    COTAN_RETURN_IF_ERROR(CheckInput(call, static_cast<int>(i)));
  }
  for (int i = 0; i < function_.metadata.num_outputs(); ++i) COTAN_RETURN_IF_ERROR(CheckOutput(call, i));
  return absl::OkStatus();
}

}  // namespace cotan
