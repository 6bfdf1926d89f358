// SPDX-License-Identifier: Apache-2.0

// The memory of a simulated GPU, with checks of every access.
#ifndef COTAN_KERNELS_CUDA_SIM_DEVICE_MEMORY_H_
#define COTAN_KERNELS_CUDA_SIM_DEVICE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/cuda/sim/access_log.h"

namespace cotan::cuda::sim {

// Blocks at addresses that the host cannot read: they are in a range of pages without access, and the content is
// elsewhere, so that a host dereference of a device pointer faults. Blocks are aligned to 256 bytes and no more, have a
// redzone on both sides, are never reused, and know which of their bytes were written. Errors name the block (its label
// and size) and the offset within it. Not thread-safe.
//
//   DeviceMemory memory({.capacity_bytes = 1 << 20});
//   COTAN_ASSIGN_OR_RETURN(const uint64_t address, memory.Allocate(64, "weights"));
//   COTAN_RETURN_IF_ERROR(memory.Write(address, bytes));
//   COTAN_RETURN_IF_ERROR(memory.Free(address));
class DeviceMemory {
 public:
  static constexpr uint64_t kAlignment = 256;  // In bytes, what cuMemAlloc promises.
  static constexpr uint64_t kRedzone = 256;    // In bytes, at least, before and behind each block.

  struct Options {
    uint64_t capacity_bytes = uint64_t{16} << 30;  // Of all live blocks together.
    // Sum of all blocks ever allocated with their redzones.
    uint64_t address_space_bytes = uint64_t{1} << 40;
    // Called by the destructor with a list of the blocks that are live. Empty: prints it and aborts.
    std::function<void(absl::string_view)> on_leak = nullptr;
  };

  explicit DeviceMemory(Options options);
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory();

  // Returns the address of `bytes` > 0 bytes that nothing wrote. `label` says where the block was allocated.
  // InvalidArgument: bytes is 0. ResourceExhausted: the capacity is exceeded; the message gives both sizes.
  absl::StatusOr<uint64_t> Allocate(uint64_t bytes, absl::string_view label);

  // Frees the block that starts at `address`, whose content is lost.
  // InvalidArgument: no live block starts there; the message says what is there.
  absl::Status Free(uint64_t address);

  // Accesses of one element of to.size() or from.size() bytes, a power of two; Store marks its bytes as written.
  // InvalidArgument: `address` is not a multiple of the size. Others as Read() and Write().
  absl::Status Load(uint64_t address, absl::Span<std::byte> to) const;
  absl::Status Store(uint64_t address, absl::Span<const std::byte> from);

  // Accesses of any number of bytes. On error, nothing is copied.
  // OutOfRange: bytes outside of a live block, with the nearest block. FailedPrecondition: reads a byte that nothing
  // wrote.
  absl::Status Read(uint64_t address, absl::Span<std::byte> to) const;
  absl::Status Write(uint64_t address, absl::Span<const std::byte> from);

  // Copies bytes and whether they were written, as memmove.
  // OutOfRange: bytes outside of a live block.
  absl::Status Copy(uint64_t to, uint64_t from, uint64_t bytes);

  // Return the content of [address, address + bytes), for kernels that are host code. Valid until the block is freed.
  // Errors as Read(); ViewForWrite marks all bytes as written.
  absl::StatusOr<const std::byte*> ViewForRead(uint64_t address, uint64_t bytes) const;
  absl::StatusOr<std::byte*> ViewForWrite(uint64_t address, uint64_t bytes);

  // OutOfRange: not all of [address, address + bytes) is in one live block.
  absl::Status CheckBounds(uint64_t address, uint64_t bytes) const;

  // A live block, for accesses that check themselves. Valid while generation() stays the same.
  struct BlockView {
    uint64_t address = 0;
    uint64_t bytes = 0;
    std::byte* content = nullptr;
    uint8_t* written = nullptr;  // [byte]: 1 where written.
  };

  // Returns whether a live block has `address`, and sets `block` to it. Without a log only, see set_log.
  bool FindBlock(uint64_t address, BlockView& block);
  // Changes when a block is freed or a log is set.
  uint64_t generation() const { return generation_; }

  // Has all accesses, also through views, recorded in `log`; null: ends that. `log` is borrowed.
  void set_log(AccessLog* log);

  // Says which block has `address`, or is nearest, for messages.
  std::string Describe(uint64_t address) const;

  // Returns whether `address` is in the range of device addresses, allocated or not.
  bool Contains(uint64_t address) const { return address >= base_ && address - base_ < options_.address_space_bytes; }

  // FailedPrecondition: there are live blocks; the message lists them.
  absl::Status CheckLeaks() const;

  uint64_t live_bytes() const { return live_bytes_; }
  uint64_t peak_bytes() const { return peak_bytes_; }
  uint64_t capacity_bytes() const { return options_.capacity_bytes; }
  int64_t num_live_blocks() const { return num_live_; }

 private:
  struct FreeDeleter {
    void operator()(void* memory) const { std::free(memory); }
  };
  template <typename T>
  using Array = std::unique_ptr<T[], FreeDeleter>;

  struct Block {
    uint64_t address = 0;
    uint64_t bytes = 0;
    std::string label;
    // Length = bytes; null once freed.
    Array<std::byte> content;
    Array<uint8_t> written;  // 1 where written.
  };

  // Returns the live block with all of [address, address + bytes).
  absl::StatusOr<const Block*> Find(uint64_t address, uint64_t bytes, absl::string_view access) const;
  absl::StatusOr<Block*> Find(uint64_t address, uint64_t bytes, absl::string_view access);
  static std::string NameOf(const Block& block);
  absl::Status CheckWritten(const Block& block, uint64_t offset, uint64_t bytes) const;

  const Options options_;
  uint64_t base_ = 0;
  uint64_t next_ = 0;                 // Address from which the next block is placed.
  std::map<uint64_t, Block> blocks_;  // By address, freed ones too.
  uint64_t live_bytes_ = 0;
  uint64_t peak_bytes_ = 0;
  int64_t num_live_ = 0;
  uint64_t generation_ = 0;
  AccessLog* log_ = nullptr;
};

}  // namespace cotan::cuda::sim

#endif  // COTAN_KERNELS_CUDA_SIM_DEVICE_MEMORY_H_
