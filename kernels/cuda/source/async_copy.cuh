// SPDX-License-Identifier: Apache-2.0

// Copies from global to shared memory that pass no registers (cp.async).
#pragma once

#include "cotan/types.cuh"

namespace cotan {

// Returns the address of a pointer to shared memory within it.
__device__ inline uint32 SharedAddress(const void* pointer) {
  uint64 address;
  asm("cvta.to.shared.u64 %0, %1;" : "=l"(address) : "l"(pointer));
  return static_cast<uint32>(address);
}

// Starts to copy an element, or zeros if it does not exist. The L1 cache keeps it, for neighbours that read it again.
template <typename T>
__device__ inline void StartCopy(uint32 to, const T* from, bool exists) {
  constexpr int kBytes = sizeof(T) < 16 ? static_cast<int>(sizeof(T)) : 16;
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(T)); i += kBytes) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to + i),
                 "l"(reinterpret_cast<const unsigned char*>(from) + i), "n"(kBytes), "r"(exists ? kBytes : 0)
                 : "memory");
  }
}

// Starts to copy 16 bytes, or zeros, past the L1 cache.
__device__ inline void StartCopyOf16(uint32 to, const void* from, bool exists) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(exists ? 16 : 0) : "memory");
}

// Ends a group of copies of this thread.
__device__ inline void EndCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits for all groups of copies of this thread but the last kPending.
template <int kPending>
__device__ inline void WaitForCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Waits for all copies of this thread, also those that are not in a group.
__device__ inline void WaitForAllCopies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

}  // namespace cotan
