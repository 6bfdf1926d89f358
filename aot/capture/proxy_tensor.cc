// SPDX-License-Identifier: Apache-2.0

#include "aot/capture/proxy_tensor.h"

#include <ATen/FunctionalTensorWrapper.h>

#include <utility>

#include "aot/capture/dispatch_keys.h"

namespace cotan::aot {
namespace {

constexpr c10::DispatchKeySet kProxyKeys = c10::DispatchKeySet(kRecordKey) | c10::DispatchKeySet(c10::DispatchKey::CPU);

namespace functionalization = at::functionalization::impl;

}  // namespace

ProxyTensorImpl::ProxyTensorImpl(at::Tensor real, ValueId value, std::shared_ptr<TraceEpoch> epoch)
    : TensorImpl(c10::Storage(real.storage()), kProxyKeys, real.dtype()),
      real_(std::move(real)),
      value_(value),
      epoch_(std::move(epoch)) {
  set_sizes_and_strides(real_.sizes(), real_.strides(), real_.storage_offset());
  refresh_numel();
  refresh_contiguous();
  epoch_->live.insert(this);
}

void ProxyTensorImpl::set_real(at::Tensor real) {
  real_ = std::move(real);
  storage_ = real_.storage();
  set_sizes_and_strides(real_.sizes(), real_.strides(), real_.storage_offset());
  refresh_contiguous();
}

ProxyTensorImpl::~ProxyTensorImpl() { epoch_->live.erase(this); }

c10::intrusive_ptr<c10::TensorImpl> ProxyTensorImpl::shallow_copy_and_detach(
    const c10::VariableVersion& version_counter, bool allow_tensor_metadata_change) const {
  auto copy = c10::make_intrusive<ProxyTensorImpl>(real_, value_, epoch_);
  copy->set_version_counter(version_counter);
  copy->set_allow_tensor_metadata_change(allow_tensor_metadata_change);
  return copy;
}

c10::intrusive_ptr<c10::TensorImpl> ProxyTensorImpl::shallow_copy_and_detach(c10::VariableVersion&& version_counter,
                                                                             bool allow_tensor_metadata_change) const {
  auto copy = c10::make_intrusive<ProxyTensorImpl>(real_, value_, epoch_);
  copy->set_version_counter(std::move(version_counter));
  copy->set_allow_tensor_metadata_change(allow_tensor_metadata_change);
  return copy;
}

at::Tensor MakeProxy(at::Tensor real, ValueId value, std::shared_ptr<TraceEpoch> epoch) {
  return at::detail::make_tensor<ProxyTensorImpl>(std::move(real), value, std::move(epoch));
}

const ProxyTensorImpl* AsProxy(const at::Tensor& tensor) {
  return dynamic_cast<const ProxyTensorImpl*>(tensor.unsafeGetTensorImpl());
}

void MoveReal(const at::Tensor& proxy, at::Tensor real) {
  static_cast<ProxyTensorImpl*>(proxy.unsafeGetTensorImpl())->set_real(std::move(real));
}

at::Tensor WrapFunctional(const at::Tensor& proxy) { return functionalization::to_functional_tensor(proxy); }

const ProxyTensorImpl* ProxyOf(const at::Tensor& tensor) {
  if (!tensor.defined() || !functionalization::isFunctionalTensor(tensor)) return nullptr;
  functionalization::sync(tensor);
  return AsProxy(functionalization::from_functional_tensor(tensor));
}

void Reseat(const at::Tensor& functional, const at::Tensor& proxy) {
  at::FunctionalTensorWrapper* wrapper = functionalization::unsafeGetFunctionalWrapper(functional);
  wrapper->replace_(proxy);
  wrapper->_unsafe_reset_storage();
}

}  // namespace cotan::aot
