// SPDX-License-Identifier: Apache-2.0

// Pools over one to three spatial axes, forward and backward. A thread computes kVector consecutive elements of the
// output; the backward gathers from all windows that contain an element, so that each element is written once.
//
// A pool is a type P with
//   Element, Sum: f32 for halves; Index (unsigned, of offsets), Int (signed, of coordinates)
//   Position: i32 or i64, of the indices of a maximum
//   Depth, Height, Width: Axis
//   Elements: Dims of (to, from, index, depth, height, width, position): offsets in the output, in the operand that is
//     pooled and in the indices without the spatial axes of both, coordinates, row-major position in the indices
//     without the spatial axes
//   kFrom0, kFrom1, kFrom2: strides of the spatial axes of the operand that is pooled; kIndex0... of the indices
//   kVector; kPositionLane: distance of the positions of neighbouring elements of a vector
//   kCountPadding, kDivisor: attributes of an average; kHasIndex; kRecords: whether the backward checks the indices
#pragma once

#include "cotan/copy_dims.cuh"
#include "cotan/copy_values.cuh"
#include "cotan/error.cuh"

namespace cotan::pool {

// The windows along one axis of the pool's input.
template <typename Int, int64 input, int64 output, int64 kernel, int64 stride, int64 padding, int64 dilation>
struct Axis {
  static constexpr Int kInput = input;
  static constexpr Int kOutput = output;
  static constexpr Int kKernel = kernel;
  static constexpr Int kDilation = dilation;
  // Whether no window extends into the padding.
  static constexpr bool kIsInside = padding == 0 && (output - 1) * stride + (kernel - 1) * dilation < input;
  static constexpr int kUnroll = kernel <= 8 ? static_cast<int>(kernel) : 4;

  // Returns the position of the first tap of window `o`, negative in the padding.
  __device__ static Int Origin(Int o) { return o * static_cast<Int>(stride) - static_cast<Int>(padding); }
  __device__ static bool Contains(Int position) { return kIsInside || (position >= 0 && position < kInput); }
  // Returns the first and the last window that may contain position `i`: all that do if the dilation is 1.
  __device__ static Int FirstWindow(Int i) {
    const Int behind = i + static_cast<Int>(padding) - (kKernel - 1) * kDilation;
    return behind <= 0 ? 0 : (behind + static_cast<Int>(stride) - 1) / static_cast<Int>(stride);
  }
  __device__ static Int LastWindow(Int i) {
    const Int last = (i + static_cast<Int>(padding)) / static_cast<Int>(stride);
    return last < kOutput ? last : kOutput - 1;
  }
  // Whether Size() is the same for all windows.
  __device__ static constexpr bool HasOneSize(bool counts_padding) {
    return kIsInside || (counts_padding && (output - 1) * stride + kernel <= input + 2 * padding);
  }
  // Returns the number of taps of window `o` that an average divides by.
  __device__ static Int Size(Int o, bool counts_padding) {
    if (HasOneSize(counts_padding)) return kKernel;
    const Int begin = Origin(o);
    const Int padded =
        begin + kKernel < kInput + static_cast<Int>(padding) ? begin + kKernel : kInput + static_cast<Int>(padding);
    if (counts_padding) return padded - begin;
    return (padded < kInput ? padded : kInput) - (begin > 0 ? begin : 0);
  }
};

template <typename T>
__device__ inline T Lowest(T) {
  return static_cast<T>(static_cast<int64>(0x8000000000000000ull));
}
__device__ inline float Lowest(float) { return __int_as_float(static_cast<int>(0xff800000u)); }
__device__ inline double Lowest(double) { return __longlong_as_double(static_cast<long long>(0xfff0000000000000ull)); }

// The elements of a thread.
template <typename P>
struct Place {
  using Index = typename P::Index;
  using Int = typename P::Int;
  static constexpr int64 kThreads = P::Elements::kCount / P::kVector;
  __device__ Place() {
    const Index thread = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
    inside = thread < static_cast<Index>(kThreads);
    if (inside) P::Elements::Locate(thread * static_cast<Index>(P::kVector), at);
  }
  __device__ Int Coordinate(int axis) const { return static_cast<Int>(at[3 + axis]); }
  bool inside;
  Index at[7] = {};
};

template <typename P, typename T>
__device__ inline bool IsPackAligned(const T* pointer) {
  return IsAligned<P::kVector* static_cast<int>(sizeof(T))>(pointer);
}

// Calls fn(pointer to the elements, flat position in the plane) for each tap of the window of `place`, in order.
template <typename P, typename Fn>
__device__ inline void ForEachTap(const Place<P>& place, const typename P::Element* from, Fn fn) {
  using Int = typename P::Int;
  using Index = typename P::Index;
  using D = typename P::Depth;
  using H = typename P::Height;
  using W = typename P::Width;
  const Int d0 = D::Origin(place.Coordinate(0));
  const Int h0 = H::Origin(place.Coordinate(1));
  const Int w0 = W::Origin(place.Coordinate(2));
#pragma unroll D::kUnroll
  for (Int kd = 0; kd < D::kKernel; ++kd) {
    const Int d = d0 + kd * D::kDilation;
    if (!D::Contains(d)) continue;
#pragma unroll H::kUnroll
    for (Int kh = 0; kh < H::kKernel; ++kh) {
      const Int h = h0 + kh * H::kDilation;
      if (!H::Contains(h)) continue;
#pragma unroll W::kUnroll
      for (Int kw = 0; kw < W::kKernel; ++kw) {
        const Int w = w0 + kw * W::kDilation;
        if (!W::Contains(w)) continue;
        fn(from + (place.at[1] + static_cast<Index>(d) * static_cast<Index>(P::kFrom0) +
                   static_cast<Index>(h) * static_cast<Index>(P::kFrom1) +
                   static_cast<Index>(w) * static_cast<Index>(P::kFrom2)),
           (d * H::kInput + h) * W::kInput + w);
      }
    }
  }
}

// Calls fn(d, h, w) with the coordinates of each window that may contain the place, in order.
template <typename P, typename Fn>
__device__ inline void ForEachWindow(const Place<P>& place, Fn fn) {
  using Int = typename P::Int;
  const Int d_last = P::Depth::LastWindow(place.Coordinate(0));
  const Int h_first = P::Height::FirstWindow(place.Coordinate(1));
  const Int h_last = P::Height::LastWindow(place.Coordinate(1));
  const Int w_first = P::Width::FirstWindow(place.Coordinate(2));
  const Int w_last = P::Width::LastWindow(place.Coordinate(2));
  for (Int d = P::Depth::FirstWindow(place.Coordinate(0)); d <= d_last; ++d) {
    for (Int h = h_first; h <= h_last; ++h) {
      for (Int w = w_first; w <= w_last; ++w) fn(d, h, w);
    }
  }
}

// Returns the offset of a window in the operand that is pooled.
template <typename P>
__device__ inline typename P::Index WindowOffset(const Place<P>& place, typename P::Int d, typename P::Int h,
                                                 typename P::Int w) {
  using Index = typename P::Index;
  return place.at[1] + static_cast<Index>(d) * static_cast<Index>(P::kFrom0) +
         static_cast<Index>(h) * static_cast<Index>(P::kFrom1) + static_cast<Index>(w) * static_cast<Index>(P::kFrom2);
}

template <typename P>
__device__ inline void StoreSums(const typename P::Sum (&sums)[P::kVector], bool aligned, typename P::Element* to) {
  typename P::Element values[P::kVector];
#pragma unroll
  for (int v = 0; v < P::kVector; ++v) Narrow(sums[v], values[v]);
  StoreElements<P::kVector>(values, aligned, to);
}

// The kernels. The last of equal NaN, the first of equal numbers is the maximum.
template <typename P>
__device__ inline void Max(const typename P::Element* from, typename P::Element* to, typename P::Position* index) {
  using Sum = typename P::Sum;
  using Int = typename P::Int;
  const Place<P> place;
  if (!place.inside) return;
  const bool aligned = IsPackAligned<P>(from) && IsPackAligned<P>(to) && (!P::kHasIndex || IsPackAligned<P>(index));
  Sum best[P::kVector];
  Int position[P::kVector];
#pragma unroll
  for (int v = 0; v < P::kVector; ++v) {
    best[v] = Lowest(Sum{});
    position[v] = -1;
  }
  ForEachTap(place, from, [&](const typename P::Element* at, Int flat) {
    typename P::Element values[P::kVector];
    LoadElements<P::kVector>(at, aligned, values);
#pragma unroll
    for (int v = 0; v < P::kVector; ++v) {
      const Sum value = Widen(values[v]);
      const bool takes = position[v] < 0 || value > best[v] || value != value;
      best[v] = takes ? value : best[v];
      position[v] = takes ? flat : position[v];
    }
  });
  StoreSums<P>(best, aligned, to + place.at[0]);
  if (!P::kHasIndex) return;
  typename P::Position positions[P::kVector];
#pragma unroll
  for (int v = 0; v < P::kVector; ++v) {
    positions[v] = static_cast<typename P::Position>(position[v] < 0 ? 0 : position[v]);
  }
  StoreElements<P::kVector>(positions, aligned, index + place.at[2]);
}

template <typename P>
__device__ inline typename P::Sum Divisor(typename P::Int d, typename P::Int h, typename P::Int w) {
  if (P::kDivisor != 0) return static_cast<typename P::Sum>(P::kDivisor);
  return static_cast<typename P::Sum>(static_cast<int64>(P::Depth::Size(d, P::kCountPadding)) *
                                      P::Height::Size(h, P::kCountPadding) * P::Width::Size(w, P::kCountPadding));
}

// Returns 1 / x, rounded to nearest, for a positive integer. For floats it does without the subroutine that divisions
// need for subnormal numbers.
__device__ inline float Reciprocal(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return __fmaf_rn(result, __fmaf_rn(-x, result, 1.0f), result);
}
__device__ inline double Reciprocal(double x) { return 1 / x; }

// Returns 1 / Divisor().
template <typename P>
__device__ inline typename P::Sum Scale(typename P::Int d, typename P::Int h, typename P::Int w) {
  constexpr bool kIsConstant =
      P::kDivisor != 0 || (P::Depth::HasOneSize(P::kCountPadding) && P::Height::HasOneSize(P::kCountPadding) &&
                           P::Width::HasOneSize(P::kCountPadding));
  return kIsConstant ? 1 / Divisor<P>(d, h, w) : Reciprocal(Divisor<P>(d, h, w));
}

template <typename P>
__device__ inline void Average(const typename P::Element* from, typename P::Element* to) {
  const Place<P> place;
  if (!place.inside) return;
  const bool aligned = IsPackAligned<P>(from) && IsPackAligned<P>(to);
  typename P::Sum sums[P::kVector] = {};
  ForEachTap(place, from, [&](const typename P::Element* at, typename P::Int) {
    typename P::Element values[P::kVector];
    LoadElements<P::kVector>(at, aligned, values);
#pragma unroll
    for (int v = 0; v < P::kVector; ++v) sums[v] += Widen(values[v]);
  });
  const typename P::Sum divisor = Divisor<P>(place.Coordinate(0), place.Coordinate(1), place.Coordinate(2));
#pragma unroll
  for (int v = 0; v < P::kVector; ++v) sums[v] /= divisor;
  StoreSums<P>(sums, aligned, to + place.at[0]);
}

template <typename P>
__device__ inline void AverageBackward(const typename P::Element* from, typename P::Element* to) {
  using Int = typename P::Int;
  const Place<P> place;
  if (!place.inside) return;
  const bool aligned = IsPackAligned<P>(from) && IsPackAligned<P>(to);
  typename P::Sum sums[P::kVector] = {};
  ForEachWindow(place, [&](Int d, Int h, Int w) {
    typename P::Element values[P::kVector];
    LoadElements<P::kVector>(from + WindowOffset(place, d, h, w), aligned, values);
    const typename P::Sum scale = Scale<P>(d, h, w);
#pragma unroll
    for (int v = 0; v < P::kVector; ++v) sums[v] += Widen(values[v]) * scale;
  });
  StoreSums<P>(sums, aligned, to + place.at[0]);
}

// Returns the offset of a window in the indices.
template <typename P>
__device__ inline typename P::Index IndexOffset(const Place<P>& place, typename P::Int d, typename P::Int h,
                                                typename P::Int w) {
  using Index = typename P::Index;
  return place.at[2] + static_cast<Index>(d) * static_cast<Index>(P::kIndex0) +
         static_cast<Index>(h) * static_cast<Index>(P::kIndex1) +
         static_cast<Index>(w) * static_cast<Index>(P::kIndex2);
}

template <typename P>
__device__ inline bool IsInPlane(int64 index) {
  return index >= 0 && index < int64{P::Depth::kInput} * P::Height::kInput * P::Width::kInput;
}

// Records the indices outside the plane of all windows that may contain the place.
template <typename P>
__device__ inline void RecordWindows(const Place<P>& place, const typename P::Position* index, ErrorRecord* record,
                                     unsigned op) {
  using Int = typename P::Int;
  ForEachWindow(place, [&](Int d, Int h, Int w) {
    const int64 window = (static_cast<int64>(d) * P::Height::kOutput + h) * P::Width::kOutput + w;
#pragma unroll 1
    for (int v = 0; v < P::kVector; ++v) {
      const int64 value = index[IndexOffset(place, d, h, w) + static_cast<typename P::Index>(v)];
      if (IsInPlane<P>(value)) continue;
      RecordError(record, op, static_cast<int64>(place.at[6]) + v * P::kPositionLane + window, value);
    }
  });
}

template <typename P>
__device__ inline void MaxBackward(const typename P::Element* from, const typename P::Position* index,
                                   typename P::Element* to, ErrorRecord* record, unsigned op) {
  using Int = typename P::Int;
  const Place<P> place;
  if (!place.inside) return;
  const bool aligned = IsPackAligned<P>(from) && IsPackAligned<P>(to) && IsPackAligned<P>(index);
  const Int flat =
      (place.Coordinate(0) * P::Height::kInput + place.Coordinate(1)) * P::Width::kInput + place.Coordinate(2);
  typename P::Sum sums[P::kVector] = {};
  bool is_valid = true;
  ForEachWindow(place, [&](Int d, Int h, Int w) {
    typename P::Position indices[P::kVector];
    LoadElements<P::kVector>(index + IndexOffset(place, d, h, w), aligned, indices);
    bool is_any = false;
    bool is_here[P::kVector];
#pragma unroll
    for (int v = 0; v < P::kVector; ++v) {
      is_valid = is_valid && IsInPlane<P>(indices[v]);
      is_here[v] = static_cast<Int>(indices[v]) == flat;
      is_any = is_any || is_here[v];
    }
    if (!is_any) return;
    typename P::Element values[P::kVector];
    LoadElements<P::kVector>(from + WindowOffset(place, d, h, w), aligned, values);
#pragma unroll
    for (int v = 0; v < P::kVector; ++v) {
      if (is_here[v]) sums[v] += Widen(values[v]);
    }
  });
  StoreSums<P>(sums, aligned, to + place.at[0]);
  if (P::kRecords && !is_valid) RecordWindows(place, index, record, op);
}

}  // namespace cotan::pool
