// SPDX-License-Identifier: Apache-2.0

// The memory of a simulated GPU as the PTX interpreter accesses it.
#ifndef COTAN_KERNELS_CUDA_SIM_GLOBAL_MEMORY_H_
#define COTAN_KERNELS_CUDA_SIM_GLOBAL_MEMORY_H_

#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/sim/device_memory.h"
#include "kernels/cuda/sim/ptx/global_memory.h"

namespace cotan::cuda::sim {

// Accesses a DeviceMemory. Remembers the last block, so that runs of accesses to one block are cheap.
//
//   DeviceGlobalMemory global(memory);
//   COTAN_ASSIGN_OR_RETURN(const ptx::Counters counters, ptx::Execute(program, launch, global));
class DeviceGlobalMemory final : public ptx::GlobalMemory {
 public:
  // Borrows `memory`.
  explicit DeviceGlobalMemory(DeviceMemory& memory) : memory_(memory) {}

  absl::Status Load(const ptx::GlobalAccess& access, std::byte* to) override;
  absl::Status Store(const ptx::GlobalAccess& access, const std::byte* from) override;
  absl::StatusOr<uint64_t> Atomic(const ptx::GlobalAccess& access,
                                  absl::FunctionRef<uint64_t(uint64_t)> update) override;
  bool FindBlock(uint64_t address, ptx::GlobalBlock& block) override;

 private:
  // Returns where the block that has all of `access` has it, or null.
  std::byte* Find(const ptx::GlobalAccess& access, uint8_t*& written);

  DeviceMemory& memory_;
  DeviceMemory::BlockView last_;
  uint64_t generation_ = 0;  // Of memory_ when last_ was found.
};

}  // namespace cotan::cuda::sim

#endif  // COTAN_KERNELS_CUDA_SIM_GLOBAL_MEMORY_H_
