// SPDX-License-Identifier: Apache-2.0

#include "aot/capture/tensor_data.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <cstring>

namespace cotan::aot {

DType ToDType(at::ScalarType type) {
  switch (type) {
    case at::kBool:
      return DType::kBool;
    case at::kByte:
      return DType::kUInt8;
    case at::kChar:
      return DType::kInt8;
    case at::kShort:
      return DType::kInt16;
    case at::kInt:
      return DType::kInt32;
    case at::kLong:
      return DType::kInt64;
    case at::kHalf:
      return DType::kFloat16;
    case at::kBFloat16:
      return DType::kBFloat16;
    case at::kFloat:
      return DType::kFloat32;
    case at::kDouble:
      return DType::kFloat64;
    case at::kComplexFloat:
      return DType::kComplex64;
    case at::kComplexDouble:
      return DType::kComplex128;
    case at::kFloat8_e4m3fn:
      return DType::kFloat8E4m3fn;
    case at::kFloat8_e5m2:
      return DType::kFloat8E5m2;
    default:
      return DType::kUndefined;
  }
}

at::ScalarType ToScalarType(DType dtype) {
  switch (dtype) {
    case DType::kUndefined:
      return at::ScalarType::Undefined;
    case DType::kBool:
      return at::kBool;
    case DType::kUInt8:
      return at::kByte;
    case DType::kInt8:
      return at::kChar;
    case DType::kInt16:
      return at::kShort;
    case DType::kInt32:
      return at::kInt;
    case DType::kInt64:
      return at::kLong;
    case DType::kFloat16:
      return at::kHalf;
    case DType::kBFloat16:
      return at::kBFloat16;
    case DType::kFloat32:
      return at::kFloat;
    case DType::kFloat64:
      return at::kDouble;
    case DType::kComplex64:
      return at::kComplexFloat;
    case DType::kComplex128:
      return at::kComplexDouble;
    case DType::kFloat8E4m3fn:
      return at::kFloat8_e4m3fn;
    case DType::kFloat8E5m2:
      return at::kFloat8_e5m2;
  }
  return at::ScalarType::Undefined;
}

TensorType TypeOf(const at::Tensor& tensor) {
  TensorType type;
  type.dtype = ToDType(tensor.scalar_type());
  for (int64_t size : tensor.sizes()) type.sizes.push_back(SymInt(size));
  return type;
}

StridedLayout LayoutOf(const at::Tensor& tensor) {
  return {DimVector(tensor.sizes().begin(), tensor.sizes().end()),
          DimVector(tensor.strides().begin(), tensor.strides().end()), tensor.storage_offset()};
}

namespace {

// Returns whether all elements are within the tensor's storage.
bool HasRoomFor(const at::Tensor& tensor) {
  const size_t needed = at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), tensor.dtype().itemsize(),
                                                         static_cast<size_t>(tensor.storage_offset()));
  return tensor.storage().data() != nullptr && tensor.storage().nbytes() >= needed;
}

}  // namespace

TensorData ToTensorData(const at::Tensor& tensor) {
  // A ZeroTensor has no memory.
  if (tensor._is_zerotensor()) return ToTensorData(at::zeros(tensor.sizes(), tensor.options()));
  const bool has_data = tensor.numel() == 0 || (tensor.has_storage() && HasRoomFor(tensor));
  TORCH_CHECK(has_data, "the memory of a tensor of sizes ", tensor.sizes(), " is smaller than the tensor");
  const at::Tensor dense = tensor.detach().contiguous();
  TensorData data;
  data.dtype = ToDType(dense.scalar_type());
  data.sizes.assign(dense.sizes().begin(), dense.sizes().end());
  data.bytes.assign(static_cast<const char*>(dense.const_data_ptr()), dense.nbytes());
  return data;
}

at::Tensor FromTensorData(const TensorData& data) {
  const at::IntArrayRef sizes(data.sizes.data(), data.sizes.size());
  at::Tensor tensor = at::empty(sizes, at::TensorOptions(ToScalarType(data.dtype)));
  if (!data.bytes.empty()) {
    std::memcpy(tensor.mutable_data_ptr(), data.bytes.data(), data.bytes.size());
  }
  return tensor;
}

}  // namespace cotan::aot
