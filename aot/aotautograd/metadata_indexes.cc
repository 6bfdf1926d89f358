// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/metadata_indexes.h"

#include <algorithm>

namespace cotan::aot {
bool HasInputAsBase(const OutputAliasInfo& info) {
  return info.base_index.has_value() && !IsAliasOfIntermediate(info.output_type);
}

bool HasInputAsStorageOwner(const InputAliasInfo& info) {
  return info.new_storage.has_value() && info.new_storage->owner != NewStorage::Owner::kProgram;
}

std::vector<int> RenumberedInputs(const std::vector<int>& inputs, const std::vector<int>& new_index) {
  std::vector<int> result;
  for (int input : inputs) {
    if (new_index[static_cast<size_t>(input)] >= 0) result.push_back(new_index[static_cast<size_t>(input)]);
  }
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

}  // namespace cotan::aot
