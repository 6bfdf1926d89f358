// SPDX-License-Identifier: Apache-2.0

// A CUDA GPU as a Device.
#ifndef COTAN_KERNELS_CUDA_DEVICE_CUDA_DEVICE_H_
#define COTAN_KERNELS_CUDA_DEVICE_CUDA_DEVICE_H_

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/api/device.h"
#include "kernels/api/pinned_memory.h"
#include "kernels/cuda/compiler/kernel_library.h"
#include "kernels/cuda/device/error_log.h"
#include "kernels/cuda/device/host_blocks.h"
#include "kernels/cuda/device/host_staging.h"
#include "kernels/cuda/device/lanes.h"
#include "kernels/cuda/device/memory_cache.h"
#include "kernels/cuda/device/peer_guard.h"
#include "kernels/cuda/driver/driver_table.h"
#include "kernels/cuda/launch/library_call.h"

namespace cotan::cuda {

// The parts of a device: the installed libraries, or a simulated GPU.
struct Vendor {
  const driver::DriverTable* driver = nullptr;
  // Make the handle of a library when it is first used. Errors as VendorLibraries::cublaslt() and cudnn().
  std::function<absl::StatusOr<std::shared_ptr<CublasLt>>(VendorLibraries&)> make_cublaslt;
  std::function<absl::StatusOr<std::shared_ptr<Cudnn>>(VendorLibraries&)> make_cudnn;
  // The libraries may round operands of f32 products to TF32.
  bool tf32 = false;
  // The device executes PTX, not machine code.
  bool executes_ptx = false;
  // False: work is queued again at each call instead of being recorded as a CUDA graph.
  bool records_work = true;
  // False: a kernel begins when earlier work has ended, on every GPU.
  bool kernels_begin_early = true;
  // False: work is recorded as a chain, without branches.
  bool records_branches = true;
  // False: freed memory is returned to the driver at once, for checkers of memory.
  bool keeps_freed_memory = true;
};

struct CudaDeviceOptions {
  // GPU number, counted among those that CUDA_VISIBLE_DEVICES leaves visible.
  int ordinal = 0;
  // Folder of compiled kernels; "" = none.
  std::string kernel_cache = {};
};

// One GPU with one stream, on which all work is queued in order; recorded work may have branches. Not thread-safe.
// Example:
//
//   COTAN_ASSIGN_OR_RETURN(std::unique_ptr<CudaDevice> device, CudaDevice::Create(vendor, {}));
//   options.device = device.get();  // SessionOptions
class CudaDevice final : public Device, public PinnedMemory, public VendorLibraries {
 public:
  // Opens a GPU of `vendor`, whose tables outlive the device. OpenCudaDevice() opens one of this machine.
  // Unavailable: there is no GPU, or the driver is too old.
  // InvalidArgument: `ordinal` is not below the number of visible GPUs.
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Create(const Vendor& vendor, const CudaDeviceOptions& options);

  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;
  // Waits for queued work; ignores its errors, which Synchronize() reports.
  ~CudaDevice() override;

  DeviceType type() const override { return DeviceType::kCuda; }
  // Allocates memory aligned to 256 bytes. Freed memory is kept for later calls.
  absl::StatusOr<void*> Allocate(size_t bytes) override;
  void Free(void* memory, size_t bytes) override;
  absl::Status CopyFromHost(void* to, const void* from, size_t bytes) override;
  absl::Status CopyToHost(void* to, const void* from, size_t bytes) override;
  absl::Status Copy(void* to, const void* from, size_t bytes) override;
  absl::Status Synchronize() override;
  void AddCompiledKernels(const serialization::CudaKernels& kernels,
                          absl::FunctionRef<absl::string_view(uint32_t)> segment) override;
  bool queues_work() const override { return true; }
  // Returns the work as a CUDA graph.
  absl::StatusOr<std::unique_ptr<RecordedWork>> Record(absl::FunctionRef<absl::Status()> queue) override;

  PinnedMemory* pinned_memory() override { return this; }

  Device& device() override { return *this; }
  absl::StatusOr<void*> AllocateHost(size_t bytes) override;
  void FreeHost(void* memory) override;
  absl::Status QueueCopyToHost(void* to, const void* from, size_t bytes) override;
  absl::Status QueueCopyToDevice(void* to, const void* from, size_t bytes) override;

  const driver::DriverTable& driver() const override { return *vendor_.driver; }
  driver::CUstream stream() const override { return lanes_->stream(); }
  absl::StatusOr<CublasLt*> cublaslt() override;
  absl::StatusOr<Cudnn*> cudnn() override;

  // Makes the context of this GPU current on the calling thread. Kernels call it before they queue work.
  absl::Status Activate() const;
  // Ten times the major plus the minor version: 90 for Hopper.
  int compute_capability() const { return compute_capability_; }
  // Returns whether products of f32 may round their operands to TF32.
  bool tf32() const { return vendor_.tf32; }
  // Queues a piece of work with `queue`, which gets true if its first launch comes after one other at most. While work
  // is recorded, the piece has an order only with those that access the same memory. Errors of `queue`; Internal: the
  // driver failed.
  absl::Status QueuePiece(const MemoryAccess& access, absl::FunctionRef<absl::Status(bool follows_one)> queue);
  // Returns whether QueuePiece() uses `access` now.
  bool records_branches() const { return lanes_->is_active(); }
  // Notes that work is queued on stream(); returns whether the work before it there was a kernel of this backend.
  bool NoteWork(bool is_kernel) {
    return std::exchange(follows_kernel_[static_cast<size_t>(lanes_->lane())], is_kernel);
  }
  // As Vendor::kernels_begin_early.
  bool kernels_begin_early() const { return vendor_.kernels_begin_early; }
  // Sets the peers that work of this device may wait for, until ClearPeers().
  // FailedPrecondition: there are others. Unavailable: earlier ones have ended (ClearPeers()).
  absl::Status SetPeers(PeerGuard& peers);
  // Ends the use of `peers`, if they are set. `error`, unless OK, is why work that waited for them was cut off: the
  // device waits for the rest of it, and calls that wait for queued work return `error` from then on.
  void ClearPeers(const PeerGuard& peers, const absl::Status& error);
  // Calls `call`, which may wait for queued work and returns nothing that it computes.
  void Block(absl::FunctionRef<void()> call);
  KernelLibrary& kernels() { return *kernels_; }
  ErrorLog& errors() { return *errors_; }

 private:
  CudaDevice(const Vendor& vendor, driver::CUdevice device) : vendor_(vendor), device_(device) {}
  absl::Status Open(const CudaDeviceOptions& options);
  absl::Status QueueCopy(const void* to, const void* from, size_t bytes, absl::FunctionRef<absl::Status()> queue);
  // Calls `wait`, which waits for queued work, for peers too if there are any.
  absl::Status WaitForWork(absl::FunctionRef<absl::Status()> wait);
  // Captures work as a graph.
  absl::StatusOr<std::unique_ptr<RecordedWork>> Capture(absl::FunctionRef<absl::Status()> queue);
  // Lets the libraries use the lane of the next work.
  absl::Status UseLane();

  const Vendor vendor_;
  const driver::CUdevice device_;
  driver::CUcontext context_ = nullptr;
  driver::CUstream stream_ = nullptr;
  int compute_capability_ = 0;
  std::unique_ptr<Lanes> lanes_;
  std::array<bool, kLanes> follows_kernel_ = {};  // the next work of a lane
  std::unique_ptr<MemoryCache> memory_;
  std::unique_ptr<HostStaging> staging_;
  std::unique_ptr<HostBlocks> host_blocks_;
  std::unique_ptr<ErrorLog> errors_;
  std::unique_ptr<KernelLibrary> kernels_;
  std::shared_ptr<CublasLt> cublaslt_;
  std::shared_ptr<Cudnn> cudnn_;
  PeerGuard* peers_ = nullptr;
  absl::Status failed_;  // work of earlier peers was cut off
};

// Returns `device` as a CudaDevice.
// InvalidArgument: `device` is null or not a CUDA device.
absl::StatusOr<CudaDevice*> AsCudaDevice(Device* device);

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_DEVICE_CUDA_DEVICE_H_
