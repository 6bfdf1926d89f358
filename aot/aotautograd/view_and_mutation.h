// Finds what a traced function does to its inputs and how its outputs relate to
// them, from what functionalization kept track of.
//
//   const std::vector<InputAtEntry> entry = DescribeInputs(inputs);
//   std::vector<at::Tensor> outputs = function(inputs);
//   COTAN_ASSIGN_OR_RETURN(Analysis analysis, Analyze(entry, inputs, outputs, options));
#ifndef COTAN_AOT_AOTAUTOGRAD_VIEW_AND_MUTATION_H_
#define COTAN_AOT_AOTAUTOGRAD_VIEW_AND_MUTATION_H_

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "serialization/metadata/tensor_geometry.h"
#include "serialization/metadata/view_and_mutation_facts.h"

namespace cotan::aot {

// An input before the function runs.
struct InputAtEntry {
  at::Tensor proxy;  // inside the functional wrapper
  // Of the wrapper; keeps the address. One with other owners is not resized.
  c10::weak_intrusive_ptr<c10::StorageImpl> storage;
  bool is_leaf = true;
  bool requires_grad = false;
  std::shared_ptr<const void> history;  // autograd's node that computed it; null: a leaf
};

struct AnalysisOptions {
  // Whether the program may write inputs itself where nobody can tell.
  bool keep_input_mutations = true;
  // Inputs at fixed addresses, ascending.
  std::vector<int> static_inputs = {};
  // Grad mode when the function was called. Its value when the analysis runs
  // counts as the function's last word.
  bool grad_enabled_at_entry = true;
};

struct Analysis {
  // About the signature of the function that ran. What only the joint graph or
  // its partition tells is not set: indices_of_inputs_to_detach (see
  // InputsToDetach()), backward_mutated_inputs, saved values.
  ViewAndMutationMetaFields facts;
  // Functional tensors, in the order of their indexes.
  std::vector<at::Tensor> intermediate_bases;
  // Inputs that have got another geometry or storage, be it that they are back
  // where they were; ascending.
  std::vector<int> metadata_mutated_inputs;
  // Inputs of which elements were written that they do not show any more, as they
  // were moved or `set_`; ascending.
  std::vector<int> inputs_with_hidden_writes;
  // By input: the input whose storage, as that was at entry, `set_` gave it; -1: it
  // has its own, or one that no input had.
  std::vector<int> storage_sources;
};

// `inputs` are functional tensors; one that occurs twice is one tensor to the
// function.
std::vector<InputAtEntry> DescribeInputs(absl::Span<const at::Tensor> inputs);

// The analysis of a function that ran on `inputs` and returned `outputs`; an
// undefined output counts as none. Call it before a backward pass runs, under
// the keys of the trace. Ops that it runs are not recorded.
// InvalidArgument: the function replaces the storage of an input in a way that
// the program cannot repeat.
absl::StatusOr<Analysis> Analyze(absl::Span<const InputAtEntry> entry, absl::Span<const at::Tensor> inputs,
                                 absl::Span<const at::Tensor> outputs, const AnalysisOptions& options);

// Sets OutputAliasInfo::shared_storage, other than of parts of inputs. Analyze()
// does, and non_alias_view; call it again when types of outputs have been changed
// since.
void SetSharedStorage(absl::Span<const at::Tensor> outputs, absl::Span<const at::Tensor> intermediate_bases,
                      ViewAndMutationMetaFields& facts);

// ViewAndMutationMetaFields::indices_of_inputs_to_detach: what the backward gives no
// gradient. Length of `has_gradient` = number of inputs of `facts`.
std::vector<int> InputsToDetach(const ViewAndMutationMetaFields& facts, const std::vector<bool>& has_gradient);

// ViewAndMutationMetaFields::backward_mutated_inputs. `before` and `after` are
// MutationCounts() of the inputs before and after the backward pass ran.
std::vector<uint64_t> MutationCounts(absl::Span<const at::Tensor> inputs);
std::vector<int> BackwardMutatedInputs(absl::Span<const uint64_t> before, absl::Span<const uint64_t> after);

// Sizes, strides and offset as the metadata records them.
TensorGeometry GeometryOf(const at::Tensor& tensor);

}  // namespace cotan::aot

#endif  // COTAN_AOT_AOTAUTOGRAD_VIEW_AND_MUTATION_H_
