// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/device/cuda_device.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cuda/cublaslt/cublaslt.h"
#include "kernels/cuda/cudnn/cudnn.h"
#include "kernels/cuda/device/graph.h"
#include "serialization/schema/program.pb.h"

namespace cotan::cuda {
namespace {

driver::CUdeviceptr AddressOf(const void* memory) { return reinterpret_cast<driver::CUdeviceptr>(memory); }

// Recorded work that waits for peers.
class WorkWithPeers final : public RecordedWork {
 public:
  WorkWithPeers(std::unique_ptr<RecordedWork> work, PeerGuard& peers) : work_(std::move(work)), peers_(peers) {}

  absl::Status Run() override {
    return peers_.Queue([this] { return work_->Run(); });
  }

 private:
  const std::unique_ptr<RecordedWork> work_;
  PeerGuard& peers_;
};

absl::StatusOr<driver::CUdevice> FindDevice(const driver::DriverTable& driver, int ordinal) {
  COTAN_CUDA_DRIVER_RETURN_IF_ERROR(driver, cuInit(0));
  int count = 0;
  COTAN_CUDA_DRIVER_RETURN_IF_ERROR(driver, cuDeviceGetCount(&count));
  if (count == 0) {
    return absl::UnavailableError("no CUDA device is visible: look at CUDA_VISIBLE_DEVICES, or run on the CPU");
  }
  if (ordinal < 0 || ordinal >= count) {
    return absl::InvalidArgumentError(
        absl::StrCat("CUDA device ", ordinal, " does not exist: ", count, " visible, counted from 0"));
  }
  driver::CUdevice device = 0;
  COTAN_CUDA_DRIVER_RETURN_IF_ERROR(driver, cuDeviceGet(&device, ordinal));
  return device;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Create(const Vendor& vendor, const CudaDeviceOptions& options) {
  COTAN_ASSIGN_OR_RETURN(const driver::CUdevice ordinal, FindDevice(*vendor.driver, options.ordinal));
  std::unique_ptr<CudaDevice> device(new CudaDevice(vendor, ordinal));
  COTAN_RETURN_IF_ERROR(device->Open(options));
  return device;
}

absl::Status CudaDevice::Open(const CudaDeviceOptions& options) {
  COTAN_CUDA_DRIVER_RETURN_IF_ERROR(driver(), cuDevicePrimaryCtxRetain(&context_, device_));
  COTAN_RETURN_IF_ERROR(Activate());
  int major = 0;
  int minor = 0;
  COTAN_CUDA_DRIVER_RETURN_IF_ERROR(
      driver(), cuDeviceGetAttribute(&major, driver::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device_));
  COTAN_CUDA_DRIVER_RETURN_IF_ERROR(
      driver(), cuDeviceGetAttribute(&minor, driver::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device_));
  compute_capability_ = 10 * major + minor;
  COTAN_CUDA_DRIVER_RETURN_IF_ERROR(driver(), cuStreamCreate(&stream_, driver::CU_STREAM_NON_BLOCKING));
  lanes_ = std::make_unique<Lanes>(driver(), stream_);
  memory_ = std::make_unique<MemoryCache>(driver(), stream_, vendor_.keeps_freed_memory);
  staging_ = std::make_unique<HostStaging>(driver(), stream_);
  host_blocks_ = std::make_unique<HostBlocks>(driver(), stream_, vendor_.keeps_freed_memory);
  errors_ = std::make_unique<ErrorLog>(driver(), stream_);
  kernels_ = std::make_unique<KernelLibrary>(driver(), KernelLibrary::Options{.compute_capability = compute_capability_,
                                                                              .cache_folder = options.kernel_cache,
                                                                              .compiles_to_ptx = vendor_.executes_ptx});
  return errors_->Create();
}

CudaDevice::~CudaDevice() {
  if (context_ == nullptr || !Activate().ok()) return;
  if (stream_ != nullptr) static_cast<void>(driver().cuStreamSynchronize(stream_));
  cudnn_ = nullptr;
  cublaslt_ = nullptr;
  kernels_ = nullptr;
  errors_ = nullptr;
  host_blocks_ = nullptr;
  staging_ = nullptr;
  memory_ = nullptr;
  lanes_ = nullptr;
  if (stream_ != nullptr) static_cast<void>(driver().cuStreamDestroy_v2(stream_));
  static_cast<void>(driver().cuDevicePrimaryCtxRelease_v2(device_));
}

absl::Status CudaDevice::Activate() const {
  COTAN_CUDA_DRIVER_RETURN_IF_ERROR(driver(), cuCtxSetCurrent(context_));
  return absl::OkStatus();
}

absl::StatusOr<void*> CudaDevice::Allocate(size_t bytes) {
  COTAN_RETURN_IF_ERROR(Activate());
  absl::StatusOr<driver::CUdeviceptr> address = driver::CUdeviceptr{0};
  Block([&] { address = memory_->Allocate(bytes); });
  if (!address.ok()) return address.status();
  return reinterpret_cast<void*>(*address);
}

void CudaDevice::Free(void* memory, size_t /*bytes*/) {
  if (memory == nullptr || !Activate().ok()) return;
  Block([&] { memory_->Free(AddressOf(memory)); });
}

absl::Status CudaDevice::CopyFromHost(void* to, const void* from, size_t bytes) {
  COTAN_RETURN_IF_ERROR(Activate());
  NoteWork(/*is_kernel=*/false);
  absl::Status status;
  Block([&] { status = staging_->CopyToDevice(AddressOf(to), from, bytes); });
  return status;
}

absl::Status CudaDevice::CopyToHost(void* to, const void* from, size_t bytes) {
  COTAN_RETURN_IF_ERROR(Activate());
  return WaitForWork([&]() -> absl::Status {
    COTAN_RETURN_IF_ERROR(errors_->Take());
    return staging_->CopyToHost(to, AddressOf(from), bytes);
  });
}

absl::Status CudaDevice::Copy(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  COTAN_RETURN_IF_ERROR(Activate());
  return QueueCopy(to, from, bytes, [&]() -> absl::Status {
    COTAN_CUDA_DRIVER_RETURN_IF_ERROR(driver(), cuMemcpyDtoDAsync_v2(AddressOf(to), AddressOf(from), bytes, stream()));
    return absl::OkStatus();
  });
}

absl::Status CudaDevice::Synchronize() {
  COTAN_RETURN_IF_ERROR(Activate());
  return WaitForWork([this] { return errors_->Take(); });
}

absl::Status CudaDevice::SetPeers(PeerGuard& peers) {
  COTAN_RETURN_IF_ERROR(failed_);
  if (peers_ != nullptr) {
    return absl::FailedPreconditionError(
        "the CUDA device has a communicator already: destroy it before another one is made, or use another device");
  }
  peers_ = &peers;
  return absl::OkStatus();
}

void CudaDevice::ClearPeers(const PeerGuard& peers, const absl::Status& error) {
  if (peers_ != &peers) return;
  peers_ = nullptr;
  if (error.ok()) return;
  Synchronize().IgnoreError();
  failed_ = error;
}

void CudaDevice::Block(absl::FunctionRef<void()> call) {
  if (peers_ == nullptr) {
    call();
  } else {
    peers_->Block(call);
  }
}

absl::Status CudaDevice::WaitForWork(absl::FunctionRef<absl::Status()> wait) {
  COTAN_RETURN_IF_ERROR(failed_);
  return peers_ == nullptr ? wait() : peers_->Wait(wait);
}

void CudaDevice::AddCompiledKernels(const serialization::CudaKernels& kernels,
                                    absl::FunctionRef<absl::string_view(uint32_t)> segment) {
  for (const serialization::CudaKernel& kernel : kernels.kernels()) {
    for (const serialization::CudaKernel::Image& image : kernel.images()) {
      const nvrtc::CompileTarget target = {image.is_ptx() ? nvrtc::ImageKind::kPtx : nvrtc::ImageKind::kCubin,
                                           static_cast<int>(image.compute_capability())};
      kernels_->AddImage(kernel.text(), kernels.library_digest(), target, segment(image.segment()));
    }
  }
}

absl::StatusOr<std::unique_ptr<RecordedWork>> CudaDevice::Record(absl::FunctionRef<absl::Status()> queue) {
  if (!vendor_.records_work) return std::unique_ptr<RecordedWork>();
  COTAN_RETURN_IF_ERROR(Activate());
  const int64_t num_queued = peers_ == nullptr ? 0 : peers_->num_queued();
  COTAN_ASSIGN_OR_RETURN(std::unique_ptr<RecordedWork> work, Capture(queue));
  if (peers_ == nullptr || peers_->num_queued() == num_queued) return work;
  return std::make_unique<WorkWithPeers>(std::move(work), *peers_);
}

absl::StatusOr<std::unique_ptr<RecordedWork>> CudaDevice::Capture(absl::FunctionRef<absl::Status()> queue) {
  if (!vendor_.records_branches) return Graph::Capture(driver(), stream_, queue);
  return Graph::Capture(driver(), stream_, [&]() -> absl::Status {
    follows_kernel_.fill(false);
    absl::Status status = lanes_->Begin();
    if (status.ok()) status = queue();
    if (status.ok()) status = lanes_->Join();
    lanes_->End();
    status.Update(UseLane());
    return status;
  });
}

absl::Status CudaDevice::UseLane() {
  if (cublaslt_ != nullptr) cublaslt_->UseLane(lanes_->lane());
  return cudnn_ == nullptr ? absl::OkStatus() : cudnn_->UseLane(stream(), lanes_->lane());
}

absl::Status CudaDevice::QueuePiece(const MemoryAccess& access,
                                    absl::FunctionRef<absl::Status(bool follows_one)> queue) {
  bool follows_one = true;
  if (!lanes_->is_active()) return queue(follows_one);
  COTAN_RETURN_IF_ERROR(lanes_->BeginPiece(access, follows_one));
  COTAN_RETURN_IF_ERROR(UseLane());
  // Also if the piece queues nothing: the next work of the lane follows what this piece waits for.
  if (!follows_one) NoteWork(/*is_kernel=*/false);
  COTAN_RETURN_IF_ERROR(queue(follows_one));
  return lanes_->EndPiece();
}

absl::Status CudaDevice::QueueCopy(const void* to, const void* from, size_t bytes,
                                   absl::FunctionRef<absl::Status()> queue) {
  const auto range = [&](const void* memory) { return MemoryRange{AddressOf(memory), AddressOf(memory) + bytes}; };
  return QueuePiece({.reads = {range(from)}, .writes = {range(to)}}, [&](bool) {
    NoteWork(/*is_kernel=*/false);
    return queue();
  });
}

absl::StatusOr<void*> CudaDevice::AllocateHost(size_t bytes) {
  COTAN_RETURN_IF_ERROR(Activate());
  absl::StatusOr<void*> block = static_cast<void*>(nullptr);
  Block([&] { block = host_blocks_->Allocate(bytes); });
  return block;
}

void CudaDevice::FreeHost(void* memory) {
  if (memory == nullptr || !Activate().ok()) return;
  Block([&] { host_blocks_->Free(memory); });
}

absl::Status CudaDevice::QueueCopyToHost(void* to, const void* from, size_t bytes) {
  COTAN_RETURN_IF_ERROR(Activate());
  return QueueCopy(to, from, bytes, [&]() -> absl::Status {
    COTAN_CUDA_DRIVER_RETURN_IF_ERROR(driver(), cuMemcpyDtoHAsync_v2(to, AddressOf(from), bytes, stream()));
    return absl::OkStatus();
  });
}

absl::Status CudaDevice::QueueCopyToDevice(void* to, const void* from, size_t bytes) {
  COTAN_RETURN_IF_ERROR(Activate());
  return QueueCopy(to, from, bytes, [&]() -> absl::Status {
    COTAN_CUDA_DRIVER_RETURN_IF_ERROR(driver(), cuMemcpyHtoDAsync_v2(AddressOf(to), from, bytes, stream()));
    return absl::OkStatus();
  });
}

absl::StatusOr<CublasLt*> CudaDevice::cublaslt() {
  if (cublaslt_ == nullptr) {
    COTAN_RETURN_IF_ERROR(Activate());
    COTAN_ASSIGN_OR_RETURN(cublaslt_, vendor_.make_cublaslt(*this));
  }
  return cublaslt_.get();
}

absl::StatusOr<Cudnn*> CudaDevice::cudnn() {
  if (cudnn_ == nullptr) {
    COTAN_RETURN_IF_ERROR(Activate());
    COTAN_ASSIGN_OR_RETURN(cudnn_, vendor_.make_cudnn(*this));
  }
  return cudnn_.get();
}

absl::StatusOr<CudaDevice*> AsCudaDevice(Device* device) {
  if (device == nullptr || device->type() != DeviceType::kCuda) {
    return absl::InvalidArgumentError(absl::StrCat("CUDA kernels need a CUDA device, got ",
                                                   device == nullptr ? "the host" : DeviceTypeName(device->type()),
                                                   ": create the session on a CudaDevice"));
  }
  return static_cast<CudaDevice*>(device);
}

}  // namespace cotan::cuda
