// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/convolution/sim_plan_runner.h"

#include <cstdlib>
#include <iostream>
#include <utility>
#include <variant>

#include "base/status_macros.h"
#include "kernels/cuda/nvrtc/nvrtc_table.h"
#include "kernels/cuda/source/device_library.h"

namespace cotan::cuda::testing {
namespace {

using cotan::testing::HostTensor;

constexpr size_t kErrorRecordBytes = 24;
constexpr unsigned kFaultId = 7;

void Require(const absl::Status& status) {
  if (status.ok()) return;
  std::cerr << "no simulated GPU: " << status << std::endl;
  std::abort();
}

}  // namespace

SimPlanRunner::SimPlanRunner(bool tf32) {
  sim::SimGpu::Options options;
  options.check_unwritten_copies = false;
  options.on_violation = [this](absl::string_view text) { violation_ = std::string(text); };
  gpu_ = std::make_unique<sim::SimGpu>(std::move(options));
  const driver::DriverTable& cu = driver();
  driver::CUcontext context = nullptr;
  Require(cu.ToStatus(cu.cuInit(0), "cuInit"));
  Require(cu.ToStatus(cu.cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain"));
  Require(cu.ToStatus(cu.cuCtxSetCurrent(context), "cuCtxSetCurrent"));
  Require(cu.ToStatus(cu.cuStreamCreate(&stream_, driver::CU_STREAM_NON_BLOCKING), "cuStreamCreate"));
  absl::StatusOr<std::unique_ptr<sim::SimCudnn>> sim_cudnn =
      sim::SimCudnn::Create([this](driver::CUstream stream, absl::string_view label, auto function) {
        return gpu_->EnqueueHostFunction(stream, label, std::move(function));
      });
  Require(sim_cudnn.status());
  sim_cudnn_ = *std::move(sim_cudnn);
  absl::StatusOr<std::unique_ptr<Cudnn>> cudnn = Cudnn::Create(sim_cudnn_->table(), cu, stream_, tf32);
  Require(cudnn.status());
  cudnn_ = *std::move(cudnn);
}

SimPlanRunner::~SimPlanRunner() {
  cudnn_.reset();
  if (sim_cudnn_->num_live_objects() != 0) violation_ += "descriptors of cuDNN leak";
  for (const auto& [text, module] : modules_) driver().cuModuleUnload(module);
  driver().cuStreamDestroy_v2(stream_);
  driver().cuDevicePrimaryCtxRelease_v2(0);
  gpu_.reset();
  if (violation_.empty() || is_violation_expected_) return;
  std::cerr << violation_ << std::endl;
  std::abort();
}

absl::StatusOr<driver::CUdeviceptr> SimPlanRunner::Allocate(size_t bytes) {
  driver::CUdeviceptr address = 0;
  if (bytes == 0) return address;
  COTAN_CUDA_DRIVER_RETURN_IF_ERROR(driver(), cuMemAlloc_v2(&address, bytes));
  allocations_.push_back(address);
  return address;
}

absl::Status SimPlanRunner::Launch(const KernelLaunch& launch, absl::Span<const uint64_t> arguments) {
  const driver::DriverTable& cu = driver();
  driver::CUmodule& module = modules_[launch.source.text];
  if (module == nullptr) {
    COTAN_ASSIGN_OR_RETURN(const std::string text, ExpandIncludes(launch.source.text));
    COTAN_ASSIGN_OR_RETURN(const std::string ptx, nvrtc::Compile(text, {nvrtc::ImageKind::kPtx, 90}));
    COTAN_CUDA_DRIVER_RETURN_IF_ERROR(cu, cuModuleLoadData(&module, ptx.c_str()));
  }
  driver::CUfunction function = nullptr;
  COTAN_CUDA_DRIVER_RETURN_IF_ERROR(cu, cuModuleGetFunction(&function, module, launch.source.entry.c_str()));
  std::vector<void*> parameters;
  for (const uint64_t& argument : arguments) parameters.push_back(const_cast<uint64_t*>(&argument));
  const driver::CUlaunchConfig config = {.gridDimX = launch.grid[0],
                                         .gridDimY = launch.grid[1],
                                         .gridDimZ = launch.grid[2],
                                         .blockDimX = launch.block[0],
                                         .blockDimY = launch.block[1],
                                         .blockDimZ = launch.block[2],
                                         .sharedMemBytes = launch.dynamic_shared_bytes,
                                         .hStream = stream_,
                                         .attrs = nullptr,
                                         .numAttrs = 0};
  return cu.ToStatus(cu.cuLaunchKernelEx(&config, function, parameters.data(), nullptr), "cuLaunchKernelEx");
}

absl::Status SimPlanRunner::RunSteps(const KernelPlan& plan, absl::Span<const uint64_t> inputs,
                                     absl::Span<const uint64_t> outputs, uint64_t record) {
  COTAN_ASSIGN_OR_RETURN(const uint64_t scratch, Allocate(plan.scratch_bytes));
  const auto resolve = [&](const KernelArgument& argument) -> uint64_t {
    const auto offset = static_cast<uint64_t>(argument.offset);
    switch (argument.kind) {
      case KernelArgument::Kind::kInput:
        return inputs[static_cast<size_t>(argument.index)] + offset;
      case KernelArgument::Kind::kOutput:
        return outputs[static_cast<size_t>(argument.index)] + offset;
      case KernelArgument::Kind::kScratch:
        return scratch + offset;
      case KernelArgument::Kind::kErrorRecord:
        return record;
      case KernelArgument::Kind::kFaultId:
        return kFaultId;
    }
    return 0;
  };
  std::vector<std::unique_ptr<LibraryOperation>> operations;
  for (const PlanStep& step : plan.steps) {
    std::vector<uint64_t> values;
    if (const auto* launch = std::get_if<KernelLaunch>(&step)) {
      for (const KernelArgument& argument : launch->arguments) values.push_back(resolve(argument));
      COTAN_RETURN_IF_ERROR(Launch(*launch, values));
    } else if (const auto* call = std::get_if<LibraryCall>(&step)) {
      COTAN_ASSIGN_OR_RETURN(std::unique_ptr<LibraryOperation> operation, call->spec->Prepare(*this));
      std::vector<void*> pointers;
      for (const KernelArgument& argument : call->arguments) {
        pointers.push_back(reinterpret_cast<void*>(resolve(argument)));  // NOLINT(performance-no-int-to-ptr)
      }
      COTAN_RETURN_IF_ERROR(operation->Enqueue(pointers));
      operations.push_back(std::move(operation));
    } else {
      return absl::UnimplementedError("plans of convolutions and attention have launches and calls only");
    }
  }
  COTAN_CUDA_DRIVER_RETURN_IF_ERROR(driver(), cuStreamSynchronize(stream_));
  return absl::OkStatus();
}

absl::Status SimPlanRunner::Run(const KernelPlan& plan, absl::Span<HostTensor* const> inputs,
                                absl::Span<HostTensor* const> outputs, const Options& options) {
  const driver::DriverTable& cu = driver();
  const auto shift = static_cast<size_t>(options.shift_bytes);
  const auto run = [&]() -> absl::Status {
    std::vector<uint64_t> addresses;
    for (const HostTensor* input : inputs) {
      const size_t bytes = input->bytes().size() - static_cast<size_t>(options.missing_input_bytes);
      COTAN_ASSIGN_OR_RETURN(const uint64_t address, Allocate(bytes + shift));
      if (bytes > 0) {
        COTAN_CUDA_DRIVER_RETURN_IF_ERROR(cu, cuMemcpyHtoD_v2(address + shift, input->bytes().data(), bytes));
      }
      addresses.push_back(address + shift);
    }
    std::vector<uint64_t> results;
    for (const HostTensor* output : outputs) {
      COTAN_ASSIGN_OR_RETURN(const uint64_t result, Allocate(output->bytes().size() + shift));
      results.push_back(result + shift);
    }
    COTAN_ASSIGN_OR_RETURN(const uint64_t record, Allocate(kErrorRecordBytes));
    std::vector<char> error(kErrorRecordBytes);
    error[0] = options.failed_before ? 1 : 0;
    COTAN_CUDA_DRIVER_RETURN_IF_ERROR(cu, cuMemcpyHtoD_v2(record, error.data(), error.size()));
    COTAN_RETURN_IF_ERROR(RunSteps(plan, addresses, results, record));
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i]->bytes().empty()) continue;
      COTAN_CUDA_DRIVER_RETURN_IF_ERROR(cu,
                                        cuMemcpyDtoH_v2(outputs[i]->data(), results[i], outputs[i]->bytes().size()));
    }
    return absl::OkStatus();
  };
  const absl::Status status = run();
  // After an error of queued work this and what follows fail, too.
  cu.cuStreamSynchronize(stream_);
  for (const driver::CUdeviceptr address : allocations_) cu.cuMemFree_v2(address);
  allocations_.clear();
  return status;
}

}  // namespace cotan::cuda::testing
