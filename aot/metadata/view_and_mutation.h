// Finds what a traced function does to its inputs and how its outputs relate to
// them, from what functionalization kept track of.
#ifndef COTAN_AOT_METADATA_VIEW_AND_MUTATION_H_
#define COTAN_AOT_METADATA_VIEW_AND_MUTATION_H_

#include <ATen/core/Tensor.h>

#include "absl/types/span.h"
#include "serialization/metadata.pb.h"

namespace cotan::aot {

// The analysis of a function that ran on `inputs` (parameters, buffers, user
// inputs: functional tensors that were fresh at entry) and returned `outputs`.
// Call it before a backward pass runs. An output that shares memory with
// another output, but with no input, counts as a view in fresh memory.
serialization::ViewAndMutationMeta AnalyzeViewsAndMutations(absl::Span<const at::Tensor> inputs,
                                                            absl::Span<const at::Tensor> outputs);

// Sizes, strides and offset as the metadata records them.
serialization::TensorGeometry GeometryOf(const at::Tensor& tensor);

}  // namespace cotan::aot

#endif  // COTAN_AOT_METADATA_VIEW_AND_MUTATION_H_
