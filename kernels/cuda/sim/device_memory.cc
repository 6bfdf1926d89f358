// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/device_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace cotan::cuda::sim {
namespace {

constexpr int kListedLeaks = 20;

}  // namespace

DeviceMemory::DeviceMemory(Options options) : options_(std::move(options)) {
  void* range =
      mmap(nullptr, options_.address_space_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) {
    std::fprintf(stderr, "the simulated GPU cannot reserve %llu bytes of addresses\n",
                 static_cast<unsigned long long>(options_.address_space_bytes));
    std::abort();
  }
  base_ = reinterpret_cast<uintptr_t>(range);
  next_ = base_;
}

DeviceMemory::~DeviceMemory() {
  if (const absl::Status status = CheckLeaks(); !status.ok()) {
    if (options_.on_leak == nullptr) {
      std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
      std::abort();
    }
    options_.on_leak(status.message());
  }
  munmap(reinterpret_cast<void*>(base_), options_.address_space_bytes);
}

absl::StatusOr<uint64_t> DeviceMemory::Allocate(uint64_t bytes, absl::string_view label) {
  if (bytes == 0) return absl::InvalidArgumentError(absl::StrCat("allocation of 0 bytes for '", label, "'"));
  if (bytes > options_.capacity_bytes - live_bytes_) {
    return absl::ResourceExhaustedError(absl::StrCat("'", label, "' needs ", bytes, " bytes of device memory, ",
                                                     options_.capacity_bytes - live_bytes_, " of ",
                                                     options_.capacity_bytes, " are free"));
  }
  // An odd multiple of the alignment, so that code which needs more than cuMemAlloc promises fails.
  const uint64_t unit = 2 * kAlignment;
  const uint64_t address = (next_ + kRedzone + unit - 1) / unit * unit + kAlignment;
  const uint64_t end = address + bytes + kRedzone;
  if (end > base_ + options_.address_space_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("'", label, "' needs ", bytes,
                                                     " bytes of device addresses, which are never reused; all of ",
                                                     options_.address_space_bytes, " are used"));
  }
  Array<std::byte> content(static_cast<std::byte*>(std::calloc(bytes, 1)));
  Array<uint8_t> written(static_cast<uint8_t*>(std::calloc(bytes, 1)));
  if (content == nullptr || written == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat("the host has no memory for ", bytes, " bytes of '", label, "'"));
  }
  next_ = end;
  blocks_[address] = {address, bytes, std::string(label), std::move(content), std::move(written)};
  live_bytes_ += bytes;
  peak_bytes_ = std::max(peak_bytes_, live_bytes_);
  ++num_live_;
  return address;
}

absl::Status DeviceMemory::Free(uint64_t address) {
  const auto found = blocks_.find(address);
  if (found == blocks_.end() || found->second.content == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("frees an address at which no live block starts: it is ", Describe(address)));
  }
  found->second.content.reset();
  found->second.written.reset();
  ++generation_;
  live_bytes_ -= found->second.bytes;
  --num_live_;
  return absl::OkStatus();
}

absl::Status DeviceMemory::Load(uint64_t address, absl::Span<std::byte> to) const {
  if (address % to.size() != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("misaligned load of ", to.size(), " bytes: the address is ", Describe(address)));
  }
  return Read(address, to);
}

absl::Status DeviceMemory::Store(uint64_t address, absl::Span<const std::byte> from) {
  if (address % from.size() != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("misaligned store of ", from.size(), " bytes: the address is ", Describe(address)));
  }
  return Write(address, from);
}

absl::Status DeviceMemory::Read(uint64_t address, absl::Span<std::byte> to) const {
  if (to.empty()) return absl::OkStatus();
  COTAN_ASSIGN_OR_RETURN(const std::byte* content, ViewForRead(address, to.size()));
  std::memcpy(to.data(), content, to.size());
  return absl::OkStatus();
}

absl::Status DeviceMemory::Write(uint64_t address, absl::Span<const std::byte> from) {
  if (from.empty()) return absl::OkStatus();
  COTAN_ASSIGN_OR_RETURN(std::byte * content, ViewForWrite(address, from.size()));
  std::memcpy(content, from.data(), from.size());
  return absl::OkStatus();
}

absl::Status DeviceMemory::Copy(uint64_t to, uint64_t from, uint64_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  COTAN_ASSIGN_OR_RETURN(const Block* source, Find(from, bytes, "reads"));
  COTAN_ASSIGN_OR_RETURN(Block * target, Find(to, bytes, "writes"));
  if (log_ != nullptr) log_->AddRead(from, bytes);
  if (log_ != nullptr) log_->AddWrite(to, bytes);
  const uint64_t source_offset = from - source->address;
  const uint64_t target_offset = to - target->address;
  std::memmove(target->content.get() + target_offset, source->content.get() + source_offset, bytes);
  std::memmove(target->written.get() + target_offset, source->written.get() + source_offset, bytes);
  return absl::OkStatus();
}

absl::StatusOr<const std::byte*> DeviceMemory::ViewForRead(uint64_t address, uint64_t bytes) const {
  COTAN_ASSIGN_OR_RETURN(const Block* block, Find(address, bytes, "reads"));
  const uint64_t offset = address - block->address;
  COTAN_RETURN_IF_ERROR(CheckWritten(*block, offset, bytes));
  if (log_ != nullptr) log_->AddRead(address, bytes);
  return block->content.get() + offset;
}

absl::StatusOr<std::byte*> DeviceMemory::ViewForWrite(uint64_t address, uint64_t bytes) {
  COTAN_ASSIGN_OR_RETURN(Block * block, Find(address, bytes, "writes"));
  const uint64_t offset = address - block->address;
  if (log_ != nullptr) log_->AddWrite(address, bytes);
  std::memset(block->written.get() + offset, 1, bytes);
  return block->content.get() + offset;
}

absl::Status DeviceMemory::CheckBounds(uint64_t address, uint64_t bytes) const {
  return Find(address, bytes, "accesses").status();
}

bool DeviceMemory::FindBlock(uint64_t address, BlockView& block) {
  if (log_ != nullptr) return false;
  const auto after = blocks_.upper_bound(address);
  if (after == blocks_.begin()) return false;
  const Block& found = std::prev(after)->second;
  if (found.content == nullptr || address - found.address >= found.bytes) return false;
  block = {found.address, found.bytes, found.content.get(), found.written.get()};
  return true;
}

void DeviceMemory::set_log(AccessLog* log) {
  log_ = log;
  ++generation_;
}

absl::Status DeviceMemory::CheckLeaks() const {
  if (num_live_ == 0) return absl::OkStatus();
  std::string text = absl::StrCat(num_live_, " blocks of device memory leak:");
  int listed = 0;
  for (const auto& [address, block] : blocks_) {
    if (block.content == nullptr) continue;
    if (listed++ == kListedLeaks) break;
    absl::StrAppend(&text, " ", NameOf(block), ";");
  }
  text.pop_back();
  return absl::FailedPreconditionError(text);
}

absl::StatusOr<const DeviceMemory::Block*> DeviceMemory::Find(uint64_t address, uint64_t bytes,
                                                              absl::string_view access) const {
  auto found = blocks_.upper_bound(address);
  if (found != blocks_.begin()) {
    const Block& block = std::prev(found)->second;
    const uint64_t offset = address - block.address;
    if (offset < block.bytes) {
      if (block.content == nullptr) {
        return absl::OutOfRangeError(
            absl::StrCat(access, " ", bytes, " bytes after they were freed: the address is ", Describe(address)));
      }
      if (bytes <= block.bytes - offset) return &block;
    }
  }
  return absl::OutOfRangeError(
      absl::StrCat(access, " ", bytes, " bytes outside of a block: the address is ", Describe(address)));
}

absl::StatusOr<DeviceMemory::Block*> DeviceMemory::Find(uint64_t address, uint64_t bytes, absl::string_view access) {
  COTAN_ASSIGN_OR_RETURN(const Block* block, std::as_const(*this).Find(address, bytes, access));
  return const_cast<Block*>(block);
}

std::string DeviceMemory::Describe(uint64_t address) const {
  if (!Contains(address)) return absl::StrCat("0x", absl::Hex(address), ", not device memory");
  const auto after = blocks_.upper_bound(address);
  const Block* next = after == blocks_.end() ? nullptr : &after->second;
  const Block* previous = after == blocks_.begin() ? nullptr : &std::prev(after)->second;
  if (previous == nullptr && next == nullptr) return absl::StrCat("0x", absl::Hex(address), ", not in any block");
  if (previous != nullptr && address - previous->address < previous->bytes) {
    return absl::StrCat("at offset ", address - previous->address, " of ", NameOf(*previous));
  }
  const uint64_t behind = previous == nullptr ? UINT64_MAX : address - previous->address - previous->bytes;
  const uint64_t before = next == nullptr ? UINT64_MAX : next->address - address;
  if (behind <= before) return absl::StrCat(behind, " bytes behind the end of ", NameOf(*previous));
  return absl::StrCat(before, " bytes before ", NameOf(*next));
}

std::string DeviceMemory::NameOf(const Block& block) {
  return absl::StrCat(block.content == nullptr ? "the freed block '" : "the block '", block.label, "' of ", block.bytes,
                      " bytes");
}

absl::Status DeviceMemory::CheckWritten(const Block& block, uint64_t offset, uint64_t bytes) const {
  const void* first = std::memchr(block.written.get() + offset, 0, bytes);
  if (first == nullptr) return absl::OkStatus();
  const uint64_t at = static_cast<uint64_t>(static_cast<const uint8_t*>(first) - block.written.get());
  return absl::FailedPreconditionError(absl::StrCat("reads ", bytes, " bytes at offset ", offset, " of ", NameOf(block),
                                                    ", of which nothing wrote the byte at offset ", at));
}

}  // namespace cotan::cuda::sim
