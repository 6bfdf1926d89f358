// SPDX-License-Identifier: Apache-2.0

// Single collectives on ranks with simulated GPUs, and their operands.
#ifndef COTAN_RUNTIME_DISTRIBUTED_NCCL_PREPARED_COLLECTIVE_H_
#define COTAN_RUNTIME_DISTRIBUTED_NCCL_PREPARED_COLLECTIVE_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/dtype.h"
#include "kernels/api/kernel.h"
#include "kernels/cuda/device/cuda_device.h"
#include "runtime/distributed/testing/gpu_ranks.h"
#include "serialization/schema/program.pb.h"

namespace cotan::testing {

// Prepares a collective without dynamic dimensions on the communicator of `rank`. `name` is that of its method.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareCollective(GpuRank& rank, const serialization::Op& op,
                                                          const std::vector<TensorSpec>& inputs,
                                                          const std::vector<TensorSpec>& outputs,
                                                          absl::string_view name = "collective");

// Returns the type of a row-major tensor of one dimension.
TensorSpec VectorSpec(DType dtype, int64_t elements);

// Elements in memory of a GPU.
template <typename T>
class DeviceArray {
 public:
  DeviceArray(GpuRank& rank, std::vector<T> elements)
      : device_(rank.device()), bytes_(elements.size() * sizeof(T)), memory_(*device_.Allocate(bytes_)) {
    EXPECT_TRUE(device_.CopyFromHost(memory_, elements.data(), bytes_).ok());
  }
  DeviceArray(DeviceArray&& other) noexcept
      : device_(other.device_), bytes_(other.bytes_), memory_(std::exchange(other.memory_, nullptr)) {}
  ~DeviceArray() { device_.Free(memory_, bytes_); }

  void* memory() const { return memory_; }
  std::vector<T> Get() const {
    std::vector<T> elements(bytes_ / sizeof(T));
    const absl::Status copied = device_.CopyToHost(elements.data(), memory_, bytes_);
    EXPECT_TRUE(copied.ok()) << copied;
    return elements;
  }

 private:
  cuda::CudaDevice& device_;
  const size_t bytes_;
  void* memory_;
};

// An all-reduce of two numbers that is queued, and not waited for.
class QueuedReduce {
 public:
  explicit QueuedReduce(GpuRank& rank, absl::string_view name = "collective");
  absl::Status Run();

 private:
  DeviceArray<float> array_;
  void* const memory_;
  std::unique_ptr<Kernel> kernel_;
};

}  // namespace cotan::testing

#endif  // COTAN_RUNTIME_DISTRIBUTED_NCCL_PREPARED_COLLECTIVE_H_
