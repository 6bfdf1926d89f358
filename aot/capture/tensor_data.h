// Between LibTorch's tensors and the compiler's.
#ifndef COTAN_AOT_CAPTURE_TENSOR_DATA_H_
#define COTAN_AOT_CAPTURE_TENSOR_DATA_H_

#include <ATen/core/Tensor.h>

#include "aot/capture/traced_program.h"
#include "aot/ir/graph.h"
#include "base/dtype.h"
#include "base/layout.h"

namespace cotan::aot {

// kUndefined for types that Cotan does not have (quantized, float8, ...).
DType ToDType(at::ScalarType type);
// The inverse; `dtype` is not kUndefined.
at::ScalarType ToScalarType(DType dtype);

// Dtype and sizes of a tensor.
TensorType TypeOf(const at::Tensor& tensor);

// Sizes, strides and offset within its storage, in elements.
StridedLayout LayoutOf(const at::Tensor& tensor);

// A copy of the elements of a real CPU tensor with a dtype that Cotan has.
TensorData ToTensorData(const at::Tensor& tensor);
// A contiguous tensor with a copy of `data`.
at::Tensor FromTensorData(const TensorData& data);

}  // namespace cotan::aot

#endif  // COTAN_AOT_CAPTURE_TENSOR_DATA_H_
