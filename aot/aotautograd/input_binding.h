// SPDX-License-Identifier: Apache-2.0

// Removes duplicate inputs (AOTDedupeWrapper) and replaces inputs that share mutated memory by
// synthetic bases (AOTSyntheticBaseWrapper,
// torch/_functorch/_aot_autograd/input_output_analysis.py: remove_dupe_metadata,
// create_synthetic_base_metadata). Works on descriptions of the example inputs, without LibTorch.
#ifndef COTAN_AOT_AOTAUTOGRAD_INPUT_BINDING_H_
#define COTAN_AOT_AOTAUTOGRAD_INPUT_BINDING_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/dtype.h"
#include "base/layout.h"
#include "serialization/metadata/input_binding.h"
#include "serialization/metadata/view_and_mutation_facts.h"

namespace cotan::aot {

// An input tensor of the caller before the call. Offsets and strides are in elements of `dtype`.
struct InputDescription {
  // Identity of the tensor object, and of its storage; equal for the same one, never 0.
  uintptr_t identity = 0;
  uintptr_t storage = 0;
  DType dtype = DType::kUndefined;
  StridedLayout layout;
  int64_t storage_elements = 0;  // of `dtype`
  bool requires_grad = false;

  // The tensor that autograd has as base of this view (Tensor._base()); unset: not a view.
  struct Base {
    uintptr_t identity = 0;
    DType dtype = DType::kUndefined;
    StridedLayout layout;
    bool requires_grad = false;
    bool is_leaf = true;
  };
  std::optional<Base> base;
  bool is_leaf = true;
  // A view made under no_grad of a tensor that requires grad: it requires grad as well, but its
  // base gets no gradient from it.
  bool made_under_no_grad = false;
  // True if the function mutates its metadata, even if it is restored at exit.
  bool is_moved = false;
  // True if the function writes elements of it that its final view does not contain (as_strided_).
  bool has_hidden_writes = false;
};

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
// InvalidArgument: such inputs have different dtypes; those that require grad are views of
// different tensors; the final view of an input does not contain elements of another input, which
// is a view of it that requires grad; an input that is a view and requires grad is written, and its
// final view does not contain elements of a result that is a view of it; `facts` and `inputs` have
// different lengths.
absl::StatusOr<BoundInputs> BindInputs(const ViewAndMutationMetaFields& facts,
                                       absl::Span<const InputDescription> inputs);

// Returns true if two layouts in one storage have no common element by simple tests (AOTAutograd:
// compute_overlapping_inputs). Conservative: false for disjoint layouts with more than two
// interleaved dimensions, never true for overlapping ones. base/overlap.h is exact; this test
// merges the same inputs as AOTAutograd, and merging more than needed is correct.
bool DefinitelyDisjoint(const StridedLayout& a, const StridedLayout& b);

}  // namespace cotan::aot

#endif  // COTAN_AOT_AOTAUTOGRAD_INPUT_BINDING_H_
