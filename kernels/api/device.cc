// SPDX-License-Identifier: Apache-2.0

#include "kernels/api/device.h"

#include <cstring>
#include <new>

#include "absl/strings/str_cat.h"

namespace cotan {
namespace {

constexpr std::align_val_t kAlignment{64};

class CpuDevice final : public Device {
 public:
  DeviceType type() const override { return DeviceType::kCpu; }

  absl::StatusOr<void*> Allocate(size_t bytes) override {
    void* memory = ::operator new(bytes, kAlignment, std::nothrow);
    if (memory == nullptr) {
      return absl::ResourceExhaustedError(absl::StrCat("the host has no ", bytes, " bytes of memory left"));
    }
    return memory;
  }

  void Free(void* memory, size_t /*bytes*/) override { ::operator delete(memory, kAlignment); }

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
