// SPDX-License-Identifier: Apache-2.0

#include "aot/capture/raw_writes.h"

#include <algorithm>
#include <cstring>

namespace cotan::aot {
void RawWrites::Allow(const at::Tensor& fresh, const ProxyTensorImpl& proxy) {
  std::memset(proxy.real().mutable_data_ptr(), 0, proxy.real().nbytes());
  c10::Storage storage = fresh.storage();
  storage.set_data_ptr_noswap(c10::DataPtr(proxy.real().mutable_data_ptr(), proxy.real().device()));
  exposed_.try_emplace(proxy.value(), Exposed{WeakTensor(fresh.getIntrusivePtr()), kNoValue});
}

void RawWrites::RevokeAll() {
  for (auto& [value, exposed] : exposed_) Revoke(exposed);
}

bool RawWrites::RevokeAndCompare(const ProxyTensorImpl& proxy) {
  Revoke(exposed_.at(proxy.value()));
  const auto* bytes = static_cast<const char*>(proxy.real().const_data_ptr());
  return std::any_of(bytes, bytes + proxy.real().nbytes(), [](char byte) { return byte != 0; });
}

void RawWrites::Revoke(Exposed& exposed) {
  if (const auto shown = exposed.shown.lock()) {
    c10::Storage storage = shown->storage();
    storage.set_data_ptr_noswap(c10::DataPtr(nullptr, storage.device()));
  }
  exposed.shown.reset();
}

}  // namespace cotan::aot
