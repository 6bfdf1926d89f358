// SPDX-License-Identifier: Apache-2.0

#include "aot/capture/written_bases.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/ops/empty.h>

#include <utility>

#include "aot/capture/argument.h"
#include "aot/capture/proxy_tensor.h"
#include "aot/capture/real_scope.h"
#include "aot/capture/recorder.h"

namespace cotan::aot {
namespace {

using at::functionalization::FunctionalStorageImpl;

FunctionalStorageImpl* StorageOf(const at::Tensor& tensor) {
  return static_cast<FunctionalStorageImpl*>(tensor.storage().unsafeGetStorageImpl());
}

// Overlapping elements cannot be distinguished after a copy.
bool MayOverlap(at::IntArrayRef sizes, at::IntArrayRef strides) {
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] > 1 && strides[d] == 0) return true;
  }
  return false;
}

at::Tensor Strided(const at::Tensor& real, at::IntArrayRef strides, int64_t offset) {
  const RealScope scope;
  int64_t extent = offset + 1;
  for (int64_t d = 0; d < real.dim(); ++d) extent += (real.size(d) - 1) * strides[static_cast<size_t>(d)];
  at::Tensor result =
      at::empty({real.numel() == 0 ? 0 : extent}, real.options()).as_strided(real.sizes(), strides, offset);
  return result.copy_(real);
}

}  // namespace

WrittenBases::WrittenBases(const c10::OperatorHandle& op, const torch::jit::Stack& stack)
    : writes_elements_(!op.hasTag(at::Tag::inplace_view) && op.schema().name() != "aten::set_") {
  const std::vector<c10::Argument>& declared = op.schema().arguments();
  for (size_t i = 0; i < declared.size(); ++i) {
    if (declared[i].alias_info() == nullptr || !declared[i].alias_info()->isWrite()) continue;
    VisitTensors(torch::jit::peek(stack, i, declared.size()), [&](const at::Tensor& tensor) {
      if (!tensor.defined() || !at::functionalization::impl::isFunctionalTensor(tensor)) return;
      const at::Tensor& base = StorageOf(tensor)->base();
      if (AsProxy(base) == nullptr) return;
      written_.push_back({tensor, StorageOf(tensor), base.sizes().vec(), base.strides().vec(), base.storage_offset()});
    });
  }
}

void WrittenBases::RecordMutation(Recorder& recorder) const {
  for (const Written& written : written_) {
    if (writes_elements_) recorder.NoteWrite(written.tensor);
  }
}

void WrittenBases::Restore() const {
  for (const Written& written : written_) {
    if (StorageOf(written.tensor) != written.storage) continue;
    StorageOf(written.tensor)->apply_updates();
    const at::Tensor base = StorageOf(written.tensor)->base();
    const ProxyTensorImpl* proxy = AsProxy(base);
    if (proxy == nullptr || base.sizes() != written.sizes) continue;
    if (base.strides() == written.strides && base.storage_offset() == written.offset) continue;
    if (MayOverlap(written.sizes, written.strides)) continue;
    MoveReal(base, Strided(proxy->real(), written.strides, written.offset));
    at::functionalization::impl::unsafeGetFunctionalWrapper(written.tensor)->regenerate_from_base();
  }
}

}  // namespace cotan::aot
