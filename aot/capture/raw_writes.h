// SPDX-License-Identifier: Apache-2.0

// Lets factories write newly allocated tensors through their data pointer (as at::tensor does).
#ifndef COTAN_AOT_CAPTURE_RAW_WRITES_H_
#define COTAN_AOT_CAPTURE_RAW_WRITES_H_

#include <ATen/core/Tensor.h>

#include "absl/container/flat_hash_map.h"
#include "aot/capture/proxy_tensor.h"
#include "aot/ir/graph.h"

namespace cotan::aot {

// The tensors of a trace that may be written through their data pointer, until an op reads them.
class RawWrites {
 public:
  // Exposes the memory of the proxy's real tensor, which is set to zero, as the data pointer of `fresh`, a
  // functional tensor around the proxy.
  void Allow(const at::Tensor& fresh, const ProxyTensorImpl& proxy);
  // Revokes the data pointers of all exposed tensors.
  void RevokeAll();

  // Returns whether the proxy was exposed.
  bool Contains(const ProxyTensorImpl& proxy) const { return exposed_.contains(proxy.value()); }
  // Returns the value that has the content of an exposed proxy; kNoValue before SetContent().
  ValueId ContentOf(const ProxyTensorImpl& proxy) const { return exposed_.at(proxy.value()).content; }
  // Revokes the data pointer of an exposed proxy, and returns whether anything but zeros was written.
  bool RevokeAndCompare(const ProxyTensorImpl& proxy);
  void SetContent(const ProxyTensorImpl& proxy, ValueId content) { exposed_.at(proxy.value()).content = content; }

 private:
  using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  struct Exposed {
    WeakTensor shown;            // functional tensor with the data pointer; empty once it was revoked
    ValueId content = kNoValue;  // set once it has been read
  };
  static void Revoke(Exposed& exposed);

  absl::flat_hash_map<ValueId, Exposed> exposed_;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_CAPTURE_RAW_WRITES_H_
