// SPDX-License-Identifier: Apache-2.0

// Reads the state of functional tensors (torch/_functorch/_aot_autograd/functional_utils.py).
#ifndef COTAN_AOT_AOTAUTOGRAD_FUNCTIONAL_TENSOR_H_
#define COTAN_AOT_AOTAUTOGRAD_FUNCTIONAL_TENSOR_H_

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/core/Tensor.h>

#include "aot/aotautograd/view_replay.h"
#include "serialization/metadata/output_alias_info.h"
#include "serialization/metadata/tensor_geometry.h"

namespace cotan::aot {

// Returns the functional wrapper; null for an undefined or captured tensor.
at::FunctionalTensorWrapper* FunctionalWrapperOf(const at::Tensor& tensor);

// Returns whether the tensor is a wrapped number of LibTorch, and not a functional tensor.
bool IsWrappedNumber(const at::Tensor& tensor);
// Returns the value of a wrapped number.
ScalarOutput WrappedNumberOf(const at::Tensor& wrapped);

// Returns the identity of the tensor's storage.
const void* StorageAddress(const at::Tensor& tensor);

// Returns the real tensor inside a proxy; any other tensor is real itself.
at::Tensor RealTensorOf(const at::Tensor& proxy);
// Returns the proxy inside a functional tensor, with all mutations; a captured tensor itself.
at::Tensor SyncedProxyOf(const at::Tensor& tensor);
// Returns the real tensor of the whole storage of a functional tensor, with all mutations.
at::Tensor StorageRootOf(const at::Tensor& tensor);
// Returns a real tensor with the geometry that the caller sees of `tensor`.
at::Tensor RealWithGeometryOf(const at::Tensor& tensor);

// Returns the ViewMeta chain from the base of the storage of a functional tensor to the tensor.
ViewMetas ViewMetasOf(const at::Tensor& tensor);

// Returns whether sizes, strides and storage offset are equal.
bool SameGeometry(const at::Tensor& a, const at::Tensor& b);
// Returns dtype, sizes, strides and storage offset of `tensor`, in elements.
TensorGeometry GeometryOf(const at::Tensor& tensor);

}  // namespace cotan::aot

#endif  // COTAN_AOT_AOTAUTOGRAD_FUNCTIONAL_TENSOR_H_
