// SPDX-License-Identifier: Apache-2.0

#include "runtime/distributed/nccl/nccl_communicator.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "kernels/cuda/collective/collective_plan.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/device/cuda_kernel.h"
#include "kernels/cuda/nccl/nccl_table.h"
#include "runtime/distributed/nccl/nccl_exchange.h"
#include "runtime/distributed/nccl/nccl_group.h"

namespace cotan {
namespace {

using serialization::Collective;

// Queues a collective up to its result.
class StartKernel final : public Kernel {
 public:
  explicit StartKernel(std::shared_ptr<NcclExchange> exchange) : exchange_(std::move(exchange)) {}

  absl::Status Run(const KernelArgs& args) override { return exchange_->Start(args.inputs); }

 private:
  const std::shared_ptr<NcclExchange> exchange_;
};

// Copies the result of a collective that was started. The device waits, not the host.
class WaitKernel final : public Kernel {
 public:
  WaitKernel(std::shared_ptr<NcclExchange> exchange, std::unique_ptr<Kernel> unpack)
      : exchange_(std::move(exchange)), unpack_(std::move(unpack)) {}

  absl::Status Run(const KernelArgs& args) override {
    void* const result = exchange_->TakeResult();
    return unpack_->Run({.inputs = &result, .outputs = args.outputs});
  }

 private:
  const std::shared_ptr<NcclExchange> exchange_;
  const std::unique_ptr<Kernel> unpack_;
};

// A whole collective.
class ExchangeKernel final : public Kernel {
 public:
  ExchangeKernel(const std::shared_ptr<NcclExchange>& exchange, std::unique_ptr<Kernel> unpack)
      : start_(exchange), wait_(exchange, std::move(unpack)) {}

  absl::Status Run(const KernelArgs& args) override {
    COTAN_RETURN_IF_ERROR(start_.Run(args));
    return wait_.Run(args);
  }

 private:
  StartKernel start_;
  WaitKernel wait_;
};

bool HasCollectives(const serialization::Artifact& artifact) {
  return std::any_of(artifact.methods().begin(), artifact.methods().end(), [](const serialization::Method& method) {
    return std::any_of(method.ops().begin(), method.ops().end(),
                       [](const serialization::Op& op) { return op.has_collective(); });
  });
}

}  // namespace

absl::StatusOr<std::unique_ptr<NcclCommunicator>> NcclCommunicator::Create(GroupCommunicator& control, Device& device,
                                                                           const NcclOptions& options) {
  return Create(control, device, cuda::nccl::NcclTable::Get(), options);
}

absl::StatusOr<std::unique_ptr<NcclCommunicator>> NcclCommunicator::Create(
    GroupCommunicator& control, Device& device, const absl::StatusOr<const cuda::nccl::NcclTable*>& table,
    const NcclOptions& options) {
  COTAN_ASSIGN_OR_RETURN(cuda::CudaDevice* const gpu, cuda::AsCudaDevice(&device));
  COTAN_ASSIGN_OR_RETURN(std::unique_ptr<NcclGroup> group,
                         NcclGroup::Join(table, control, *gpu, {options.timeout, options.leave_time}));
  return std::unique_ptr<NcclCommunicator>(new NcclCommunicator(control, *gpu, std::move(group)));
}

NcclCommunicator::NcclCommunicator(GroupCommunicator& control, cuda::CudaDevice& device,
                                   std::unique_ptr<NcclGroup> group)
    : control_(control), device_(device), group_(std::move(group)) {}

NcclCommunicator::~NcclCommunicator() = default;

int NcclCommunicator::rank() const { return group_->rank(); }
int NcclCommunicator::size() const { return group_->size(); }

absl::Status NcclCommunicator::CheckProgram(const serialization::Artifact& artifact, const Device& device) {
  // Not for that device: what the ranks have is compared, wherever it runs.
  COTAN_RETURN_IF_ERROR(control_.CheckProgram(artifact, HostDevice()));
  return HasCollectives(artifact) ? CheckDevice(&device) : absl::OkStatus();
}

absl::Status NcclCommunicator::CheckDevice(const Device* device) const {
  if (device == &device_) return absl::OkStatus();
  return absl::UnimplementedError(
      "collectives run on the device of the NcclCommunicator, which is not SessionOptions.device: create the session "
      "on that device");
}

absl::StatusOr<std::unique_ptr<Kernel>> NcclCommunicator::Prepare(const KernelRequest& request) {
  const Collective& op = request.op.collective();
  COTAN_RETURN_IF_ERROR(CheckDevice(request.device));
  COTAN_RETURN_IF_ERROR(CheckRanks(op, size()));
  if (op.function() == Collective::WAIT) return PrepareWait(request);
  if (op.function() != Collective::SHARD) return PrepareExchange(request);
  COTAN_ASSIGN_OR_RETURN(const int64_t elements, CheckShard(request, size()));
  COTAN_ASSIGN_OR_RETURN(const auto plan, cuda::PlanShard(request, rank() * elements));
  return cuda::CudaKernel::Create(device_, plan, request.name, {&request, 1});
}

absl::StatusOr<std::unique_ptr<Kernel>> NcclCommunicator::PrepareExchange(const KernelRequest& request) {
  COTAN_ASSIGN_OR_RETURN(const ExchangeSpec spec, CheckExchange(request, size()));
  COTAN_ASSIGN_OR_RETURN(std::shared_ptr<NcclExchange> exchange, NcclExchange::Create(*group_, device_, spec, request));
  if (request.op.collective().starts()) {
    unpaired_.Add(exchange, spec, request.inputs);
    return std::make_unique<StartKernel>(std::move(exchange));
  }
  COTAN_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> unpack, exchange->NewUnpackKernel(request));
  return std::make_unique<ExchangeKernel>(exchange, std::move(unpack));
}

absl::StatusOr<std::unique_ptr<Kernel>> NcclCommunicator::PrepareWait(const KernelRequest& request) {
  COTAN_ASSIGN_OR_RETURN(std::shared_ptr<NcclExchange> exchange, unpaired_.Take(request, size()));
  COTAN_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> unpack, exchange->NewUnpackKernel(request));
  return std::make_unique<WaitKernel>(std::move(exchange), std::move(unpack));
}

}  // namespace cotan
