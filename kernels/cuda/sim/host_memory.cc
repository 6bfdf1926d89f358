// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/host_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace cotan::cuda::sim {

HostMemory::~HostMemory() {
  if (const absl::Status status = CheckLeaks(); !status.ok()) {
    if (on_leak_ == nullptr) {
      std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
      std::abort();
    }
    on_leak_(status.message());
  }
  for (const auto& [address, block] : blocks_) munmap(reinterpret_cast<void*>(address), block.mapped_bytes);
}

absl::StatusOr<void*> HostMemory::Allocate(size_t bytes, absl::string_view label) {
  if (bytes == 0) return absl::InvalidArgumentError(absl::StrCat("allocation of 0 bytes for '", label, "'"));
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t mapped_bytes = (bytes + page - 1) / page * page + page;
  void* memory = mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return absl::ResourceExhaustedError(absl::StrCat("no host memory for ", bytes, " bytes of '", label, "'"));
  }
  mprotect(static_cast<char*>(memory) + mapped_bytes - page, page, PROT_NONE);
  blocks_[reinterpret_cast<uintptr_t>(memory)] = {bytes, mapped_bytes, std::string(label)};
  return memory;
}

absl::Status HostMemory::Free(void* memory) {
  const auto found = blocks_.find(reinterpret_cast<uintptr_t>(memory));
  if (found == blocks_.end() || !found->second.live) {
    return absl::InvalidArgumentError(absl::StrCat("frees host memory at 0x",
                                                   absl::Hex(reinterpret_cast<uintptr_t>(memory)),
                                                   ", where no live pinned block starts"));
  }
  Block& block = found->second;
  block.live = false;
  // Gives the pages back and keeps the addresses.
  mmap(memory, block.mapped_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  return absl::OkStatus();
}

absl::Status HostMemory::Check(const void* memory, size_t bytes, bool pageable_allowed) const {
  const auto* found = Find(memory);
  if (found == nullptr) {
    if (pageable_allowed) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat("asynchronous copy of ", bytes,
                                                      " bytes with host memory that is not pinned: allocate it with "
                                                      "cuMemHostAlloc"));
  }
  const auto& [address, block] = *found;
  const size_t offset = reinterpret_cast<uintptr_t>(memory) - address;
  if (!block.live) {
    return absl::OutOfRangeError(absl::StrCat("copy with ", bytes, " bytes at offset ", offset,
                                              " of the freed pinned block '", block.label, "' of ", block.bytes,
                                              " bytes"));
  }
  if (offset > block.bytes || bytes > block.bytes - offset) {
    return absl::OutOfRangeError(absl::StrCat("copy with ", bytes, " bytes at offset ", offset,
                                              " of the pinned block '", block.label, "' of ", block.bytes, " bytes"));
  }
  return absl::OkStatus();
}

absl::StatusOr<HostMemory::Snapshot> HostMemory::Take(const void* memory, size_t bytes) const {
  COTAN_RETURN_IF_ERROR(Check(memory, bytes, false));
  const auto* first = static_cast<const std::byte*>(memory);
  return Snapshot{memory, {first, first + bytes}, Find(memory)->second.device_writes};
}

absl::Status HostMemory::CheckUnchanged(const Snapshot& snapshot) const {
  COTAN_RETURN_IF_ERROR(Check(snapshot.memory, snapshot.content.size(), false));
  const auto& [address, block] = *Find(snapshot.memory);
  if (block.device_writes != snapshot.device_writes) return absl::OkStatus();
  const auto* now = static_cast<const std::byte*>(snapshot.memory);
  const auto differs = std::mismatch(snapshot.content.begin(), snapshot.content.end(), now).first;
  if (differs == snapshot.content.end()) return absl::OkStatus();
  const auto offset = reinterpret_cast<uintptr_t>(snapshot.memory) - address +
                      static_cast<uintptr_t>(differs - snapshot.content.begin());
  return absl::FailedPreconditionError(
      absl::StrCat("the host changed the pinned block '", block.label, "' of ", block.bytes, " bytes at offset ",
                   offset, " while a copy from it was queued: synchronize before it is written again"));
}

void HostMemory::NoteDeviceWrite(const void* memory) {
  const auto* found = Find(memory);
  if (found != nullptr) ++blocks_[found->first].device_writes;
}

absl::Status HostMemory::CheckLeaks() const {
  std::string text;
  int count = 0;
  for (const auto& [address, block] : blocks_) {
    if (!block.live) continue;
    ++count;
    absl::StrAppend(&text, " '", block.label, "' of ", block.bytes, " bytes;");
  }
  if (count == 0) return absl::OkStatus();
  text.pop_back();
  return absl::FailedPreconditionError(absl::StrCat(count, " blocks of pinned host memory leak:", text));
}

const std::pair<const uintptr_t, HostMemory::Block>* HostMemory::Find(const void* memory) const {
  const auto address = reinterpret_cast<uintptr_t>(memory);
  const auto after = blocks_.upper_bound(address);
  if (after == blocks_.begin()) return nullptr;
  const auto& block = *std::prev(after);
  return address - block.first < block.second.mapped_bytes ? &block : nullptr;
}

}  // namespace cotan::cuda::sim
