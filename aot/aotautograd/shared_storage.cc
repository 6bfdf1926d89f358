// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/shared_storage.h"

#include <optional>

#include "absl/container/flat_hash_map.h"
#include "aot/aotautograd/functional_tensor.h"
#include "aot/capture/tensor_data.h"
#include "base/layout.h"
#include "base/overlap.h"

namespace cotan::aot {
namespace {

// The owner of a storage, with its dtype, layout, conj and neg bits.
struct StorageOwner {
  StorageOwner(SharedStorage::Owner kind, int index, const at::Tensor& tensor)
      : shared{kind, index},
        dtype(tensor.scalar_type()),
        layout(LayoutOf(tensor)),
        is_conjugate(RealWithGeometryOf(tensor).is_conj()),
        is_negative(RealWithGeometryOf(tensor).is_neg()) {}

  // Returns how `tensor`, in the same storage, is related to the owner. Unset: their conj or neg
  // bits differ, and `tensor` has another dtype or elements outside the owner's view.
  std::optional<SharedStorage> SharedWith(const at::Tensor& tensor) const {
    SharedStorage result = shared;
    result.is_conjugate = RealWithGeometryOf(tensor).is_conj() != is_conjugate;
    result.is_negated = RealWithGeometryOf(tensor).is_neg() != is_negative;
    const bool has_owner_bits = !result.is_conjugate && !result.is_negated;
    if (has_owner_bits) return result;
    const bool is_view_of_owner = tensor.scalar_type() == dtype && Covers(layout, LayoutOf(tensor));
    return is_view_of_owner ? std::make_optional(result) : std::nullopt;
  }

  SharedStorage shared;
  at::ScalarType dtype;
  StridedLayout layout;
  bool is_conjugate, is_negative;
};

}  // namespace

void SetSharedStorage(absl::Span<const at::Tensor> outputs, absl::Span<const at::Tensor> intermediate_bases,
                      ViewAndMutationMetaFields& facts) {
  using Owner = SharedStorage::Owner;
  absl::flat_hash_map<const void*, StorageOwner> owner_of_storage;
  absl::flat_hash_map<const void*, int> output_of_tensor;
  for (size_t i = 0; i < intermediate_bases.size(); ++i) {
    const at::Tensor& base = intermediate_bases[i];
    owner_of_storage.try_emplace(StorageAddress(base), Owner::kIntermediateBase, static_cast<int>(i), base);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    OutputAliasInfo& info = facts.output_info[i];
    if (!info.is_tensor() || info.output_type == OutputType::kIsInput) continue;
    const int index = static_cast<int>(i);
    const auto [first, is_new] = output_of_tensor.try_emplace(outputs[i].unsafeGetTensorImpl(), index);
    if (!is_new) {
      info.shared_storage = SharedStorage{Owner::kOutput, first->second, true};
      if (IsFreshMemory(info.output_type)) info.view_steps.clear();
      continue;
    }
    if (!IsFreshMemory(info.output_type)) continue;
    if (info.shared_storage.has_value() && info.shared_storage->owner == Owner::kInput) continue;
    const auto [owner, is_first] =
        owner_of_storage.try_emplace(StorageAddress(outputs[i]), Owner::kOutput, index, outputs[i]);
    if (is_first) {
      info.shared_storage.reset();
    } else {
      info.shared_storage = owner->second.SharedWith(outputs[i]);
    }
  }
}

}  // namespace cotan::aot
