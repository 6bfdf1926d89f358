// SPDX-License-Identifier: Apache-2.0

// Finds the mutations of a traced function's inputs from the state of its functional tensors
// (torch/_functorch/_aot_autograd/functional_utils.py, has_data_mutation and has_metadata_mutation).
#ifndef COTAN_AOT_AOTAUTOGRAD_INPUT_MUTATIONS_H_
#define COTAN_AOT_AOTAUTOGRAD_INPUT_MUTATIONS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "serialization/metadata/input_alias_info.h"
#include "serialization/metadata/view_and_mutation_facts.h"

namespace cotan::aot {

// State of an input before the function runs.
struct InputAtEntry {
  at::Tensor proxy;  // inside the functional wrapper
  // Storage of the wrapper. The weak reference keeps its address unique without owning it: a
  // storage with several owners cannot be resized.
  c10::weak_intrusive_ptr<c10::StorageImpl> storage;
  bool is_leaf = true;
  bool requires_grad = false;
  std::shared_ptr<const void> grad_fn;  // null: a leaf
};

// State of an input after the function ran.
struct InputAtExit {
  at::Tensor real;  // with the geometry at exit
  // True if it has the storage that it had at entry.
  bool same_storage = true;
  // From the geometry at entry to `real`; empty if it is another storage or the steps are not known.
  std::vector<ViewStep> steps = {};
};

// Result of FindInputMutations().
struct InputMutations {
  std::vector<InputAliasInfo> info;  // per input; gradient_sizes is not set
  std::vector<InputAtExit> exit;     // per input
  bool keep_input_mutations = true;  // see ViewAndMutationMetaFields
  // Inputs whose metadata or storage was mutated, even if restored at exit; ascending.
  std::vector<int> metadata_mutated_inputs;
  // Inputs with writes to elements outside their final view, after a metadata mutation or `set_`;
  // ascending.
  std::vector<int> inputs_with_hidden_writes;
  // For each input: the input whose storage at entry `set_` gave it. -1: it keeps its own storage,
  // or has one that is not of an input.
  std::vector<int> storage_sources;
};

// Returns the state of `inputs`, functional tensors; a tensor may occur twice.
std::vector<InputAtEntry> DescribeInputs(absl::Span<const at::Tensor> inputs);

// Returns the mutations of `inputs`, functional tensors described by `entry`, after the function ran.
// With `keep_input_mutations`, the program may write the new content itself.
// InvalidArgument: the function resizes or replaces the storage of an input (`set_`) that has other
// mutations which cannot be kept in the graph.
absl::StatusOr<InputMutations> FindInputMutations(absl::Span<const InputAtEntry> entry,
                                                  absl::Span<const at::Tensor> inputs, bool keep_input_mutations);

// Sets InputAliasInfo::gradient_sizes of leaves whose gradient has other sizes than the leaf at exit:
// its AccumulateGrad node was created before a metadata mutation. Must run after everything that may
// create such nodes.
void SetGradientSizes(absl::Span<const at::Tensor> inputs, std::vector<InputAliasInfo>& info);

// Returns ViewAndMutationMetaFields::indices_of_inputs_to_detach: non-leaf inputs that require grad
// and get no gradient from the backward. has_gradient.size() is the number of inputs of `facts`.
std::vector<int> InputsToDetach(const ViewAndMutationMetaFields& facts, const std::vector<bool>& has_gradient);

// Returns the number of mutations of each of `inputs`, functional tensors.
std::vector<uint64_t> MutationCounts(absl::Span<const at::Tensor> inputs);
// Returns ViewAndMutationMetaFields::backward_mutated_inputs. `before` and `after` are MutationCounts()
// of the inputs before and after the backward pass.
std::vector<int> BackwardMutatedInputs(absl::Span<const uint64_t> before, absl::Span<const uint64_t> after);

}  // namespace cotan::aot

#endif  // COTAN_AOT_AOTAUTOGRAD_INPUT_MUTATIONS_H_
