// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/cudnn/host_array.h"

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "base/half.h"
#include "base/status_macros.h"

namespace cotan::cuda::sim {
namespace {

using namespace cudnn;  // NOLINT(google-build-using-namespace): the vendor's names

template <typename T>
T As(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

double Decode(DType dtype, const std::byte* from) {
  switch (dtype) {
    case DType::kFloat16:
      return Float16ToFloat(As<uint16_t>(from));
    case DType::kBFloat16:
      return BFloat16ToFloat(As<uint16_t>(from));
    case DType::kFloat64:
      return As<double>(from);
    default:
      return As<float>(from);
  }
}

void Encode(DType dtype, double value, std::byte* to) {
  const auto single = static_cast<float>(value);
  const uint16_t half = dtype == DType::kFloat16 ? FloatToFloat16(single) : FloatToBFloat16(single);
  switch (dtype) {
    case DType::kFloat16:
    case DType::kBFloat16:
      std::memcpy(to, &half, sizeof(half));
      break;
    case DType::kFloat64:
      std::memcpy(to, &value, sizeof(value));
      break;
    default:
      std::memcpy(to, &single, sizeof(single));
  }
}

// Calls fn(byte offset in the tensor) for each element, in row-major order.
template <typename Fn>
absl::Status ForEachElement(const TensorInfo& tensor, Fn fn) {
  const StridedLayout& layout = tensor.layout;
  DimVector index(layout.sizes.size(), 0);
  const auto size = static_cast<int64_t>(ByteSize(tensor.dtype));
  const int64_t count = NumElements(layout.sizes);
  for (int64_t i = 0; i < count; ++i) {
    int64_t offset = 0;
    for (size_t d = 0; d < index.size(); ++d) offset += index[d] * layout.strides[d];
    COTAN_RETURN_IF_ERROR(fn(static_cast<uint64_t>(offset * size)));
    for (size_t d = index.size(); d-- > 0;) {
      if (++index[d] < layout.sizes[d]) break;
      index[d] = 0;
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<DType> ToDType(cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_FLOAT:
      return DType::kFloat32;
    case CUDNN_DATA_DOUBLE:
      return DType::kFloat64;
    case CUDNN_DATA_HALF:
      return DType::kFloat16;
    case CUDNN_DATA_BFLOAT16:
      return DType::kBFloat16;
    case CUDNN_DATA_INT32:
      return DType::kInt32;
    case CUDNN_DATA_BOOLEAN:
      return DType::kBool;
  }
  return absl::UnimplementedError(absl::StrCat("the simulator has no cuDNN data type ", type));
}

absl::StatusOr<TensorInfo> ReadTensor(const LoggedDescriptor& operation, cudnnBackendAttributeName_t name) {
  COTAN_ASSIGN_OR_RETURN(const std::shared_ptr<const LoggedDescriptor> tensor, operation.Descriptor(name));
  TensorInfo info;
  COTAN_ASSIGN_OR_RETURN(info.id, SingleValue<int64_t>(*tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID));
  COTAN_ASSIGN_OR_RETURN(info.alignment, SingleValue<int64_t>(*tensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT));
  COTAN_ASSIGN_OR_RETURN(const auto type, SingleValue<cudnnDataType_t>(*tensor, CUDNN_ATTR_TENSOR_DATA_TYPE));
  COTAN_ASSIGN_OR_RETURN(info.dtype, ToDType(type));
  COTAN_ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, tensor->Values<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS));
  COTAN_ASSIGN_OR_RETURN(const std::vector<int64_t> strides, tensor->Values<int64_t>(CUDNN_ATTR_TENSOR_STRIDES));
  info.layout.sizes.assign(sizes.begin(), sizes.end());
  info.layout.strides.assign(strides.begin(), strides.end());
  info.is_virtual = tensor->Find(CUDNN_ATTR_TENSOR_IS_VIRTUAL).ok();
  info.is_by_value = tensor->Find(CUDNN_ATTR_TENSOR_IS_BY_VALUE).ok();
  return info;
}

double RoundTo(DType dtype, double value) {
  switch (dtype) {
    case DType::kFloat32:
      return static_cast<float>(value);
    case DType::kFloat16:
      return Float16ToFloat(FloatToFloat16(static_cast<float>(value)));
    case DType::kBFloat16:
      return BFloat16ToFloat(FloatToBFloat16(static_cast<float>(value)));
    default:
      return value;  // f64, and integers and bools, whose values are integers
  }
}

double RoundToTf32(double value) {
  if (!std::isfinite(value)) return value;
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  return std::bit_cast<float>((bits + 0x1000U) & ~0x1fffU);
}

absl::StatusOr<HostArray> LoadArray(const TensorInfo& tensor, uint64_t address, const DeviceMemory& memory) {
  HostArray array = {tensor.layout.sizes, {}};
  array.values.reserve(static_cast<size_t>(NumElements(array.sizes)));
  const std::byte* dense = nullptr;
  if (IsDenseNonOverlapping(tensor.layout)) {
    COTAN_ASSIGN_OR_RETURN(dense, memory.ViewForRead(address, static_cast<uint64_t>(tensor.Bytes())));
  }
  std::byte element[sizeof(double)];
  COTAN_RETURN_IF_ERROR(ForEachElement(tensor, [&](uint64_t offset) -> absl::Status {
    if (dense == nullptr) {
      COTAN_RETURN_IF_ERROR(memory.Read(address + offset, absl::MakeSpan(element).first(ByteSize(tensor.dtype))));
    }
    array.values.push_back(Decode(tensor.dtype, dense == nullptr ? element : dense + offset));
    return absl::OkStatus();
  }));
  return array;
}

absl::Status StoreArray(const TensorInfo& tensor, uint64_t address, const HostArray& array, DeviceMemory& memory) {
  std::byte* dense = nullptr;
  if (IsDenseNonOverlapping(tensor.layout)) {
    COTAN_ASSIGN_OR_RETURN(dense, memory.ViewForWrite(address, static_cast<uint64_t>(tensor.Bytes())));
  }
  size_t i = 0;
  return ForEachElement(tensor, [&](uint64_t offset) -> absl::Status {
    std::byte element[sizeof(double)];
    Encode(tensor.dtype, array.values[i++], dense == nullptr ? element : dense + offset);
    if (dense != nullptr) return absl::OkStatus();
    return memory.Write(address + offset, absl::MakeConstSpan(element).first(ByteSize(tensor.dtype)));
  });
}

HostArray LoadValue(const TensorInfo& tensor, uint64_t host_address) {
  const auto* value = reinterpret_cast<const std::byte*>(host_address);  // NOLINT(performance-no-int-to-ptr)
  return {tensor.layout.sizes, {Decode(tensor.dtype, value)}};
}

}  // namespace cotan::cuda::sim
