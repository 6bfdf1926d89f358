// SPDX-License-Identifier: Apache-2.0

// Reductions: the totals of threads are combined in an order that depends on the numbers of threads alone.
//
// A reduction is a type with
//   Total: the type of totals. f16 and bf16 have totals in float, small integers in 32 bits.
//   Start(): the neutral element
//   Add(a, b): the total of both
//
// Reductions that several blocks share: the work of a launch is a list of items, one per block, and an item may wait
// for earlier ones. A block takes the next item when it starts, so that the items before it have been taken by blocks
// that run: no wait is for a block that has not started, however many run at a time. Counters are zero before and after
// each launch; launches that share counters follow each other.
#pragma once

#include "cotan/math.cuh"

namespace cotan {

template <typename T>
struct TotalTypeOf {
  using Type = int32;  // bool and integers of up to 32 bits
};
template <>
struct TotalTypeOf<int64> {
  using Type = int64;
};
template <>
struct TotalTypeOf<float> {
  using Type = float;
};
template <>
struct TotalTypeOf<double> {
  using Type = double;
};

template <typename T>
struct Sum {
  using Total = typename TotalTypeOf<T>::Type;
  __device__ static Total Start() { return 0; }
  __device__ static Total Add(Total a, Total b) {
    if constexpr (kIsFloat<Total>) {
      return a + b;
    } else {
      return cotan::Add(a, b);
    }
  }
};
template <>
struct Sum<bool> {
  using Total = int32;
  __device__ static Total Start() { return 0; }
  __device__ static Total Add(Total a, Total b) { return a | b; }
};
template <typename T>
struct Product {
  using Total = typename TotalTypeOf<T>::Type;
  __device__ static Total Start() { return 1; }
  __device__ static Total Add(Total a, Total b) {
    if constexpr (kIsFloat<Total>) {
      return a * b;
    } else {
      return cotan::Mul(a, b);
    }
  }
};

// Returns the lowest and the highest value of T.
template <typename T>
__device__ inline T Lowest() {
  if constexpr (sizeof(T) == 4 && kIsFloat<T>) {
    return __int_as_float(0xff800000);
  } else if constexpr (kIsFloat<T>) {
    return __longlong_as_double(0xfff0000000000000ll);
  } else {
    return T(-1) < T(0) ? static_cast<T>(1ull << (sizeof(T) * 8 - 1)) : T(0);
  }
}
template <typename T>
__device__ inline T Highest() {
  if constexpr (kIsFloat<T>) {
    return -Lowest<T>();
  } else {
    return T(-1) < T(0) ? static_cast<T>(~(1ull << (sizeof(T) * 8 - 1))) : T(-1);
  }
}
template <>
__device__ inline bool Lowest<bool>() {
  return false;
}
template <>
__device__ inline bool Highest<bool>() {
  return true;
}

// NaN if any value is NaN.
template <typename T>
struct Max {
  using Total = typename TotalTypeOf<T>::Type;
  __device__ static Total Start() { return Lowest<T>(); }
  __device__ static Total Add(Total a, Total b) { return Maximum(a, b); }
};
template <typename T>
struct Min {
  using Total = typename TotalTypeOf<T>::Type;
  __device__ static Total Start() { return Highest<T>(); }
  __device__ static Total Add(Total a, Total b) { return Minimum(a, b); }
};

// Returns, in each thread, the total of its group of kLanes consecutive threads. All threads of the warp call it.
template <typename R, int kLanes>
__device__ inline typename R::Total ReduceLanes(typename R::Total total) {
#pragma unroll
  for (int distance = 1; distance < kLanes; distance *= 2) {
    total = R::Add(total, __shfl_xor_sync(0xffffffffu, total, distance));
  }
  return total;
}

// Returns shared memory for kCount totals, the same for all types of totals.
template <typename Total, int kCount>
__device__ inline Total* SharedTotals() {
  __shared__ uint64 memory[kCount];
  return reinterpret_cast<Total*>(memory);
}

// Returns the total of the block's kThreads threads in each thread. All threads call it.
template <typename R, int kThreads>
__device__ inline typename R::Total ReduceBlock(typename R::Total total) {
  if constexpr (kThreads <= 32) {
    return ReduceLanes<R, kThreads>(total);
  } else {
    constexpr int kWarps = kThreads / 32;
    typename R::Total* const warps = SharedTotals<typename R::Total, kWarps>();
    total = ReduceLanes<R, 32>(total);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = total;
    __syncthreads();
    total = ReduceLanes<R, kWarps>(warps[threadIdx.x % kWarps]);
    __syncthreads();
    return total;
  }
}

// Returns, in each thread, the total of the kRows threads of the block that are kColumns apart. All threads call it.
template <typename R, int kColumns, int kRows>
__device__ inline typename R::Total ReduceColumn(typename R::Total total) {
  if constexpr (kRows == 1) {
    return total;
  } else if constexpr (kRows <= 8 || kColumns > 32) {
    typename R::Total* const totals = SharedTotals<typename R::Total, kRows * kColumns>();
    const int column = threadIdx.x % kColumns;
    totals[threadIdx.x] = total;
    __syncthreads();
    total = totals[column];
#pragma unroll
    for (int row = 1; row < kRows; ++row) total = R::Add(total, totals[row * kColumns + column]);
    __syncthreads();
    return total;
  } else {
    // Warps add their rows; then a warp adds a part of the warps' totals of a column.
    constexpr int kWarps = kColumns * kRows / 32;
    constexpr int kStride = kColumns + 1;  // banks
    typename R::Total* const totals = SharedTotals<typename R::Total, kWarps * kStride + kColumns>();
    typename R::Total* const finished = totals + kWarps * kStride;
    const int column = threadIdx.x % kColumns;
#pragma unroll
    for (int distance = kColumns; distance < 32; distance *= 2) {
      total = R::Add(total, __shfl_xor_sync(0xffffffffu, total, distance));
    }
    if (threadIdx.x % 32 < kColumns) totals[threadIdx.x / 32 * kStride + column] = total;
    __syncthreads();
    if (threadIdx.x < (kColumns * kWarps + 31) / 32 * 32) {
      const int warp = threadIdx.x % kWarps;
      const int of = threadIdx.x / kWarps % kColumns;
      total = ReduceLanes<R, kWarps>(totals[warp * kStride + of]);
      if (warp == 0 && threadIdx.x < kColumns * kWarps) finished[of] = total;
    }
    __syncthreads();
    return finished[column];
  }
}

// Hides from the compiler that `index` is what it was: addresses that depend on it are then computed again, instead of
// staying in registers.
__device__ inline void Renew(uint32& index) { asm volatile("" : "+r"(index)); }
__device__ inline void Renew(uint64& index) { asm volatile("" : "+l"(index)); }

// Returns the number of the block's item, of `items` items of the launch. All threads call it, once.
__device__ inline uint32 TakeItem(uint32* next, uint32 items) {
  __shared__ uint32 item;
  if (threadIdx.x == 0) item = atomicInc(next, items - 1);  // becomes 0 after the last one
  __syncthreads();
  return item;
}

// Waits until at least `count` items that share `finished` are finished; then sees what they wrote. All threads call
// it.
__device__ inline void WaitForItems(uint32* finished, uint32 count) {
  if (threadIdx.x == 0) {
    while (*static_cast<volatile uint32*>(finished) < count) {
    }
    __threadfence();
  }
  __syncthreads();
}

// Finishes the block's item, one of `items` that share `finished`. All threads call it, and nothing follows.
__device__ inline void FinishItem(uint32* finished, uint32 items) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    atomicInc(finished, items - 1);  // becomes 0 after the last one, for which none waits
  }
}

}  // namespace cotan
