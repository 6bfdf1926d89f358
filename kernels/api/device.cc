// SPDX-License-Identifier: Apache-2.0

#include "kernels/api/device.h"

#include <cstring>
#include <new>

#include "absl/strings/str_cat.h"

namespace cotan {
namespace {

// Returns the alignment of memory of that size: of a cache line, or for large memory of a large page.
std::align_val_t AlignmentOf(size_t bytes) {
  constexpr size_t kLine = 64, kLargePage = size_t{2} << 20;
  return std::align_val_t{bytes < kLargePage ? kLine : kLargePage};
}

class CpuDevice final : public Device {
 public:
  DeviceType type() const override { return DeviceType::kCpu; }

  absl::StatusOr<void*> Allocate(size_t bytes) override {
    void* memory = ::operator new(bytes, AlignmentOf(bytes), std::nothrow);
    if (memory == nullptr) {
      return absl::ResourceExhaustedError(absl::StrCat("the host has no ", bytes, " bytes of memory left"));
    }
    return memory;
  }

  void Free(void* memory, size_t bytes) override { ::operator delete(memory, AlignmentOf(bytes)); }

  absl::Status CopyFromHost(void* to, const void* from, size_t bytes) override { return Copy(to, from, bytes); }
  absl::Status CopyToHost(void* to, const void* from, size_t bytes) override { return Copy(to, from, bytes); }
  absl::Status Copy(void* to, const void* from, size_t bytes) override {
    if (bytes != 0) std::memcpy(to, from, bytes);
    return absl::OkStatus();
  }

  absl::Status Synchronize() override { return absl::OkStatus(); }
};

}  // namespace

absl::string_view DeviceTypeName(DeviceType type) { return type == DeviceType::kCpu ? "cpu" : "cuda"; }

Device& HostDevice() {
  static Device& device = *new CpuDevice;
  return device;
}

}  // namespace cotan
