// SPDX-License-Identifier: Apache-2.0

// Binds the function's inputs to the program's arguments: removes duplicate inputs (dedupe.h), then
// replaces inputs that share mutated memory by synthetic bases (synthetic_bases.h,
// synthetic_base_metadata.h). Works on descriptions of the example inputs, without LibTorch.
#ifndef COTAN_AOT_AOTAUTOGRAD_INPUT_BINDING_H_
#define COTAN_AOT_AOTAUTOGRAD_INPUT_BINDING_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "aot/aotautograd/input_description.h"
#include "serialization/metadata/input_binding.h"
#include "serialization/metadata/view_and_mutation_facts.h"

namespace cotan::aot {

// The program's arguments in terms of the function's inputs, and the metadata of the program.
struct BoundInputs {
  InputBinding binding;
  // Metadata of the program's arguments and outputs; equal to the function's metadata if the
  // binding is the identity. The inputs in binding.aliased_inputs_with_metadata_mutations are
  // additional outputs after the function's, as views of their bases. shared_storage and
  // non_alias_view are not set. For a base, mutations_under_no_grad_or_inference_mode is true only
  // if it is true for all its views, unmutated ones included, as in AOTAutograd: a write-back uses
  // the function's metadata instead.
  ViewAndMutationMetaFields program_facts;
};

// Returns the binding of a function with the metadata `facts` and these inputs.
//
// Duplicates are removed if any but the first of them is mutated, becomes a new leaf, or has its
// metadata mutated in between; otherwise they stay separate inputs. Inputs in one storage become
// views of one base if data of one of them is mutated and any two of them may overlap. Those that
// require grad are views of that base in autograd. An input that does not require grad may share
// the memory only (`detach()`), and is then detached from the base, as is a view made under
// no_grad.
//
// An input with writes to elements outside its final view (as_strided_) also becomes a view of a
// base, and so do a leaf whose metadata is mutated and its views that have a gradient.
//
// Inputs of several dtypes may share memory; only those of the base's dtype get gradients.
//
// InvalidArgument: such inputs have different dtypes, and one that is complex or requires grad has
// not the dtype of the base; those that require grad are views of different tensors; the final view of an input does
// not contain elements of another input, which is a view of it that requires grad; an input that is a view and requires
// grad is written, and its final view does not contain elements of a result that is a view of it; `facts` and `inputs`
// have different lengths.
absl::StatusOr<BoundInputs> BindInputs(const ViewAndMutationMetaFields& facts,
                                       absl::Span<const InputDescription> inputs);

}  // namespace cotan::aot

#endif  // COTAN_AOT_AOTAUTOGRAD_INPUT_BINDING_H_
