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
  // data cause. `requests` are those of the plan, with its inputs and outputs in order; without any, the kernel is
  // taken to access all memory. Errors of KernelLibrary::Load() and LibraryCallSpec::Prepare().
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(CudaDevice& device, const KernelPlan& plan,
                                                        absl::string_view name,
                                                        absl::Span<const KernelRequest> requests = {});
  CudaKernel(const CudaKernel&) = delete;
  CudaKernel& operator=(const CudaKernel&) = delete;
  // Waits for queued work if the plan records errors, or has calls with LibraryOperation::owns_code().
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

  // The bytes of an operand, counted from its address.
  struct Extent {
    int64_t begin = 0;
    int64_t end = 0;
  };

  explicit CudaKernel(CudaDevice& device) : device_(device) {}
  static Extent ExtentOf(const TensorSpec& spec);
  // Returns what the kernel accesses.
  MemoryAccess AccessOf(const KernelArgs& args) const;
  absl::Status QueueSteps(const KernelArgs& args);
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
  bool knows_operands_ = false;
  std::vector<Extent> inputs_;
  std::vector<Extent> outputs_;
  std::vector<MemoryRange> variables_;  // of modules
  bool reads_record_ = false;           // the ErrorRecord
  bool next_may_begin_early_ = true;    // the next launch comes after one other at most
};

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_DEVICE_CUDA_KERNEL_H_
