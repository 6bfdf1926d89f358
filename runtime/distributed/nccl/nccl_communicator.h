// SPDX-License-Identifier: Apache-2.0

// The communicator of GPUs over NCCL (docs/distributed.md). Each rank is a process with one GPU. Example, started by
// `mpirun -np 4 --enable-recovery ./train`:
//
//   COTAN_ASSIGN_OR_RETURN(auto mpi, cotan::MpiCommunicator::Create());
//   COTAN_ASSIGN_OR_RETURN(auto gpu, cotan::OpenCudaDevice({.ordinal = mpi->local_rank()}));
//   COTAN_ASSIGN_OR_RETURN(auto communicator, cotan::NcclCommunicator::Create(*mpi, *gpu));
//   COTAN_ASSIGN_OR_RETURN(auto session, cotan::Session::Create(program, {.kernels = &cotan::CudaKernels(),
//                                                                         .device = gpu.get(),
//                                                                         .communicator = communicator.get()}));
#ifndef COTAN_RUNTIME_DISTRIBUTED_NCCL_NCCL_COMMUNICATOR_H_
#define COTAN_RUNTIME_DISTRIBUTED_NCCL_NCCL_COMMUNICATOR_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernels/api/communicator.h"
#include "kernels/api/device.h"
#include "runtime/distributed/collective_checks.h"
#include "runtime/distributed/group_communicator.h"

namespace cotan {

namespace cuda {
class CudaDevice;  // kernels/cuda/device/cuda_device.h
namespace nccl {
struct NcclTable;  // kernels/cuda/nccl/nccl_table.h
}  // namespace nccl
}  // namespace cuda

class NcclExchange;
class NcclGroup;

struct NcclOptions {
  // How long a call waits for work in which the other ranks take part.
  absl::Duration timeout = absl::Minutes(10);
  // How long such a call waits after another rank has left. That one took part in all that it was needed for, unless
  // the ranks call different methods.
  absl::Duration leave_time = absl::Seconds(30);
};

// The ranks of another communicator, `control`, which compares their programs and knows who has ended; data is sent by
// NCCL, within the work of the GPUs. Collectives are queued like all work: they are part of a recorded step, and errors
// come from the call that waits for the device. After an Unavailable error no call reads memory of the device any more,
// also when the communicator is gone, and no call queues collectives.
class NcclCommunicator final : public Communicator {
 public:
  // Loads libnccl.so.2 and waits for all ranks. The arguments outlive the result, which outlives the sessions that use
  // it. A device has one communicator at a time.
  // InvalidArgument: `device` is not a CUDA device.
  // Unavailable: a rank has no NCCL, or has ended; the message names it.
  // FailedPrecondition: the ranks have different versions of NCCL, or the device has a communicator.
  // Internal: NCCL failed.
  static absl::StatusOr<std::unique_ptr<NcclCommunicator>> Create(GroupCommunicator& control, Device& device,
                                                                  const NcclOptions& options = {});
  // The same with the functions of a library; an error instead of them is that of loading it.
  static absl::StatusOr<std::unique_ptr<NcclCommunicator>> Create(
      GroupCommunicator& control, Device& device, const absl::StatusOr<const cuda::nccl::NcclTable*>& table,
      const NcclOptions& options = {});
  ~NcclCommunicator() override;

  int rank() const override;
  int size() const override;
  absl::Status CheckProgram(const serialization::Artifact& artifact, const Device& device) override;
  absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelRequest& request) override;

 private:
  NcclCommunicator(GroupCommunicator& control, cuda::CudaDevice& device, std::unique_ptr<NcclGroup> group);
  absl::Status CheckDevice(const Device* device) const;
  absl::StatusOr<std::unique_ptr<Kernel>> PrepareExchange(const KernelRequest& request);
  absl::StatusOr<std::unique_ptr<Kernel>> PrepareWait(const KernelRequest& request);

  GroupCommunicator& control_;
  cuda::CudaDevice& device_;
  const std::unique_ptr<NcclGroup> group_;
  UnpairedExchanges<NcclExchange> unpaired_;
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_DISTRIBUTED_NCCL_NCCL_COMMUNICATOR_H_
