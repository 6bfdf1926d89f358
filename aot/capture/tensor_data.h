// SPDX-License-Identifier: Apache-2.0

// Converts between LibTorch's tensors and the compiler's.
#ifndef COTAN_AOT_CAPTURE_TENSOR_DATA_H_
#define COTAN_AOT_CAPTURE_TENSOR_DATA_H_

#include <ATen/core/Tensor.h>

#include "aot/capture/traced_program.h"
#include "aot/ir/graph.h"
#include "base/dtype.h"
#include "base/layout.h"

namespace cotan::aot {

// Returns kUndefined for types that Cotan does not have (quantized, float8 other than e4m3fn and e5m2, ...).
DType ToDType(at::ScalarType type);
// Returns the ScalarType of `dtype`, which must not be kUndefined.
at::ScalarType ToScalarType(DType dtype);

// Returns dtype and sizes of a tensor.
TensorType TypeOf(const at::Tensor& tensor);

// Returns sizes, strides and storage offset, in elements.
StridedLayout LayoutOf(const at::Tensor& tensor);

// Returns a dense copy of a real CPU tensor with a dtype that Cotan has. Throws c10::Error if its storage
// is smaller than its geometry.
TensorData ToTensorData(const at::Tensor& tensor);
// Returns a contiguous tensor with a copy of `data`.
at::Tensor FromTensorData(const TensorData& data);

}  // namespace cotan::aot

#endif  // COTAN_AOT_CAPTURE_TENSOR_DATA_H_
