// SPDX-License-Identifier: Apache-2.0

// Reductions: the totals of threads are combined in an order that depends on the numbers of threads alone.
//
// A reduction is a type with
//   Total: the type of totals. f16 and bf16 have totals in float, small integers in 32 bits.
//   Start(): the neutral element
//   Add(a, b): the total of both
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
    typename R::Total* const warps = SharedTotals<typename R::Total, kThreads / 32>();
    total = ReduceLanes<R, 32>(total);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = total;
    __syncthreads();
    total = warps[0];
#pragma unroll
    for (int warp = 1; warp < kThreads / 32; ++warp) total = R::Add(total, warps[warp]);
    __syncthreads();
    return total;
  }
}

// Returns, in each thread, the total of the kRows threads of the block that are kColumns apart. All threads call it.
template <typename R, int kColumns, int kRows>
__device__ inline typename R::Total ReduceColumn(typename R::Total total) {
  if constexpr (kRows == 1) {
    return total;
  } else {
    typename R::Total* const totals = SharedTotals<typename R::Total, kRows * kColumns>();
    const int column = threadIdx.x % kColumns;
    totals[threadIdx.x] = total;
    __syncthreads();
    total = totals[column];
#pragma unroll 8
    for (int row = 1; row < kRows; ++row) total = R::Add(total, totals[row * kColumns + column]);
    __syncthreads();
    return total;
  }
}

}  // namespace cotan
