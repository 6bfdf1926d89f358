// SPDX-License-Identifier: Apache-2.0

// Finds outputs that share a storage with another output, an intermediate base or an input.
#ifndef COTAN_AOT_AOTAUTOGRAD_SHARED_STORAGE_H_
#define COTAN_AOT_AOTAUTOGRAD_SHARED_STORAGE_H_

#include <ATen/core/Tensor.h>

#include "absl/types/span.h"
#include "serialization/metadata/view_and_mutation_facts.h"

namespace cotan::aot {

// Sets OutputAliasInfo::shared_storage of all outputs except those that are part of an input.
// Analyze() calls it; it must be called again when output types have changed since.
void SetSharedStorage(absl::Span<const at::Tensor> outputs, absl::Span<const at::Tensor> intermediate_bases,
                      ViewAndMutationMetaFields& facts);

}  // namespace cotan::aot

#endif  // COTAN_AOT_AOTAUTOGRAD_SHARED_STORAGE_H_
