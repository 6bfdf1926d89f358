// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/functional_tensor.h"

#include <ATen/FunctionalStorageImpl.h>
#include <ATen/ops/empty.h>

#include "aot/capture/proxy_tensor.h"
#include "aot/capture/real_scope.h"
#include "aot/capture/tensor_data.h"
#include "base/layout.h"

namespace cotan::aot {
namespace {

namespace functionalization = at::functionalization;

SymIntVector ToSymInts(at::IntArrayRef values) { return SymIntVector(values.begin(), values.end()); }

}  // namespace

at::FunctionalTensorWrapper* FunctionalWrapperOf(const at::Tensor& tensor) {
  if (!tensor.defined() || !functionalization::impl::isFunctionalTensor(tensor)) return nullptr;
  return functionalization::impl::unsafeGetFunctionalWrapper(tensor);
}

bool IsWrappedNumber(const at::Tensor& tensor) {
  return FunctionalWrapperOf(tensor) == nullptr && tensor.unsafeGetTensorImpl()->is_wrapped_number() &&
         !tensor.is_complex();
}

ScalarOutput WrappedNumberOf(const at::Tensor& wrapped) {
  const RealScope real;
  const at::Scalar number = wrapped.item();
  if (number.isBoolean()) return number.toBool();
  if (number.isIntegral(/*includeBool=*/false)) return number.toLong();
  return number.toDouble();
}

const void* StorageAddress(const at::Tensor& tensor) { return tensor.storage().unsafeGetStorageImpl(); }

at::Tensor RealTensorOf(const at::Tensor& proxy) {
  const ProxyTensorImpl* impl = AsProxy(proxy);
  return impl == nullptr ? proxy : impl->real();
}

at::Tensor SyncedProxyOf(const at::Tensor& tensor) {
  if (FunctionalWrapperOf(tensor) == nullptr) return tensor;
  functionalization::impl::sync(tensor);
  return functionalization::impl::from_functional_tensor(tensor);
}

at::Tensor StorageRootOf(const at::Tensor& tensor) {
  auto* storage = static_cast<functionalization::FunctionalStorageImpl*>(tensor.storage().unsafeGetStorageImpl());
  storage->apply_updates();
  return RealTensorOf(storage->base());
}

at::Tensor RealWithGeometryOf(const at::Tensor& tensor) {
  const at::Tensor real = RealTensorOf(SyncedProxyOf(tensor));
  if (SameGeometry(real, tensor)) return real;
  const RealScope scope;
  return at::empty({StorageExtent(LayoutOf(tensor))}, real.options())
      .as_strided(tensor.sizes(), tensor.strides(), tensor.storage_offset());
}

ViewMetas ViewMetasOf(const at::Tensor& tensor) { return FunctionalWrapperOf(tensor)->view_metas(); }

bool SameGeometry(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.strides() == b.strides() && a.storage_offset() == b.storage_offset();
}

TensorGeometry GeometryOf(const at::Tensor& tensor) {
  TensorGeometry geometry;
  geometry.dtype = ToDType(tensor.scalar_type());
  geometry.sizes = ToSymInts(tensor.sizes());
  geometry.strides = ToSymInts(tensor.strides());
  geometry.offset = tensor.storage_offset();
  return geometry;
}

}  // namespace cotan::aot
