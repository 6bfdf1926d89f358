// SPDX-License-Identifier: Apache-2.0

// A plain GlobalMemory and a way to run PTX text on it, for the interpreter's own tests.
#ifndef COTAN_KERNELS_CUDA_SIM_PTX_PLAIN_MEMORY_H_
#define COTAN_KERNELS_CUDA_SIM_PTX_PLAIN_MEMORY_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "kernels/cuda/sim/ptx/counters.h"
#include "kernels/cuda/sim/ptx/global_memory.h"
#include "kernels/cuda/sim/ptx/interpreter.h"
#include "kernels/cuda/sim/ptx/launch.h"
#include "kernels/cuda/sim/ptx/program.h"
#include "kernels/cuda/sim/ptx/ptx_module.h"

namespace cotan::cuda::ptx {

// Allocations in a map, with a mark for each byte that was written.
class PlainMemory : public GlobalMemory {
 public:
  // Returns the address of `size` bytes that nothing wrote.
  uint64_t Allocate(uint64_t size) {
    blocks_.push_back({next_, std::vector<std::byte>(size), std::vector<uint8_t>(size)});
    next_ += (size + 4096 + 255) / 256 * 256;
    return blocks_.back().address;
  }

  // Returns the address of a copy of `values`.
  template <typename T>
  uint64_t Put(const std::vector<T>& values) {
    const uint64_t address = Allocate(values.size() * sizeof(T));
    Block& block = blocks_.back();
    std::memcpy(block.bytes.data(), values.data(), block.bytes.size());
    block.written.assign(block.bytes.size(), 1);
    return address;
  }

  // Returns the `count` values at `address`, the start of an allocation.
  template <typename T>
  std::vector<T> Get(uint64_t address, size_t count) const {
    std::vector<T> values(count);
    for (const Block& block : blocks_) {
      if (block.address == address) std::memcpy(values.data(), block.bytes.data(), count * sizeof(T));
    }
    return values;
  }

  absl::Status Load(const GlobalAccess& access, std::byte* to) override {
    COTAN_ASSIGN_OR_RETURN(Block * block, Find(access));
    const uint64_t offset = access.address - block->address;
    for (uint32_t i = 0; i < access.size; ++i) {
      if (!block->written[offset + i]) return absl::FailedPreconditionError("reads global memory never written");
    }
    std::memcpy(to, block->bytes.data() + offset, access.size);
    return absl::OkStatus();
  }

  absl::Status Store(const GlobalAccess& access, const std::byte* from) override {
    COTAN_ASSIGN_OR_RETURN(Block * block, Find(access));
    const uint64_t offset = access.address - block->address;
    std::memcpy(block->bytes.data() + offset, from, access.size);
    std::fill_n(block->written.begin() + static_cast<int64_t>(offset), access.size, 1);
    return absl::OkStatus();
  }

  absl::StatusOr<uint64_t> Atomic(const GlobalAccess& access, absl::FunctionRef<uint64_t(uint64_t)> update) override {
    uint64_t previous = 0;
    COTAN_RETURN_IF_ERROR(Load(access, reinterpret_cast<std::byte*>(&previous)));
    const uint64_t value = update(previous);
    COTAN_RETURN_IF_ERROR(Store(access, reinterpret_cast<const std::byte*>(&value)));
    return previous;
  }

  bool FindBlock(uint64_t address, GlobalBlock& found) override {
    for (Block& block : blocks_) {
      if (!direct_ || address - block.address >= block.bytes.size()) continue;
      found = {block.address, block.bytes.size(), block.bytes.data(), block.written.data()};
      return true;
    }
    return false;
  }

  // True: accesses may bypass Load and Store.
  void set_direct(bool direct) { direct_ = direct; }

 private:
  struct Block {
    uint64_t address;
    std::vector<std::byte> bytes;
    std::vector<uint8_t> written;
  };

  absl::StatusOr<Block*> Find(const GlobalAccess& access) {
    for (Block& block : blocks_) {
      if (access.address >= block.address && access.address + access.size <= block.address + block.bytes.size()) {
        return &block;
      }
    }
    return absl::OutOfRangeError("global access outside of every allocation");
  }

  uint64_t next_ = 0x7f0000000000;
  bool direct_ = true;
  std::vector<Block> blocks_;
};

// A parameter buffer filled in order.
class ParameterBuffer {
 public:
  template <typename T>
  ParameterBuffer& Add(T value) {
    bytes_.resize((bytes_.size() + sizeof(T) - 1) / sizeof(T) * sizeof(T) + sizeof(T));
    std::memcpy(bytes_.data() + bytes_.size() - sizeof(T), &value, sizeof(T));
    return *this;
  }
  std::vector<std::byte> Take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

// Runs `kernel` of `module`, whose variables get memory of their own.
inline absl::StatusOr<Counters> RunKernel(const Module& module, const std::string& kernel, const Launch& launch,
                                          PlainMemory& memory) {
  SymbolAddresses symbols;
  for (const Variable& variable : module.variables) symbols[variable.name] = memory.Put(variable.init);
  COTAN_ASSIGN_OR_RETURN(const Program program, Program::Create(module, kernel, symbols));
  return Execute(program, launch, memory);
}

}  // namespace cotan::cuda::ptx

#endif  // COTAN_KERNELS_CUDA_SIM_PTX_PLAIN_MEMORY_H_
