// SPDX-License-Identifier: Apache-2.0

// Tensors that stand for values of the graph being recorded.
#ifndef COTAN_AOT_CAPTURE_PROXY_TENSOR_H_
#define COTAN_AOT_CAPTURE_PROXY_TENSOR_H_

#include <ATen/core/Tensor.h>

#include <memory>

#include "absl/container/flat_hash_set.h"
#include "aot/ir/graph.h"

namespace cotan::aot {

class ProxyTensorImpl;

// The period in which a proxy was made: the construction of a module, or one trace. It lives as long as any
// of its proxies. Not thread-safe.
struct TraceEpoch {
  enum class Kind : uint8_t { kConstruction, kTrace };
  Kind kind = Kind::kTrace;
  absl::flat_hash_set<const ProxyTensorImpl*> live;
};

// A tensor that holds a real CPU tensor and its value in the graph. No op writes to it, as
// functionalization runs above it. Its sizes, strides, dtype and storage are those of the real tensor; no
// kernel reads the storage.
class ProxyTensorImpl : public c10::TensorImpl {
 public:
  ProxyTensorImpl(at::Tensor real, ValueId value, std::shared_ptr<TraceEpoch> epoch);
  ~ProxyTensorImpl() override;

  const at::Tensor& real() const { return real_; }
  // Replaces the real tensor by `real`, which has the same elements.
  void set_real(at::Tensor real);
  // kNoValue during construction.
  ValueId value() const { return value_; }
  const std::shared_ptr<TraceEpoch>& epoch() const { return epoch_; }

  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(const c10::VariableVersion& version_counter,
                                                              bool allow_tensor_metadata_change) const override;
  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(c10::VariableVersion&& version_counter,
                                                              bool allow_tensor_metadata_change) const override;

 private:
  const char* tensorimpl_type_name() const override { return "cotan::ProxyTensorImpl"; }

  at::Tensor real_;
  ValueId value_;
  std::shared_ptr<TraceEpoch> epoch_;
};

at::Tensor MakeProxy(at::Tensor real, ValueId value, std::shared_ptr<TraceEpoch> epoch);

// Returns `tensor` as a proxy; null if it is undefined or not a proxy. Does not unwrap functional tensors;
// see ProxyOf().
const ProxyTensorImpl* AsProxy(const at::Tensor& tensor);

// Gives the proxy the strides, offset and storage of `real`, which has the same elements.
void MoveReal(const at::Tensor& proxy, at::Tensor real);

// Returns a functional tensor around the proxy, which traced functions compute with
// (at::functionalization::impl::to_functional_tensor()).
at::Tensor WrapFunctional(const at::Tensor& proxy);

// Returns the proxy in a functional tensor after applying all pending mutations; null if `tensor` is not a
// functional tensor around a proxy.
const ProxyTensorImpl* ProxyOf(const at::Tensor& tensor);

// Replaces the content of a functional tensor by `proxy` and gives it a new storage without pending updates
// (FunctionalTensorWrapper::_unsafe_reset_storage()). Views of its previous content keep that.
void Reseat(const at::Tensor& functional, const at::Tensor& proxy);

}  // namespace cotan::aot

#endif  // COTAN_AOT_CAPTURE_PROXY_TENSOR_H_
