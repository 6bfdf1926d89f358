// SPDX-License-Identifier: Apache-2.0

// Rewrites metadata to synthetic bases
// (torch/_functorch/_aot_autograd/input_output_analysis.py, create_synthetic_base_metadata).
#ifndef COTAN_AOT_AOTAUTOGRAD_SYNTHETIC_BASE_METADATA_H_
#define COTAN_AOT_AOTAUTOGRAD_SYNTHETIC_BASE_METADATA_H_

#include "absl/types/span.h"
#include "aot/aotautograd/input_description.h"
#include "aot/aotautograd/synthetic_bases.h"
#include "serialization/metadata/input_binding.h"
#include "serialization/metadata/view_and_mutation_facts.h"

namespace cotan::aot {

// Returns the metadata in terms of the program's arguments: bases first, then the other unique
// inputs. `facts` and `inputs` are those of the unique inputs, `bases` the bases of `binding`.
// Outputs of inputs that became views of a base are views of the base; inputs in
// binding.aliased_inputs_with_metadata_mutations are additional outputs. A base has the union of its
// views' data mutations; a flag that hides mutations holds if it holds for all views.
ViewAndMutationMetaFields CreateSyntheticBaseMetadata(const ViewAndMutationMetaFields& facts,
                                                      absl::Span<const InputDescription> inputs,
                                                      absl::Span<const SyntheticBase> bases,
                                                      const InputBinding& binding);

// Propagates requires_grad of outputs through synthetic bases: where inputs share memory, one that
// does not require grad gets a gradient when another is written with a value that requires grad. In
// the first run, which gave `facts`, the inputs had separate memory; `second` is the metadata of the
// run with bases. Does nothing if no output of `facts` gets a gradient.
void PropagateRequiresGrad(const ViewAndMutationMetaFields& second, ViewAndMutationMetaFields& facts);

}  // namespace cotan::aot

#endif  // COTAN_AOT_AOTAUTOGRAD_SYNTHETIC_BASE_METADATA_H_
