// SPDX-License-Identifier: Apache-2.0

// Restricts the metadata of a training step to the gradient of its loss.
#ifndef COTAN_AOT_AOTAUTOGRAD_LOSS_METADATA_H_
#define COTAN_AOT_AOTAUTOGRAD_LOSS_METADATA_H_

#include <ATen/core/Tensor.h>

#include "absl/types/span.h"
#include "serialization/metadata/view_and_mutation_facts.h"

namespace cotan::aot {

// Rewrites the metadata so that output `loss` has the only tangent: the other outputs, intermediate
// bases and mutated inputs have no gradient. `outputs` are the function's, functional tensors.
void RestrictToLoss(absl::Span<const at::Tensor> outputs, int loss, ViewAndMutationMetaFields& facts);

}  // namespace cotan::aot

#endif  // COTAN_AOT_AOTAUTOGRAD_LOSS_METADATA_H_
