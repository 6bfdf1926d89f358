// SPDX-License-Identifier: Apache-2.0

// Reductions: the totals of threads are combined in an order that depends on the numbers of threads alone.
//
// A reduction is a type with
//   Total: the type of totals. f16 and bf16 have totals in float, small integers in 32 bits.
//   Start(): the neutral element
//   Add(a, b): the total of both
//
// Reductions that several blocks share: the blocks of a `Team` have one part each of the same reductions. They exchange
// the totals of their parts in words of device memory, which hold a total and the number of the launch: a block that
// reads a word of the current launch has the total, without a fence. Words are never reset; launches that share them
// follow each other.
//
// A block waits for another one only if that has started. A block of which not all others have started within some 50
// us (a small GPU, or one that also runs something else) leaves, and the last block to start handles its part, too.
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

// A value by which a thread divides many others: `mantissa` / (`scale` * `scale2`), the mantissa in [1, 2) if the value
// is finite and not 0.
struct Divisor {
  float mantissa;
  float reciprocal;  // of the mantissa, rounded to nearest
  float scale = 1.0f;
  float scale2 = 1.0f;

  __device__ explicit Divisor(float value) : mantissa(value) {
    constexpr float kTwoTo64 = 18446744073709551616.0f;
    const bool is_subnormal = fabsf(value) < 1.17549435e-38f;
    const uint32 bits = __float_as_uint(is_subnormal ? value * kTwoTo64 : value);
    const int32 exponent = static_cast<int32>(bits >> 23 & 0xffu);
    if (exponent > 0 && exponent < 255) {
      mantissa = __uint_as_float((bits & 0x807fffffu) | 0x3f800000u);
      scale = is_subnormal ? kTwoTo64 : exponent > 127 ? 0.5f : 1.0f;
      scale2 = __uint_as_float(static_cast<uint32>((exponent > 127 ? 255 : 254) - exponent) << 23);
    }
    reciprocal = 1.0f / mantissa;
  }
};

// Returns a / by, without branches. The quotient by the reciprocal is corrected by its remainder, twice: the second
// time it is within one unit in the last place, and the reciprocal is rounded to nearest, from which it follows that
// the result is rounded to nearest, too. So are all quotients but subnormal ones and those of |a| < 2^-100, which may
// be one unit off.
__device__ inline float Quotient(float a, const Divisor& by) {
  const float first = a * by.reciprocal;
  const float second = __fmaf_rn(__fmaf_rn(-first, by.mantissa, a), by.reciprocal, first);
  const float third = __fmaf_rn(__fmaf_rn(-second, by.mantissa, a), by.reciprocal, second);
  const float magnitude = fabsf(first);
  const bool is_number = magnitude > 0 && magnitude < __uint_as_float(0x7f800000u);
  return (is_number ? third : first) * by.scale * by.scale2;
}

// Hides from the compiler that `index` is what it was: addresses that depend on it are then computed again, instead of
// staying in registers.
__device__ inline void Renew(uint32& index) { asm volatile("" : "+r"(index)); }
__device__ inline void Renew(uint64& index) { asm volatile("" : "+l"(index)); }

// Words of a team, in device memory that is zero before the first launch: a state, the parts that were left, and then
// totals.
template <int kParts>
struct Team {
  // The state: how often blocks of the team started, in all launches, and how many of this launch have left.
  static constexpr uint64 kStarts = (1ull << 40) - 1;
  static constexpr uint64 kLeft = 1ull << 40;

  uint64* words;
  uint64 state;          // as thread 0 saw it last
  uint64 launch = 0;     // in thread 0
  uint32 tag = 0;        // of this launch
  uint32 left = 0;       // blocks whose parts this block handles, too
  bool is_last = false;  // the last one to start

  // Joins the team. All threads do so, once, before they load anything else.
  __device__ explicit Team(uint64* words) : words(words), state(threadIdx.x == 0 ? atomicAdd(words, 1ull) : 0) {}

  // Learns which launch this is, and whether the block is the last one. All threads call it, once.
  __device__ void Meet() {
    __shared__ uint32 shared[2];
    if (threadIdx.x == 0) {
      const uint64 starts = state & kStarts;
      const uint64 gone = state & ~kStarts;
      launch = starts / kParts;
      const bool last = starts % kParts == kParts - 1;
      if (last && gone != 0) atomicAdd(words, 0 - gone);
      shared[0] = static_cast<uint32>(launch) + 1;
      shared[1] = last ? 1 + static_cast<uint32>(gone / kLeft) : 0;
      state = Read(words);
    }
    __syncthreads();
    tag = shared[0];
    is_last = shared[1] != 0;
    left = is_last ? shared[1] - 1 : 0;
  }

  // Returns true if the block has to end, because others have not started: the last one handles the other phases of
  // `part`. All threads call it, once, after they stored the totals of the first phase.
  __device__ bool Leaves(uint32 part) {
    __shared__ bool leaves;
    if (threadIdx.x == 0) leaves = !AwaitStarts() && TryToLeave(part);
    __syncthreads();
    return leaves;
  }

  // Returns the part that block `i` of `left` blocks left, and sees what that block wrote. All threads call it.
  __device__ uint32 PartLeft(uint32 i) const {
    const uint32 part = Await(words + 1 + i, Read(words + 1 + i));
    __threadfence();
    return part;
  }

  // Stores the block's total number `i` of those that start at word `first`.
  template <typename Total>
  __device__ void Publish(uint32 first, uint32 i, Total total) const {
    uint64* const to = WordOf<Total>(first, i);
    const uint64 bits = BitsOfTotal(total);
    Write(to, static_cast<uint32>(bits));
    if constexpr (sizeof(Total) == 8) Write(to + 1, static_cast<uint32>(bits >> 32));
  }

  // Waits for the totals of a reduction and adds those of parts `lane`, `lane` + kLanes, ... of one of kColumns
  // columns.
  template <typename R, int kColumns, int kLanes>
  __device__ typename R::Total Collect(uint32 first, uint32 lane, uint32 column) const {
    using Total = typename R::Total;
    constexpr int kSteps = (kParts + kLanes - 1) / kLanes;
    constexpr int kBatch = kSteps < 8 ? kSteps : 8;  // words that are read at the same time
    Total total = R::Start();
#pragma unroll 1
    for (int step = 0; step < kSteps; step += kBatch) {
      uint64 contents[kBatch];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const uint32 part = lane + (step + i) * kLanes;
        if (part < kParts) contents[i] = Read(WordOf<Total>(first, part * kColumns + column));
      }
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const uint32 part = lane + (step + i) * kLanes;
        if (part >= kParts) break;
        const uint64* const from = WordOf<Total>(first, part * kColumns + column);
        uint64 bits = Await(from, contents[i]);
        if constexpr (sizeof(Total) == 8) bits |= static_cast<uint64>(Await(from + 1, Read(from + 1))) << 32;
        Total other;
        SetTotal(bits, &other);
        total = R::Add(total, other);
      }
    }
    return total;
  }

 private:
  __device__ static uint64 BitsOfTotal(int32 total) { return static_cast<uint32>(total); }
  __device__ static uint64 BitsOfTotal(int64 total) { return static_cast<uint64>(total); }
  __device__ static uint64 BitsOfTotal(float total) { return __float_as_uint(total); }
  __device__ static uint64 BitsOfTotal(double total) { return static_cast<uint64>(__double_as_longlong(total)); }
  __device__ static void SetTotal(uint64 bits, int32* total) { *total = static_cast<int32>(bits); }
  __device__ static void SetTotal(uint64 bits, int64* total) { *total = static_cast<int64>(bits); }
  __device__ static void SetTotal(uint64 bits, float* total) { *total = __uint_as_float(static_cast<uint32>(bits)); }
  __device__ static void SetTotal(uint64 bits, double* total) {
    *total = __longlong_as_double(static_cast<int64>(bits));
  }

  template <typename Total>
  __device__ uint64* WordOf(uint32 first, uint32 i) const {
    return words + first + i * static_cast<uint32>(sizeof(Total) / 4);
  }
  __device__ static uint64 Read(const uint64* word) { return *static_cast<const volatile uint64*>(word); }
  __device__ void Write(uint64* word, uint32 value) const {
    *static_cast<volatile uint64*>(word) = static_cast<uint64>(tag) << 32 | value;
  }
  // Returns the value of a word whose content was `content`, when it is one of this launch.
  __device__ uint32 Await(const uint64* word, uint64 content) const {
    while (static_cast<uint32>(content >> 32) != tag) content = Read(word);
    return static_cast<uint32>(content);
  }

  __device__ bool HaveAllStarted() const { return (state & kStarts) / kParts > launch; }

  // Returns true if all blocks of the team have started within some time.
  __device__ bool AwaitStarts() {
    for (int poll = 0; poll < 12 && !HaveAllStarted(); ++poll) {
      if (poll >= 3) __nanosleep(100u << (poll - 3));
      state = Read(words);
    }
    return HaveAllStarted();
  }

  __device__ bool TryToLeave(uint32 part) {
    __threadfence();
    state = atomicAdd(words, kLeft);
    if (HaveAllStarted()) {
      atomicAdd(words, 0 - kLeft);
      return false;
    }
    Write(words + 1 + state / kLeft, part);
    return true;
  }
};

}  // namespace cotan
