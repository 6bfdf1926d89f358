// SPDX-License-Identifier: Apache-2.0

#include "runtime/distributed/nccl/nccl_exchange.h"

#include <algorithm>
#include <array>

#include "base/dtype.h"
#include "base/status_macros.h"
#include "kernels/cuda/collective/collective_plan.h"
#include "kernels/cuda/device/cuda_kernel.h"
#include "kernels/cuda/driver/driver_table.h"

namespace cotan {
namespace {

TensorSpec Vector(DType dtype, int64_t elements) { return {dtype, {{elements}, {1}, 0}}; }

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceBlock>> DeviceBlock::Zeros(cuda::CudaDevice& device, size_t bytes) {
  const size_t size = std::max<size_t>(bytes, 1);
  COTAN_ASSIGN_OR_RETURN(void* const address, device.Allocate(size));
  std::unique_ptr<DeviceBlock> block(new DeviceBlock(device, address, size));
  COTAN_RETURN_IF_ERROR(device.Activate());
  device.NoteWork(/*is_kernel=*/false);
  COTAN_CUDA_DRIVER_RETURN_IF_ERROR(
      device.driver(), cuMemsetD8Async(reinterpret_cast<cuda::driver::CUdeviceptr>(address), 0, size, device.stream()));
  return block;
}

cuda::MemoryRange DeviceBlock::range() const {
  const auto begin = reinterpret_cast<uint64_t>(address_);
  return {begin, begin + bytes_};
}

absl::StatusOr<std::unique_ptr<NcclExchange>> NcclExchange::Create(NcclGroup& group, cuda::CudaDevice& device,
                                                                   const ExchangeSpec& spec,
                                                                   const KernelRequest& request) {
  std::unique_ptr<NcclExchange> exchange(new NcclExchange(group, device, spec));
  COTAN_RETURN_IF_ERROR(exchange->AllocateBuffers());
  COTAN_RETURN_IF_ERROR(exchange->PrepareKernels(request));
  return exchange;
}

absl::Status NcclExchange::AllocateBuffers() {
  const size_t bytes = spec_.shard_bytes() * static_cast<size_t>(group_.size());
  COTAN_ASSIGN_OR_RETURN(bucket_, DeviceBlock::Zeros(device_, bytes));
  if (spec_.kind == ExchangeSpec::Kind::kAllGather) return absl::OkStatus();
  COTAN_ASSIGN_OR_RETURN(received_, DeviceBlock::Zeros(device_, bytes));
  COTAN_ASSIGN_OR_RETURN(marks_, DeviceBlock::Zeros(device_, static_cast<size_t>(group_.size()) * 2 * sizeof(int32_t)));
  const std::array<int64_t, 4> numbers = {group_.size(), group_.rank(), spec_.shard_elements, spec_.op};
  COTAN_ASSIGN_OR_RETURN(numbers_, DeviceBlock::Zeros(device_, sizeof(numbers)));
  return device_.CopyFromHost(numbers_->address(), numbers.data(), sizeof(numbers));
}

absl::Status NcclExchange::PrepareKernels(const KernelRequest& request) {
  const bool gathers = spec_.kind == ExchangeSpec::Kind::kAllGather;
  const TensorSpec bucket = Vector(spec_.dtype, gathers ? spec_.shard_elements : bucket_elements());
  const TensorSpec marks = Vector(DType::kInt32, 2 * group_.size());
  const TensorSpec numbers = Vector(DType::kInt64, 4);
  const auto prepare = [&](const auto& plan, absl::Span<const TensorSpec> inputs,
                           const TensorSpec& output) -> absl::StatusOr<std::unique_ptr<Kernel>> {
    COTAN_RETURN_IF_ERROR(plan.status());
    const KernelRequest own = {.op = request.op, .inputs = inputs, .outputs = {&output, 1}, .symbols = {}};
    return cuda::CudaKernel::Create(device_, *plan, request.name, {&own, 1});
  };
  COTAN_ASSIGN_OR_RETURN(pack_, prepare(cuda::PlanPack(request.inputs), request.inputs, bucket));
  if (gathers) return absl::OkStatus();
  COTAN_ASSIGN_OR_RETURN(mark_, prepare(cuda::PlanMark(), {&numbers, 1}, marks));
  const std::array<TensorSpec, 3> summed = {bucket, marks, numbers};
  COTAN_ASSIGN_OR_RETURN(sum_, prepare(cuda::PlanSum(spec_.dtype, spec_.mean, spec_.shard_elements), summed, bucket));
  return absl::OkStatus();
}

absl::Status NcclExchange::Start(void* const* inputs) {
  if (is_started_) {
    return absl::FailedPreconditionError(
        "an earlier call failed between the start of a collective and its end, so that the ranks no longer run the "
        "same collectives: end all ranks and restart them from a checkpoint");
  }
  COTAN_RETURN_IF_ERROR(QueueAll(inputs));
  is_started_ = true;
  return absl::OkStatus();
}

absl::Status NcclExchange::QueueAll(void* const* inputs) {
  const bool gathers = spec_.kind == ExchangeSpec::Kind::kAllGather;
  void* const target = gathers ? own_shard() : bucket_->address();
  COTAN_RETURN_IF_ERROR(pack_->Run({.inputs = inputs, .outputs = &target}));
  if (!gathers) COTAN_RETURN_IF_ERROR(ReduceShards());
  if (spec_.kind == ExchangeSpec::Kind::kReduceScatter) return absl::OkStatus();
  return GatherShards();
}

absl::Status NcclExchange::ReduceShards() {
  void* const numbers = numbers_->address();
  void* const marks = marks_->address();
  COTAN_RETURN_IF_ERROR(mark_->Run({.inputs = &numbers, .outputs = &marks}));
  COTAN_RETURN_IF_ERROR(device_.Activate());
  COTAN_RETURN_IF_ERROR(device_.QueuePiece(
      {.reads = {bucket_->range()}, .writes = {received_->range(), marks_->range(), order()}}, [this](bool) {
        device_.NoteWork(/*is_kernel=*/false);
        return group_.ScatterShards(spec_, bucket_->address(), received_->address(),
                                    reinterpret_cast<int32_t*>(marks_->address()));
      }));
  void* const summed[] = {received_->address(), marks, numbers};
  void* const bucket = bucket_->address();
  return sum_->Run({.inputs = summed, .outputs = &bucket});
}

absl::Status NcclExchange::GatherShards() {
  COTAN_RETURN_IF_ERROR(device_.Activate());
  return device_.QueuePiece({.reads = {}, .writes = {bucket_->range(), order()}}, [this](bool) {
    device_.NoteWork(/*is_kernel=*/false);
    return group_.GatherShards(spec_, bucket_->address());
  });
}

absl::StatusOr<std::unique_ptr<Kernel>> NcclExchange::NewUnpackKernel(const KernelRequest& request) const {
  const bool is_shard = spec_.kind == ExchangeSpec::Kind::kReduceScatter;
  const TensorSpec result = Vector(spec_.dtype, is_shard ? spec_.shard_elements : bucket_elements());
  COTAN_ASSIGN_OR_RETURN(const auto plan, cuda::PlanUnpack(request.outputs, request.guarded_outputs));
  const KernelRequest own = {.op = request.op, .inputs = {&result, 1}, .outputs = request.outputs, .symbols = {}};
  return cuda::CudaKernel::Create(device_, plan, request.name, {&own, 1});
}

void* NcclExchange::TakeResult() {
  is_started_ = false;
  return spec_.kind == ExchangeSpec::Kind::kReduceScatter ? own_shard() : bucket_->address();
}

void* NcclExchange::own_shard() const {
  return bucket_->address() + static_cast<size_t>(group_.rank()) * spec_.shard_bytes();
}

cuda::MemoryRange NcclExchange::order() const {
  const auto begin = reinterpret_cast<uint64_t>(&group_);
  return {begin, begin + 1};
}

}  // namespace cotan
