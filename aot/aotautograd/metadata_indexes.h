// SPDX-License-Identifier: Apache-2.0

// Helps to rewrite metadata to other indexes of inputs, when duplicates are removed or inputs are
// replaced by synthetic bases.
#ifndef COTAN_AOT_AOTAUTOGRAD_METADATA_INDEXES_H_
#define COTAN_AOT_AOTAUTOGRAD_METADATA_INDEXES_H_

#include <vector>

#include "serialization/metadata/input_alias_info.h"
#include "serialization/metadata/output_alias_info.h"

namespace cotan::aot {

// Returns whether base_index of the output is an index of inputs.
bool HasInputAsBase(const OutputAliasInfo& info);

// Returns whether new_storage.input is an index of inputs: `set_` gave the input the storage of
// another input.
bool HasInputAsStorageOwner(const InputAliasInfo& info);

// Maps `inputs` by `new_index`, without those that map to -1. The result is ascending, each index
// once.
std::vector<int> RenumberedInputs(const std::vector<int>& inputs, const std::vector<int>& new_index);

}  // namespace cotan::aot

#endif  // COTAN_AOT_AOTAUTOGRAD_METADATA_INDEXES_H_
