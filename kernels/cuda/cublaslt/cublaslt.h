// SPDX-License-Identifier: Apache-2.0

// cuBLASLt on a device.
#ifndef COTAN_KERNELS_CUDA_CUBLASLT_CUBLASLT_H_
#define COTAN_KERNELS_CUDA_CUBLASLT_CUBLASLT_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/cuda/cublaslt/cublaslt_table.h"
#include "kernels/cuda/driver/driver_table.h"
#include "kernels/cuda/launch/library_call.h"

namespace cotan::cuda {

// How products of f32 are computed.
enum class F32Precision : uint8_t {
  kIeee,  // in f32
  kTf32,  // operands are rounded to 10 fraction bits, sums are in f32
};

// The handle of the library, and the memory that all products of a lane share: they run one after the other.
// The context of the device is current in the calls of Create() and the destructor, and no work is queued any more when
// the destructor runs. Example:
//
//   COTAN_ASSIGN_OR_RETURN(const cublaslt::CublasLtTable* table, cublaslt::CublasLtTable::Get());
//   COTAN_ASSIGN_OR_RETURN(std::unique_ptr<CublasLt> cublaslt, CublasLt::Create(*table, libraries.driver()));
class CublasLt {
 public:
  // The size that the vendor recommends for Hopper. The same for all products, so that the choice of an algorithm
  // depends on the product alone.
  static constexpr size_t kWorkspaceBytes = size_t{32} << 20;
  static constexpr size_t kBiasBytes = size_t{1} << 20;
  static constexpr size_t kBiasAlignment = 16;

  // Makes the handle and allocates the memory. `table` and `driver` outlive the result.
  // Unavailable: the library does not work on this device. ResourceExhausted: out of device memory.
  static absl::StatusOr<std::unique_ptr<CublasLt>> Create(const cublaslt::CublasLtTable& table,
                                                          const driver::DriverTable& driver,
                                                          F32Precision precision = F32Precision::kIeee);
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;
  ~CublasLt();

  const cublaslt::CublasLtTable& table() const { return table_; }
  cublaslt::cublasLtHandle_t handle() const { return handle_.get(); }
  F32Precision f32_precision() const { return precision_; }
  // Makes workspace() and bias() those of a lane, below kLanes; of lane 0 at first.
  void UseLane(int lane) { lane_ = lane; }
  // Aligned to 256 bytes.
  void* workspace() const { return reinterpret_cast<void*>(LaneMemory()); }
  // Returns kBiasBytes of memory of the device behind the workspace, for the bias of a product. Aligned to
  // kBiasAlignment and no more, so that the choice of an algorithm expects no more.
  void* bias() const { return reinterpret_cast<void*>(LaneMemory() + kWorkspaceBytes + kBiasAlignment); }

 private:
  static constexpr size_t kAlignment = 256;
  static constexpr size_t kLaneBytes =
      (kWorkspaceBytes + kBiasAlignment + kBiasBytes + kAlignment - 1) / kAlignment * kAlignment;

  CublasLt(const cublaslt::CublasLtTable& table, const driver::DriverTable& driver, F32Precision precision)
      : table_(table), driver_(driver), precision_(precision) {}

  driver::CUdeviceptr LaneMemory() const { return memory_ + static_cast<size_t>(lane_) * kLaneBytes; }

  const cublaslt::CublasLtTable& table_;
  const driver::DriverTable& driver_;
  const F32Precision precision_;
  cublaslt::OwnedHandle handle_ = nullptr;
  driver::CUdeviceptr memory_ = 0;  // kLanes * kLaneBytes
  int lane_ = 0;
};

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_CUBLASLT_CUBLASLT_H_
