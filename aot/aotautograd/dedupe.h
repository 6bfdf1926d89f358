// SPDX-License-Identifier: Apache-2.0

// Removes duplicate inputs, tensors given several times (AOTDedupeWrapper;
// torch/_functorch/_aot_autograd/input_output_analysis.py, remove_dupe_metadata).
#ifndef COTAN_AOT_AOTAUTOGRAD_DEDUPE_H_
#define COTAN_AOT_AOTAUTOGRAD_DEDUPE_H_

#include <vector>

#include "absl/types/span.h"
#include "aot/aotautograd/input_description.h"
#include "serialization/metadata/input_binding.h"
#include "serialization/metadata/view_and_mutation_facts.h"

namespace cotan::aot {

// Returns for each input its index among the unique inputs (InputBinding::add_dupe_map). Empty if
// duplicates may stay separate inputs: none but the first of them is mutated, becomes a new leaf, or
// has its metadata mutated in between.
std::vector<int> FindDuplicates(const ViewAndMutationMetaFields& facts, absl::Span<const InputDescription> inputs);

// Returns the metadata in terms of the unique inputs of `binding`, which has duplicates. Tangents of
// removed inputs are dropped.
ViewAndMutationMetaFields RemoveDupeMetadata(const ViewAndMutationMetaFields& facts, const InputBinding& binding);

}  // namespace cotan::aot

#endif  // COTAN_AOT_AOTAUTOGRAD_DEDUPE_H_
