// SPDX-License-Identifier: Apache-2.0

// The plan of an op, ready to run on a device.
#ifndef COTAN_KERNELS_CUDA_DEVICE_CUDA_KERNEL_H_
#define COTAN_KERNELS_CUDA_DEVICE_CUDA_KERNEL_H_

#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/api/kernel.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/launch/kernel_plan.h"

namespace cotan::cuda {

// Queues the steps of a KernelPlan. The device outlives it.
class CudaKernel final : public Kernel {
 public:
  // Loads the functions of the plan's kernels and prepares its library calls. `name` begins messages of errors that
  // data cause.
  // Errors of KernelLibrary::Load() and LibraryCallSpec::Prepare().
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(CudaDevice& device, const KernelPlan& plan,
                                                        absl::string_view name);
  CudaKernel(const CudaKernel&) = delete;
  CudaKernel& operator=(const CudaKernel&) = delete;
  ~CudaKernel() override;

  absl::Status Run(const KernelArgs& args) override;

 private:
  // `addresses` are set by each Run(); `parameters` point to them.
  struct Launch {
    KernelLaunch launch;
    driver::CUfunction function = nullptr;
    // The kernel may begin before the one in front of it has ended, for which it waits itself.
    bool begins_early = false;
    std::vector<driver::CUdeviceptr> addresses = {};
    std::vector<void*> parameters = {};
  };
  struct Call {
    std::unique_ptr<LibraryOperation> operation = nullptr;
    std::vector<KernelArgument> arguments;
    std::vector<void*> addresses = {};
  };
  using Step = std::variant<Launch, MemorySet, MemoryCopy, Call>;

  explicit CudaKernel(CudaDevice& device) : device_(device) {}
  absl::Status Add(const KernelLaunch& launch);
  absl::Status Add(const MemorySet& set);
  absl::Status Add(const MemoryCopy& copy);
  absl::Status Add(const LibraryCall& call);
  absl::Status Queue(Launch& launch, const KernelArgs& args);
  absl::Status Queue(const MemorySet& set, const KernelArgs& args);
  absl::Status Queue(const MemoryCopy& copy, const KernelArgs& args);
  absl::Status Queue(Call& call, const KernelArgs& args);
  driver::CUdeviceptr Resolve(const KernelArgument& argument, const KernelArgs& args) const;

  CudaDevice& device_;
  std::vector<Step> steps_;
  unsigned fault_id_ = 0;  // 0: the op records no errors
};

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_DEVICE_CUDA_KERNEL_H_
