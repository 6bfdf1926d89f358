// SPDX-License-Identifier: Apache-2.0

// Finds outputs that are views in autograd although they do not alias anything that the caller has
// (AOTAutograd: unsafe_view_alias, custom_function_view).
#ifndef COTAN_AOT_AOTAUTOGRAD_NON_ALIAS_VIEWS_H_
#define COTAN_AOT_AOTAUTOGRAD_NON_ALIAS_VIEWS_H_

#include <ATen/core/Tensor.h>

#include "absl/types/span.h"
#include "serialization/metadata/view_and_mutation_facts.h"

namespace cotan::aot {

// Sets OutputAliasInfo::non_alias_view. Types and shared storages of the outputs must be set.
void SetNonAliasViews(absl::Span<const at::Tensor> outputs, ViewAndMutationMetaFields& facts);

}  // namespace cotan::aot

#endif  // COTAN_AOT_AOTAUTOGRAD_NON_ALIAS_VIEWS_H_
