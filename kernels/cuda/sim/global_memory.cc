// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/global_memory.h"

#include <cstring>

#include "absl/types/span.h"
#include "base/status_macros.h"

namespace cotan::cuda::sim {

std::byte* DeviceGlobalMemory::Find(const ptx::GlobalAccess& access, uint8_t*& written) {
  if (generation_ != memory_.generation() || access.address - last_.address >= last_.bytes) {
    generation_ = memory_.generation();
    if (!memory_.FindBlock(access.address, last_)) {
      last_ = {};
      return nullptr;
    }
  }
  const uint64_t offset = access.address - last_.address;
  if (access.size > last_.bytes - offset) return nullptr;
  written = last_.written + offset;
  return last_.content + offset;
}

absl::Status DeviceGlobalMemory::Load(const ptx::GlobalAccess& access, std::byte* to) {
  uint8_t* written = nullptr;
  const std::byte* content = Find(access, written);
  // DeviceMemory explains what is wrong.
  if (content == nullptr || std::memchr(written, 0, access.size) != nullptr) {
    return memory_.Read(access.address, absl::MakeSpan(to, access.size));
  }
  std::memcpy(to, content, access.size);
  return absl::OkStatus();
}

absl::Status DeviceGlobalMemory::Store(const ptx::GlobalAccess& access, const std::byte* from) {
  uint8_t* written = nullptr;
  std::byte* content = Find(access, written);
  if (content == nullptr) return memory_.Write(access.address, absl::MakeConstSpan(from, access.size));
  std::memcpy(content, from, access.size);
  std::memset(written, 1, access.size);
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> DeviceGlobalMemory::Atomic(const ptx::GlobalAccess& access,
                                                    absl::FunctionRef<uint64_t(uint64_t)> update) {
  uint64_t before = 0;
  COTAN_RETURN_IF_ERROR(Load(access, reinterpret_cast<std::byte*>(&before)));
  const uint64_t after = update(before);
  COTAN_RETURN_IF_ERROR(Store(access, reinterpret_cast<const std::byte*>(&after)));
  return before;
}

bool DeviceGlobalMemory::FindBlock(uint64_t address, ptx::GlobalBlock& block) {
  DeviceMemory::BlockView view;
  if (!memory_.FindBlock(address, view)) return false;
  block = {view.address, view.bytes, view.content, view.written};
  return true;
}

}  // namespace cotan::cuda::sim
