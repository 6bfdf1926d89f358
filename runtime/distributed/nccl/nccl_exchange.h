// SPDX-License-Identifier: Apache-2.0

// The buffers of a collective on a GPU, and its kernels.
#ifndef COTAN_RUNTIME_DISTRIBUTED_NCCL_NCCL_EXCHANGE_H_
#define COTAN_RUNTIME_DISTRIBUTED_NCCL_NCCL_EXCHANGE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/api/kernel.h"
#include "kernels/cuda/device/cuda_device.h"
#include "runtime/distributed/exchange.h"
#include "runtime/distributed/nccl/nccl_group.h"

namespace cotan {

// Memory of a device that belongs to the object. The device outlives it.
class DeviceBlock {
 public:
  // Allocates `bytes` bytes and sets them to 0. ResourceExhausted: the device has not enough memory.
  static absl::StatusOr<std::unique_ptr<DeviceBlock>> Zeros(cuda::CudaDevice& device, size_t bytes);
  ~DeviceBlock() { device_.Free(address_, bytes_); }
  DeviceBlock(const DeviceBlock&) = delete;
  DeviceBlock& operator=(const DeviceBlock&) = delete;

  char* address() const { return static_cast<char*>(address_); }
  cuda::MemoryRange range() const;

 private:
  DeviceBlock(cuda::CudaDevice& device, void* address, size_t bytes)
      : device_(device), address_(address), bytes_(bytes) {}

  cuda::CudaDevice& device_;
  void* const address_;
  const size_t bytes_;
};

// An ALL_REDUCE, REDUCE_SCATTER or ALL_GATHER. Sums are formed as those of CPUs are: each rank gets its shard of all
// ranks, adds them in the order of the ranks, and sends the sum to all. The group and its device outlive it.
class NcclExchange {
 public:
  // Prepares the exchange of the inputs of `request`. Errors of CudaKernel::Create() and DeviceBlock::Zeros().
  static absl::StatusOr<std::unique_ptr<NcclExchange>> Create(NcclGroup& group, cuda::CudaDevice& device,
                                                              const ExchangeSpec& spec, const KernelRequest& request);

  // Queues everything up to the result. `inputs` has the address of each.
  // FailedPrecondition: the result of the last run was not taken, since a call failed in between.
  absl::Status Start(void* const* inputs);

  // Returns the kernel that copies the result to the outputs of `request`. The exchange outlives it.
  absl::StatusOr<std::unique_ptr<Kernel>> NewUnpackKernel(const KernelRequest& request) const;
  // Returns where the result begins: the rank's shard of a REDUCE_SCATTER, else the bucket.
  void* TakeResult();

 private:
  NcclExchange(NcclGroup& group, cuda::CudaDevice& device, const ExchangeSpec& spec)
      : group_(group), device_(device), spec_(spec) {}
  absl::Status AllocateBuffers();
  absl::Status PrepareKernels(const KernelRequest& request);
  absl::Status QueueAll(void* const* inputs);
  absl::Status ReduceShards();
  absl::Status GatherShards();
  int64_t bucket_elements() const { return spec_.shard_elements * group_.size(); }
  void* own_shard() const;
  // Returns memory that every transfer of the group is said to write, so that a graph has them in the same order on all
  // ranks.
  cuda::MemoryRange order() const;

  NcclGroup& group_;
  cuda::CudaDevice& device_;
  const ExchangeSpec spec_;
  std::unique_ptr<DeviceBlock> bucket_;
  // Null for an ALL_GATHER:
  std::unique_ptr<DeviceBlock> received_, marks_, numbers_;
  std::unique_ptr<Kernel> mark_, sum_;
  std::unique_ptr<Kernel> pack_;
  bool is_started_ = false;  // the result was not taken yet
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_DISTRIBUTED_NCCL_NCCL_EXCHANGE_H_
