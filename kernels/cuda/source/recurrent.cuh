// SPDX-License-Identifier: Apache-2.0

// Recurrent layers over all time steps. A block has some batch entries, which depend on no others, and takes all steps:
// first the product of their states with the weights, then the units. Weights that fit stay in registers and shared
// memory (recurrent_persistent.cuh); others are packed, and read from the L2 cache in each step.
//
// A layer is a type R with
//   Element; kCell; kSteps, kBatch, kHidden; kReverse
//   kEntries: batch entries of a block; kThreads: of a block
//   Product: the geometry of the products, and, with packed weights, Memory: where the states lie
//   a Sequence for each operand of recurrent_forward.cuh or recurrent_backward.cuh
#pragma once

#include "cotan/copy_values.cuh"
#include "cotan/error.cuh"
#include "cotan/math.cuh"
#include "cotan/multiply_add.cuh"

namespace cotan::recurrent {

constexpr int kTanh = 1;
constexpr int kRelu = 2;
constexpr int kLstm = 3;
constexpr int kGru = 4;

template <typename Element>
struct ComputeOf {
  using Type = float;
};
template <>
struct ComputeOf<double> {
  using Type = double;
};

// An operand by time step, batch entry and feature; strides in elements.
template <int64 step_stride, int64 row_stride, int64 column_stride>
struct Sequence {
  static constexpr int64 kStep = step_stride, kRow = row_stride, kColumn = column_stride;
  __device__ static int64 Offset(int64 step, int64 row, int64 column) {
    return step * step_stride + row * row_stride + column * column_stride;
  }
  template <typename Element>
  __device__ static typename ComputeOf<Element>::Type Load(const Element* from, int64 step, int64 row, int64 column) {
    return Widen(from[Offset(step, row, column)]);
  }
  template <typename Element>
  __device__ static void Store(typename ComputeOf<Element>::Type x, Element* to, int64 step, int64 row, int64 column) {
    Narrow(x, to[Offset(step, row, column)]);
  }
  // Brings an element closer, for a later step.
  template <typename Element>
  __device__ static void Prefetch(const Element* from, int64 step, int64 row, int64 column) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(from + Offset(step, row, column)));
  }
};

// --- Products ----------------------------------------------------------------

// The product of [entries, depth] by packed weights [depth, padded], of which the first `outputs` columns count. The
// depth is divided into `slices`, whose sums are added when they are used. A thread has `vector` columns at a time.
template <int64 depth, int64 outputs, int64 padded, int slices, int vector>
struct ProductGeometry {
  static constexpr int64 kDepth = depth, kOutputs = outputs, kPadded = padded;
  static constexpr int kSlices = slices, kVector = vector;
  static constexpr int64 kSliceDepth = (depth + slices - 1) / slices;
  static_assert(padded % vector == 0);
};

// Where the block's values lie: `words` of the compute type in shared memory, or in scratch if !in_shared.
template <bool in_shared, int64 words>
struct MemoryGeometry {
  static constexpr bool kInShared = in_shared;
  static constexpr int64 kWords = words;
};

extern __shared__ __align__(16) unsigned char shared_bytes[];

// Returns the memory for the block's values. `scratch` has kWords per block.
template <typename R>
__device__ inline typename ComputeOf<typename R::Element>::Type* BlockMemory(
    typename ComputeOf<typename R::Element>::Type* scratch) {
  using Compute = typename ComputeOf<typename R::Element>::Type;
  if constexpr (R::Memory::kInShared) {
    return reinterpret_cast<Compute*>(shared_bytes);
  } else {
    return scratch + static_cast<int64>(blockIdx.x) * R::Memory::kWords;
  }
}

// Multiplies x [kDepth, kEntries] by the weights; writes the sums of slices, [kSlices, kPadded, kEntries].
template <typename R>
__device__ inline void Multiply(const typename R::Element* weights,
                                const typename ComputeOf<typename R::Element>::Type* x,
                                typename ComputeOf<typename R::Element>::Type* sums) {
  using Element = typename R::Element;
  using Compute = typename ComputeOf<Element>::Type;
  using P = typename R::Product;
  constexpr int kGroups = P::kPadded / P::kVector;
  for (int item = threadIdx.x; item < kGroups * P::kSlices; item += R::kThreads) {
    const int slice = item / kGroups;
    const int column = item % kGroups * P::kVector;
    const int64 begin = slice * P::kSliceDepth;
    const int64 end = begin + P::kSliceDepth < P::kDepth ? begin + P::kSliceDepth : P::kDepth;
    Compute totals[R::kEntries][P::kVector] = {};
    const Element* from = weights + (begin * P::kPadded + column);
    const Compute* factors = x + begin * R::kEntries;
#pragma unroll 4
    for (int64 d = begin; d < end; ++d) {
      Element w[P::kVector];
      Compute entries[R::kEntries];
      LoadElements<P::kVector>(from, true, w);
      LoadElements<R::kEntries>(factors, true, entries);
      from += P::kPadded;
      factors += R::kEntries;
#pragma unroll
      for (int b = 0; b < R::kEntries; ++b) {
#pragma unroll
        for (int v = 0; v < P::kVector; ++v) totals[b][v] = MultiplyAdd(Widen(w[v]), entries[b], totals[b][v]);
      }
    }
#pragma unroll
    for (int v = 0; v < P::kVector; ++v) {
      Compute* const to = sums + (slice * P::kPadded + column + v) * R::kEntries;
#pragma unroll
      for (int b = 0; b < R::kEntries; ++b) to[b] = totals[b][v];
    }
  }
}

// Returns a result of Multiply().
template <typename R>
__device__ inline typename ComputeOf<typename R::Element>::Type Total(
    const typename ComputeOf<typename R::Element>::Type* sums, int64 output, int entry) {
  using P = typename R::Product;
  typename ComputeOf<typename R::Element>::Type total = sums[output * R::kEntries + entry];
#pragma unroll
  for (int slice = 1; slice < P::kSlices; ++slice) {
    total += sums[(slice * P::kPadded + output) * R::kEntries + entry];
  }
  return total;
}

// --- Weights -----------------------------------------------------------------

// Packs weights: to[d, o] = from[d * kDepthStride + o * kOutputStride], and 0 for o >= kOutputs. A block of 32 x 8
// threads has a tile of 32 x 32 elements; neighbouring threads read along the depth if kDepthInner.
template <typename P, typename Element, int64 kDepthStride, int64 kOutputStride>
__device__ inline void PackWeights(const Element* from, Element* to) {
  constexpr bool kDepthInner = kDepthStride < kOutputStride;
  constexpr int64 kOutputTiles = (P::kPadded + 31) / 32;
  __shared__ Element tile[32][33];
  const int64 d0 = static_cast<int64>(blockIdx.x) / kOutputTiles * 32;
  const int64 o0 = static_cast<int64>(blockIdx.x) % kOutputTiles * 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int i = static_cast<int>(threadIdx.x) / 32; i < 32; i += 8) {
    const int64 d = d0 + (kDepthInner ? lane : i);
    const int64 o = o0 + (kDepthInner ? i : lane);
    Element value = {};
    if (d < P::kDepth && o < P::kOutputs) value = from[d * kDepthStride + o * kOutputStride];
    tile[d - d0][o - o0] = value;
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x) / 32; i < 32; i += 8) {
    if (d0 + i < P::kDepth && o0 + lane < P::kPadded) to[(d0 + i) * P::kPadded + o0 + lane] = tile[i][lane];
  }
}

// --- Units -------------------------------------------------------------------

// Calls function(j, b, n) for each unit j of each batch entry n of the block, the b-th of its entries.
template <typename R, typename Function>
__device__ inline void ForEachUnit(Function function) {
  constexpr int64 kUnits = int64{R::kHidden} * R::kEntries;
  const int64 first = static_cast<int64>(blockIdx.x) * R::kEntries;
  for (int64 item = threadIdx.x; item < kUnits; item += R::kThreads) {
    const int b = static_cast<int>(item / R::kHidden);
    if (first + b < R::kBatch) function(item % R::kHidden, b, first + b);
  }
}

// Returns the time step that is computed as the i-th.
template <typename R>
__device__ inline int64 StepAt(int64 i) {
  return R::kReverse ? R::kSteps - 1 - i : i;
}

}  // namespace cotan::recurrent
