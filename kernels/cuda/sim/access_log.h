// SPDX-License-Identifier: Apache-2.0

// The device memory that a piece of work accesses.
#ifndef COTAN_KERNELS_CUDA_SIM_ACCESS_LOG_H_
#define COTAN_KERNELS_CUDA_SIM_ACCESS_LOG_H_

#include <cstdint>
#include <optional>
#include <vector>

namespace cotan::cuda::sim {

// Sets of bytes that were read and written. Adding is amortised O(1) for runs of addresses.
class AccessLog {
 public:
  struct Range {
    uint64_t begin = 0;
    uint64_t end = 0;  // Exclusive.
  };
  // A byte that both logs have and at least one of them writes.
  struct Conflict {
    uint64_t address = 0;
    bool first_writes = false;
    bool second_writes = false;
  };

  void AddRead(uint64_t address, uint64_t bytes) { Add(reads_, {address, address + bytes}); }
  void AddWrite(uint64_t address, uint64_t bytes) { Add(writes_, {address, address + bytes}); }

  // Sorts and merges the ranges; before FindConflict.
  void Finish();

  // Returns the conflict at the lowest address, if there is one. Both logs are finished.
  static std::optional<Conflict> FindConflict(const AccessLog& first, const AccessLog& second);

 private:
  static void Add(std::vector<Range>& ranges, Range range);
  static void Merge(std::vector<Range>& ranges);

  std::vector<Range> reads_;
  std::vector<Range> writes_;
};

}  // namespace cotan::cuda::sim

#endif  // COTAN_KERNELS_CUDA_SIM_ACCESS_LOG_H_
