// SPDX-License-Identifier: Apache-2.0

// Tensors of a simulated operation graph in the host's memory.
#ifndef COTAN_KERNELS_CUDA_SIM_CUDNN_HOST_ARRAY_H_
#define COTAN_KERNELS_CUDA_SIM_CUDNN_HOST_ARRAY_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "base/layout.h"
#include "kernels/cuda/sim/cudnn/descriptor_log.h"
#include "kernels/cuda/sim/device_memory.h"

namespace cotan::cuda::sim {

// The content of a tensor descriptor.
struct TensorInfo {
  int64_t id = 0;
  int64_t alignment = 1;  // bytes
  DType dtype = DType::kUndefined;
  StridedLayout layout;
  bool is_virtual = false;
  bool is_by_value = false;

  // Returns the bytes from the address of the tensor to its end.
  int64_t Bytes() const { return StorageExtent(layout) * static_cast<int64_t>(ByteSize(dtype)); }
};

// Reads the tensor descriptor that is an attribute of `operation`.
// FailedPrecondition: it is not set, or not complete. Unimplemented: its data type.
absl::StatusOr<TensorInfo> ReadTensor(const LoggedDescriptor& operation, cudnn::cudnnBackendAttributeName_t name);

// Returns the only element of an attribute. FailedPrecondition: there is another number of elements.
template <typename T>
absl::StatusOr<T> SingleValue(const LoggedDescriptor& descriptor, cudnn::cudnnBackendAttributeName_t name) {
  const absl::StatusOr<std::vector<T>> values = descriptor.Values<T>(name);
  if (!values.ok()) return values.status();
  if (values->size() == 1) return values->front();
  return absl::FailedPreconditionError(absl::StrCat("attribute ", name, " has ", values->size(), " elements"));
}

// Returns the dtype of a cuDNN data type. Unimplemented: the simulator lacks it.
absl::StatusOr<DType> ToDType(cudnn::cudnnDataType_t type);

// The elements of a tensor, row-major. Values of all dtypes are exact in f64.
struct HostArray {
  DimVector sizes;
  std::vector<double> values;
};

// Returns `value` rounded to nearest in `dtype`; f16 and bf16 are rounded from f32.
double RoundTo(DType dtype, double value);
// Returns an f32 value with 10 fraction bits.
double RoundToTf32(double value);

// Read and write the elements of a tensor, without the gaps between them. Writing rounds.
// Errors of DeviceMemory: an element is outside of an allocation, or was never written.
absl::StatusOr<HostArray> LoadArray(const TensorInfo& tensor, uint64_t address, const DeviceMemory& memory);
absl::Status StoreArray(const TensorInfo& tensor, uint64_t address, const HostArray& array, DeviceMemory& memory);
// Reads the single element of a tensor that is passed by value from the host's memory.
HostArray LoadValue(const TensorInfo& tensor, uint64_t host_address);

}  // namespace cotan::cuda::sim

#endif  // COTAN_KERNELS_CUDA_SIM_CUDNN_HOST_ARRAY_H_
