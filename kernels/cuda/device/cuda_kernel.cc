// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/device/cuda_kernel.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/status_macros.h"

namespace cotan::cuda {
namespace {

// Kernels may use this much shared memory without asking.
constexpr unsigned kDefaultSharedBytes = 48 << 10;

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> CudaKernel::Create(CudaDevice& device, const KernelPlan& plan,
                                                           absl::string_view name,
                                                           absl::Span<const KernelRequest> requests) {
  COTAN_RETURN_IF_ERROR(device.Activate());
  std::unique_ptr<CudaKernel> kernel(new CudaKernel(device));
  for (const PlanStep& step : plan.steps) {
    COTAN_RETURN_IF_ERROR(std::visit([&](const auto& one) { return kernel->Add(one); }, step));
  }
  kernel->scratch_bytes_ = plan.scratch_bytes;
  kernel->knows_operands_ = !requests.empty();
  for (const KernelRequest& request : requests) {
    for (const TensorSpec& input : request.inputs) kernel->inputs_.push_back(ExtentOf(input));
    for (const TensorSpec& output : request.outputs) kernel->outputs_.push_back(ExtentOf(output));
  }
  if (plan.error_at != nullptr) kernel->fault_id_ = device.errors().Add(plan.error_at, name);
  return std::unique_ptr<Kernel>(std::move(kernel));
}

CudaKernel::~CudaKernel() {
  const bool owns_code = std::any_of(steps_.begin(), steps_.end(), [](const Step& step) {
    const auto* call = std::get_if<Call>(&step);
    return call != nullptr && call->operation->owns_code();
  });
  if ((fault_id_ == 0 && !owns_code) || !device_.Activate().ok()) return;
  device_.Block([&] {
    if (owns_code) static_cast<void>(device_.driver().cuStreamSynchronize(device_.stream()));
    if (fault_id_ != 0) device_.errors().Remove(fault_id_);
  });
}

absl::Status CudaKernel::Add(const KernelLaunch& launch) {
  Launch step{.launch = launch};
  COTAN_ASSIGN_OR_RETURN(const LoadedKernel kernel, device_.kernels().Load(launch.source));
  step.function = kernel.function;
  step.begins_early = device_.kernels_begin_early() && kernel.compute_capability >= kFirstToBeginEarly;
  if (!launch.shared_variable.empty()) {
    driver::CUdeviceptr address = 0;
    size_t bytes = 0;
    COTAN_CUDA_DRIVER_RETURN_IF_ERROR(
        device_.driver(), cuModuleGetGlobal_v2(&address, &bytes, kernel.module, launch.shared_variable.c_str()));
    variables_.push_back({address, address + bytes});
  }
  for (const KernelArgument& argument : launch.arguments) {
    reads_record_ |= argument.kind == KernelArgument::Kind::kErrorRecord;
  }
  if (launch.dynamic_shared_bytes > kDefaultSharedBytes) {
    COTAN_CUDA_DRIVER_RETURN_IF_ERROR(
        device_.driver(), cuFuncSetAttribute(step.function, driver::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                             static_cast<int>(launch.dynamic_shared_bytes)));
  }
  step.addresses.resize(launch.arguments.size());
  for (driver::CUdeviceptr& address : step.addresses) step.parameters.push_back(&address);
  steps_.push_back(std::move(step));
  return absl::OkStatus();
}

absl::Status CudaKernel::Add(const MemorySet& set) {
  steps_.push_back(set);
  return absl::OkStatus();
}

absl::Status CudaKernel::Add(const MemoryCopy& copy) {
  steps_.push_back(copy);
  return absl::OkStatus();
}

absl::Status CudaKernel::Add(const LibraryCall& call) {
  Call step{.arguments = call.arguments};
  COTAN_ASSIGN_OR_RETURN(step.operation, call.spec->Prepare(device_));
  step.addresses.resize(call.arguments.size());
  steps_.push_back(std::move(step));
  return absl::OkStatus();
}

absl::Status CudaKernel::Run(const KernelArgs& args) {
  COTAN_RETURN_IF_ERROR(device_.Activate());
  next_may_begin_early_ = true;
  if (!device_.records_branches()) return QueueSteps(args);
  return device_.QueuePiece(AccessOf(args), [&](bool follows_one) {
    next_may_begin_early_ = follows_one;
    return QueueSteps(args);
  });
}

absl::Status CudaKernel::QueueSteps(const KernelArgs& args) {
  for (Step& step : steps_) {
    COTAN_RETURN_IF_ERROR(std::visit([&](auto& one) { return Queue(one, args); }, step));
  }
  return absl::OkStatus();
}

CudaKernel::Extent CudaKernel::ExtentOf(const TensorSpec& spec) {
  const auto bytes = static_cast<int64_t>(ByteSize(spec.dtype));
  Extent extent = {0, bytes};
  for (size_t d = 0; d < spec.layout.sizes.size(); ++d) {
    if (spec.layout.sizes[d] == 0) return {};
    const int64_t reach = spec.layout.strides[d] * (spec.layout.sizes[d] - 1) * bytes;
    (reach < 0 ? extent.begin : extent.end) += reach;
  }
  return extent;
}

MemoryAccess CudaKernel::AccessOf(const KernelArgs& args) const {
  MemoryAccess access;
  if (!knows_operands_) {
    access.writes.push_back({0, std::numeric_limits<uint64_t>::max()});
    return access;
  }
  const auto add = [](const std::vector<Extent>& extents, void* const* pointers, std::vector<MemoryRange>& ranges) {
    for (size_t i = 0; i < extents.size(); ++i) {
      const auto address = reinterpret_cast<uint64_t>(pointers[i]);
      if (extents[i].begin == extents[i].end) continue;
      ranges.push_back(
          {address + static_cast<uint64_t>(extents[i].begin), address + static_cast<uint64_t>(extents[i].end)});
    }
  };
  add(inputs_, args.inputs, access.reads);
  add(outputs_, args.outputs, access.writes);
  const auto scratch = reinterpret_cast<uint64_t>(args.scratch);
  if (scratch_bytes_ > 0) access.writes.push_back({scratch, scratch + scratch_bytes_});
  access.writes.insert(access.writes.end(), variables_.begin(), variables_.end());
  const MemoryRange record = {device_.errors().record(), device_.errors().record() + 1};
  if (fault_id_ != 0) access.writes.push_back(record);
  if (fault_id_ == 0 && reads_record_) access.reads.push_back(record);
  return access;
}

driver::CUdeviceptr CudaKernel::Resolve(const KernelArgument& argument, const KernelArgs& args) const {
  const void* base = nullptr;
  switch (argument.kind) {
    case KernelArgument::Kind::kInput:
      base = args.inputs[argument.index];
      break;
    case KernelArgument::Kind::kOutput:
      base = args.outputs[argument.index];
      break;
    case KernelArgument::Kind::kScratch:
      base = args.scratch;
      break;
    case KernelArgument::Kind::kErrorRecord:
      return device_.errors().record();
    case KernelArgument::Kind::kFaultId:
      return fault_id_;
  }
  return reinterpret_cast<driver::CUdeviceptr>(base) + static_cast<driver::CUdeviceptr>(argument.offset);
}

absl::Status CudaKernel::Queue(Launch& step, const KernelArgs& args) {
  const KernelLaunch& launch = step.launch;
  for (size_t i = 0; i < launch.arguments.size(); ++i) step.addresses[i] = Resolve(launch.arguments[i], args);
  // Behind a call of a library an early begin costs more than it gains.
  const bool follows_kernel = device_.NoteWork(/*is_kernel=*/true);
  const bool begins_early = step.begins_early && next_may_begin_early_ && follows_kernel;
  driver::CUlaunchAttribute early = {.id = driver::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                                     .reserved = 0,
                                     .value = {.programmaticStreamSerializationAllowed = 1}};
  const driver::CUlaunchConfig config = {.gridDimX = launch.grid[0],
                                         .gridDimY = launch.grid[1],
                                         .gridDimZ = launch.grid[2],
                                         .blockDimX = launch.block[0],
                                         .blockDimY = launch.block[1],
                                         .blockDimZ = launch.block[2],
                                         .sharedMemBytes = launch.dynamic_shared_bytes,
                                         .hStream = device_.stream(),
                                         .attrs = &early,
                                         .numAttrs = begins_early ? 1u : 0u};
  COTAN_CUDA_DRIVER_RETURN_IF_ERROR(device_.driver(),
                                    cuLaunchKernelEx(&config, step.function, step.parameters.data(), nullptr));
  next_may_begin_early_ = true;
  return absl::OkStatus();
}

absl::Status CudaKernel::Queue(const MemorySet& set, const KernelArgs& args) {
  if (set.bytes == 0) return absl::OkStatus();
  device_.NoteWork(/*is_kernel=*/false);
  COTAN_CUDA_DRIVER_RETURN_IF_ERROR(
      device_.driver(),
      cuMemsetD8Async(Resolve(set.to, args), set.value, static_cast<size_t>(set.bytes), device_.stream()));
  next_may_begin_early_ = true;
  return absl::OkStatus();
}

absl::Status CudaKernel::Queue(const MemoryCopy& copy, const KernelArgs& args) {
  // An output may be in the memory of its input.
  if (copy.bytes == 0 || Resolve(copy.to, args) == Resolve(copy.from, args)) return absl::OkStatus();
  device_.NoteWork(/*is_kernel=*/false);
  COTAN_CUDA_DRIVER_RETURN_IF_ERROR(device_.driver(),
                                    cuMemcpyDtoDAsync_v2(Resolve(copy.to, args), Resolve(copy.from, args),
                                                         static_cast<size_t>(copy.bytes), device_.stream()));
  next_may_begin_early_ = true;
  return absl::OkStatus();
}

absl::Status CudaKernel::Queue(Call& call, const KernelArgs& args) {
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    call.addresses[i] = reinterpret_cast<void*>(Resolve(call.arguments[i], args));
  }
  device_.NoteWork(/*is_kernel=*/false);
  COTAN_RETURN_IF_ERROR(call.operation->Enqueue(call.addresses));
  next_may_begin_early_ = true;
  return absl::OkStatus();
}

}  // namespace cotan::cuda
