// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/first_pass.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "aot/aotautograd/analyze_function.h"
#include "aot/aotautograd/describe_examples.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

// Corrects inputs that `set_` gave the storage that they already have, because they share it with
// another input: only their geometry changes. In the first run the inputs had separate memory.
void KeepStorage(const FunctionAnalysis& found, absl::Span<const InputDescription> inputs,
                 ViewAndMutationMetaFields& facts) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    InputAliasInfo& info = facts.input_info[i];
    const int source = found.storage_sources[i];
    if (source < 0 || !info.mutates_storage_metadata || !info.geometry_after.has_value()) continue;
    if (inputs[static_cast<size_t>(source)].storage != inputs[i].storage) continue;
    info.mutates_storage_metadata = info.mutation_is_shallow_copy_data = false;
    info.mutates_data = info.mutates_data || inputs[i].has_hidden_writes;
    info.new_storage.reset();
  }
}

// InvalidArgument: an input that gets another storage was written before, and shared its former
// storage with another input. The program returns only the new storage.
absl::Status CheckNoHiddenWrites(absl::Span<const InputDescription> inputs, const ViewAndMutationMetaFields& facts) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!facts.input_info[i].mutates_storage_metadata || !inputs[i].has_hidden_writes) continue;
    for (size_t j = 0; j < inputs.size(); ++j) {
      if (inputs[j].storage != inputs[i].storage || inputs[j].identity == inputs[i].identity) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "Encountered a set_ on a graph input, but the input has other mutations: input ", i,
          " is written before set_ gives it another storage, and shared its former storage with input ", j));
    }
  }
  return absl::OkStatus();
}

// Makes the input one that is only read.
void DropWrites(InputAliasInfo& info) {
  InputAliasInfo read;
  read.is_leaf = info.is_leaf;
  read.keep_input_mutations = info.keep_input_mutations;
  read.requires_grad = info.requires_grad_at_entry.value_or(info.requires_grad);
  info = std::move(read);
}

}  // namespace

absl::Status CannotBeCompiled(absl::string_view name, absl::string_view diagnostics) {
  return absl::UnimplementedError(absl::StrCat("'", name, "' cannot be compiled:\n  ", diagnostics));
}

absl::StatusOr<FirstPass> RunFirstPass(const TensorFunction& function, absl::Span<const ModuleState> states,
                                       absl::Span<const at::Tensor> inputs, const TraceOptions& options) {
  AnalyzeFunctionOptions analysis;
  analysis.keep_input_mutations = options.keep_input_mutations;
  analysis.grad_enabled = options.grad_enabled;
  analysis.seed = options.seed;
  FirstPass first;
  absl::StatusOr<FunctionAnalysis> found = CollectMetadata(function, states, inputs, analysis);
  if (absl::IsUnimplemented(found.status())) return CannotBeCompiled(options.name, found.status().message());
  if (!found.ok()) {
    return absl::Status(found.status().code(),
                        absl::StrCat("tracing '", options.name, "': ", found.status().message()));
  }
  first.facts = std::move(found->facts);
  for (size_t i = 0; i < states.size() && options.recomputes_forward; ++i) DropWrites(first.facts.input_info[i]);
  std::vector<InputDescription> descriptions = DescribeExamples(states, inputs);
  for (int i : found->metadata_mutated_inputs) descriptions[static_cast<size_t>(i)].has_metadata_mutation = true;
  for (int i : found->inputs_with_hidden_writes) descriptions[static_cast<size_t>(i)].has_hidden_writes = true;
  KeepStorage(*found, descriptions, first.facts);
  COTAN_RETURN_IF_ERROR(CheckNoHiddenWrites(descriptions, first.facts));
  COTAN_ASSIGN_OR_RETURN(first.bound, BindInputs(first.facts, descriptions));
  return first;
}

}  // namespace cotan::aot
