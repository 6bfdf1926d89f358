// SPDX-License-Identifier: Apache-2.0

// Runs plans with calls of cuDNN on a simulated GPU.
#ifndef COTAN_KERNELS_CUDA_CONVOLUTION_SIM_PLAN_RUNNER_H_
#define COTAN_KERNELS_CUDA_CONVOLUTION_SIM_PLAN_RUNNER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/cuda/cudnn/cudnn.h"
#include "kernels/cuda/launch/kernel_plan.h"
#include "kernels/cuda/launch/library_call.h"
#include "kernels/cuda/sim/cudnn/sim_cudnn.h"
#include "kernels/cuda/sim/sim_gpu.h"
#include "kernels/testing/host_tensor.h"

namespace cotan::cuda::testing {

// A simulated GPU with a stream, and cuDNN on it.
class SimPlanRunner final : public VendorLibraries {
 public:
  struct Options {
    bool failed_before = false;       // The error record has an error of an earlier op.
    int64_t missing_input_bytes = 0;  // Each input gets that many bytes less than it needs.
    int64_t shift_bytes = 0;          // Operands begin that many bytes after an aligned address.
  };

  // `tf32` is that of Cudnn::Create().
  explicit SimPlanRunner(bool tf32 = false);
  ~SimPlanRunner() override;

  // Runs `plan` once on copies of the operands, and copies the outputs back. Elements that the plan does not write are
  // 0xff.
  // Errors of Prepare(), and what the simulator finds.
  absl::Status Run(const KernelPlan& plan, absl::Span<cotan::testing::HostTensor* const> inputs,
                   absl::Span<cotan::testing::HostTensor* const> outputs, const Options& options);
  absl::Status Run(const KernelPlan& plan, absl::Span<cotan::testing::HostTensor* const> inputs,
                   cotan::testing::HostTensor& output, const Options& options) {
    cotan::testing::HostTensor* outputs[] = {&output};
    return Run(plan, inputs, outputs, options);
  }
  absl::Status Run(const KernelPlan& plan, absl::Span<cotan::testing::HostTensor* const> inputs,
                   cotan::testing::HostTensor& output) {
    return Run(plan, inputs, output, Options());
  }

  const driver::DriverTable& driver() const override { return gpu_->table(); }
  driver::CUstream stream() const override { return stream_; }
  absl::StatusOr<CublasLt*> cublaslt() override { return absl::UnavailableError("there is no cuBLASLt"); }
  absl::StatusOr<Cudnn*> cudnn() override { return cudnn_.get(); }
  sim::SimCudnn& sim_cudnn() { return *sim_cudnn_; }
  // Lets the GPU end with a violation or leak, which otherwise ends the process.
  void ExpectViolation() { is_violation_expected_ = true; }

 private:
  absl::StatusOr<driver::CUdeviceptr> Allocate(size_t bytes);
  absl::Status Launch(const KernelLaunch& launch, absl::Span<const uint64_t> arguments);
  absl::Status RunSteps(const KernelPlan& plan, absl::Span<const uint64_t> inputs, absl::Span<const uint64_t> outputs,
                        uint64_t record);

  std::string violation_;  // at the end of the GPU
  bool is_violation_expected_ = false;
  std::unique_ptr<sim::SimGpu> gpu_;
  driver::CUstream stream_ = nullptr;
  std::unique_ptr<sim::SimCudnn> sim_cudnn_;
  std::unique_ptr<Cudnn> cudnn_;
  std::vector<driver::CUdeviceptr> allocations_;                // of the current run
  absl::flat_hash_map<std::string, driver::CUmodule> modules_;  // by text
};

}  // namespace cotan::cuda::testing

#endif  // COTAN_KERNELS_CUDA_CONVOLUTION_SIM_PLAN_RUNNER_H_
