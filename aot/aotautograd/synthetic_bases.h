// SPDX-License-Identifier: Apache-2.0

// Chooses synthetic bases for inputs that share mutated memory (AOTSyntheticBaseWrapper;
// torch/_functorch/_aot_autograd/runtime_wrappers.py, merge_view_inputs).
#ifndef COTAN_AOT_AOTAUTOGRAD_SYNTHETIC_BASES_H_
#define COTAN_AOT_AOTAUTOGRAD_SYNTHETIC_BASES_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "aot/aotautograd/input_description.h"
#include "base/layout.h"
#include "serialization/metadata/input_binding.h"
#include "serialization/metadata/view_and_mutation_facts.h"

namespace cotan::aot {

// A synthetic base. Indexes count the unique inputs.
struct SyntheticBase {
  InputBinding::Base base;
  StridedLayout layout;  // of the base
  // Identity of the tensor that the base stands for in autograd; 0: the whole storage, without a
  // gradient.
  uintptr_t identity = 0;
  std::vector<int> views;  // inputs that become views of the base
};

// Inputs grouped into views of synthetic bases and arguments of their own.
struct MergedViewInputs {
  std::vector<SyntheticBase> bases;
  std::vector<int> arguments;  // unique inputs that stay, grouped by storage
};

// Returns the synthetic bases of unique inputs; BindInputs() states which inputs need one, and the
// errors.
absl::StatusOr<MergedViewInputs> MergeViewInputs(const ViewAndMutationMetaFields& facts,
                                                 absl::Span<const InputDescription> inputs);

// Sets inner_inputs, bases and aliased_inputs_with_metadata_mutations of `binding`. `merged` has at
// least one base.
void BindSyntheticBases(const MergedViewInputs& merged, const ViewAndMutationMetaFields& facts,
                        absl::Span<const InputDescription> inputs, InputBinding& binding);

}  // namespace cotan::aot

#endif  // COTAN_AOT_AOTAUTOGRAD_SYNTHETIC_BASES_H_
