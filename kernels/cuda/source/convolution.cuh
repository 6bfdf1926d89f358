// SPDX-License-Identifier: Apache-2.0

// The three products of a convolution as matrix products whose operands are gathered: element (row, step) of A times
// element (step, column) of B, summed over the steps, per group. Nothing is copied before.
//
// A convolution slides windows over the spatial dimensions of `wide` and has one element of `narrow` per window. Its
// geometry is a type with constants:
//   Element; Index (int or long long, as the extents of the operands need)
//   kBatch, kGroups; kWideChannels, kNarrowChannels (per group)
//   kWide0..2, kNarrow0..2, kKernel0..2, kStride0..2, kPadding0..2, kDilation0..2: three spatial dimensions
//   strides in elements: kWideN, kWideC, kWideS0..2; kNarrowN, ...; kWeightO, kWeightI, kWeightS0..2; kBias
//   kChannelInner: whether channels, and not kernel elements, are the fastest part of an index over both
#pragma once

#include "cotan/error.cuh"
#include "cotan/multiply_add.cuh"
#include "cotan/types.cuh"

namespace cotan::convolution {

template <typename Element>
struct Numeric {
  using Sum = float;
};
template <>
struct Numeric<double> {
  using Sum = double;
};

__device__ inline float Load(float16 x) { return ToFloat(x); }
__device__ inline float Load(bfloat16 x) { return ToFloat(x); }
__device__ inline float Load(float x) { return x; }
__device__ inline double Load(double x) { return x; }

__device__ inline void Store(float16* to, float x) { *to = ToFloat16(x); }
__device__ inline void Store(bfloat16* to, float x) { *to = ToBfloat16(x); }
__device__ inline void Store(float* to, float x) { *to = x; }
__device__ inline void Store(double* to, double x) { *to = x; }

// A divisor of an index that may be a size of 0, in code that is then not executed.
template <typename Index, Index kSize>
constexpr Index kDivisor = kSize > 0 ? kSize : 1;

// Hides from the compiler that an index is small: for products of small numbers it makes dot products of packed halves
// (dp2a), which are not faster here, and which the interpreter of the tests does not know.
__device__ inline void HideRange(int& x) { asm("" : "+r"(x)); }
__device__ inline void HideRange(long long& x) { asm("" : "+l"(x)); }

// A channel of a group and an element of the kernel.
template <typename S, typename S::Index kChannels>
struct ChannelTap {
  using Index = typename S::Index;
  static constexpr Index kTaps = S::kKernel0 * S::kKernel1 * S::kKernel2;
  static constexpr Index kCount = kChannels * kTaps;

  __device__ explicit ChannelTap(Index i) {
    constexpr Index kDivided = S::kChannelInner ? kDivisor<Index, kChannels> : kTaps;
    const Index high = i / kDivided;
    const Index low = i - high * kDivided;
    channel = S::kChannelInner ? low : high;
    const Index tap = S::kChannelInner ? high : low;
    t0 = tap / (S::kKernel1 * S::kKernel2);
    t1 = tap / S::kKernel2 % S::kKernel1;
    t2 = tap % S::kKernel2;
    HideRange(t0);
    HideRange(t1);
    HideRange(t2);
  }

  Index channel, t0, t1, t2;
};

// An image and a position in it.
template <typename Index, Index kSize0, Index kSize1, Index kSize2>
struct Pixel {
  __device__ explicit Pixel(Index i) {
    constexpr Index k2 = kDivisor<Index, kSize2>;
    constexpr Index k12 = k2 * kDivisor<Index, kSize1>;
    constexpr Index k012 = k12 * kDivisor<Index, kSize0>;
    image = i / k012;
    p0 = i / k12 % kDivisor<Index, kSize0>;
    p1 = i / k2 % kDivisor<Index, kSize1>;
    p2 = i % k2;
  }

  Index image, p0, p1, p2;
};

template <typename S>
using WidePixel = Pixel<typename S::Index, S::kWide0, S::kWide1, S::kWide2>;
template <typename S>
using NarrowPixel = Pixel<typename S::Index, S::kNarrow0, S::kNarrow1, S::kNarrow2>;

// The pointers of a product.
template <typename S>
struct Operands {
  const typename S::Element* a;
  const typename S::Element* b;
  const typename S::Element* bias;  // null for none
  typename S::Element* result;
};

// narrow = wide * weights: rows are windows, columns the channels of narrow, steps the products of a window.
template <typename S>
struct Forward {
  using Shape = S;
  using Index = typename S::Index;
  using Sum = typename Numeric<typename S::Element>::Sum;
  static constexpr Index kRows = S::kBatch * S::kNarrow0 * S::kNarrow1 * S::kNarrow2;
  static constexpr Index kColumns = S::kNarrowChannels;
  using Tap = ChannelTap<S, S::kWideChannels>;
  static constexpr Index kSteps = Tap::kCount;

  struct Row {
    __device__ Row(Index row, Index group) {
      const NarrowPixel<S> pixel(row);
      offset = pixel.image * S::kWideN + group * S::kWideChannels * S::kWideC;
      p0 = pixel.p0 * S::kStride0 - S::kPadding0;
      p1 = pixel.p1 * S::kStride1 - S::kPadding1;
      p2 = pixel.p2 * S::kStride2 - S::kPadding2;
    }
    Index offset, p0, p1, p2;
  };
  using Step = Tap;
  struct Column {
    __device__ Column(Index column, Index group) : offset((group * kColumns + column) * S::kWeightO) {}
    Index offset;
  };

  __device__ Sum A(const Row& row, const Step& step) const {
    const Index w0 = row.p0 + step.t0 * S::kDilation0;
    const Index w1 = row.p1 + step.t1 * S::kDilation1;
    const Index w2 = row.p2 + step.t2 * S::kDilation2;
    if (w0 < 0 || w0 >= S::kWide0 || w1 < 0 || w1 >= S::kWide1 || w2 < 0 || w2 >= S::kWide2) return 0;
    return Load(at.a[row.offset + step.channel * S::kWideC + w0 * S::kWideS0 + w1 * S::kWideS1 + w2 * S::kWideS2]);
  }
  __device__ Sum B(const Step& step, const Column& column) const {
    return Load(at.b[column.offset + step.channel * S::kWeightI + step.t0 * S::kWeightS0 + step.t1 * S::kWeightS1 +
                     step.t2 * S::kWeightS2]);
  }
  __device__ void Write(Index row, Index column, Index group, Sum sum) const {
    const NarrowPixel<S> pixel(row);
    const Index channel = group * kColumns + column;
    if (at.bias != nullptr) sum += Load(at.bias[channel * S::kBias]);
    Store(at.result + (pixel.image * S::kNarrowN + channel * S::kNarrowC + pixel.p0 * S::kNarrowS0 +
                       pixel.p1 * S::kNarrowS1 + pixel.p2 * S::kNarrowS2),
          sum);
  }

  Operands<S> at;
};

// wide = the gradient of Forward: rows are pixels of wide, columns its channels, steps the windows that cover a pixel.
template <typename S>
struct BackwardData {
  using Shape = S;
  using Index = typename S::Index;
  using Sum = typename Numeric<typename S::Element>::Sum;
  static constexpr Index kRows = S::kBatch * S::kWide0 * S::kWide1 * S::kWide2;
  static constexpr Index kColumns = S::kWideChannels;
  using Tap = ChannelTap<S, S::kNarrowChannels>;
  static constexpr Index kSteps = Tap::kCount;

  struct Row {
    __device__ Row(Index row, Index group) {
      const WidePixel<S> pixel(row);
      offset = pixel.image * S::kNarrowN + group * S::kNarrowChannels * S::kNarrowC;
      p0 = pixel.p0 + S::kPadding0;
      p1 = pixel.p1 + S::kPadding1;
      p2 = pixel.p2 + S::kPadding2;
    }
    Index offset, p0, p1, p2;
  };
  using Step = Tap;
  struct Column {
    __device__ Column(Index column, Index group)
        : offset(group * S::kNarrowChannels * S::kWeightO + column * S::kWeightI) {}
    Index offset;
  };

  // Returns whether window `window` begins `distance` elements after the first, and exists.
  template <Index kStride, Index kSize>
  __device__ static bool FindWindow(Index distance, Index* window) {
    *window = distance / kStride;
    return distance >= 0 && *window * kStride == distance && *window < kSize;
  }
  __device__ Sum A(const Row& row, const Step& step) const {
    Index n0, n1, n2;
    if (!FindWindow<S::kStride0, S::kNarrow0>(row.p0 - step.t0 * S::kDilation0, &n0) ||
        !FindWindow<S::kStride1, S::kNarrow1>(row.p1 - step.t1 * S::kDilation1, &n1) ||
        !FindWindow<S::kStride2, S::kNarrow2>(row.p2 - step.t2 * S::kDilation2, &n2)) {
      return 0;
    }
    return Load(
        at.a[row.offset + step.channel * S::kNarrowC + n0 * S::kNarrowS0 + n1 * S::kNarrowS1 + n2 * S::kNarrowS2]);
  }
  __device__ Sum B(const Step& step, const Column& column) const {
    return Load(at.b[column.offset + step.channel * S::kWeightO + step.t0 * S::kWeightS0 + step.t1 * S::kWeightS1 +
                     step.t2 * S::kWeightS2]);
  }
  __device__ void Write(Index row, Index column, Index group, Sum sum) const {
    const WidePixel<S> pixel(row);
    const Index channel = group * kColumns + column;
    if (at.bias != nullptr) sum += Load(at.bias[channel * S::kBias]);
    Store(at.result + (pixel.image * S::kWideN + channel * S::kWideC + pixel.p0 * S::kWideS0 + pixel.p1 * S::kWideS1 +
                       pixel.p2 * S::kWideS2),
          sum);
  }

  Operands<S> at;
};

// The gradient of the weights from narrow (A) and wide (B): rows are channels of narrow, columns channels of wide and
// elements of the kernel, steps windows.
template <typename S>
struct BackwardWeights {
  using Shape = S;
  using Index = typename S::Index;
  using Sum = typename Numeric<typename S::Element>::Sum;
  static constexpr Index kRows = S::kNarrowChannels;
  using Tap = ChannelTap<S, S::kWideChannels>;
  static constexpr Index kColumns = Tap::kCount;
  static constexpr Index kSteps = S::kBatch * S::kNarrow0 * S::kNarrow1 * S::kNarrow2;

  struct Row {
    __device__ Row(Index row, Index group) : offset((group * kRows + row) * S::kNarrowC) {}
    Index offset;
  };
  struct Step {
    __device__ explicit Step(Index step) {
      const NarrowPixel<S> pixel(step);
      narrow = pixel.image * S::kNarrowN + pixel.p0 * S::kNarrowS0 + pixel.p1 * S::kNarrowS1 + pixel.p2 * S::kNarrowS2;
      wide = pixel.image * S::kWideN;
      p0 = pixel.p0 * S::kStride0 - S::kPadding0;
      p1 = pixel.p1 * S::kStride1 - S::kPadding1;
      p2 = pixel.p2 * S::kStride2 - S::kPadding2;
    }
    Index narrow, wide, p0, p1, p2;
  };
  struct Column {
    __device__ Column(Index column, Index group) {
      const Tap tap(column);
      offset = (group * S::kWideChannels + tap.channel) * S::kWideC;
      d0 = tap.t0 * S::kDilation0;
      d1 = tap.t1 * S::kDilation1;
      d2 = tap.t2 * S::kDilation2;
    }
    Index offset, d0, d1, d2;
  };

  __device__ Sum A(const Row& row, const Step& step) const { return Load(at.a[row.offset + step.narrow]); }
  __device__ Sum B(const Step& step, const Column& column) const {
    const Index w0 = step.p0 + column.d0;
    const Index w1 = step.p1 + column.d1;
    const Index w2 = step.p2 + column.d2;
    if (w0 < 0 || w0 >= S::kWide0 || w1 < 0 || w1 >= S::kWide1 || w2 < 0 || w2 >= S::kWide2) return 0;
    return Load(at.b[step.wide + column.offset + w0 * S::kWideS0 + w1 * S::kWideS1 + w2 * S::kWideS2]);
  }
  __device__ void Write(Index row, Index column, Index group, Sum sum) const {
    const Tap tap(column);
    Store(at.result + ((group * kRows + row) * S::kWeightO + tap.channel * S::kWeightI + tap.t0 * S::kWeightS0 +
                       tap.t1 * S::kWeightS1 + tap.t2 * S::kWeightS2),
          sum);
  }

  Operands<S> at;
};

}  // namespace cotan::convolution
