// SPDX-License-Identifier: Apache-2.0

// Copies of tensors between layouts, with a bias per channel: the steps around a convolution of a library.
#pragma once

#include "cotan/convolution.cuh"

namespace cotan::convolution {

// Copies `count` elements of five dimensions, kUnroll per thread; neighbouring threads have neighbouring elements of
// the last dimension. `to` may be `from`. The geometry is a type with constants:
//   Element; Index
//   kCount; kSize1..4 (the first is what remains); kFrom0..4, kTo0..4, kBias0..4: strides
template <typename S, bool kHasBias, int kUnroll>
__device__ void CopyWithBias(const typename S::Element* from, const typename S::Element* bias,
                             typename S::Element* to) {
  using Index = typename S::Index;
  const Index first =
      static_cast<Index>(blockIdx.x) * static_cast<Index>(blockDim.x * kUnroll) + static_cast<Index>(threadIdx.x);
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const Index i = first + static_cast<Index>(u) * static_cast<Index>(blockDim.x);
    if (i >= S::kCount) return;
    const Index i4 = i % S::kSize4;
    const Index i3 = i / S::kSize4 % S::kSize3;
    const Index i2 = i / (S::kSize4 * S::kSize3) % S::kSize2;
    const Index i1 = i / (S::kSize4 * S::kSize3 * S::kSize2) % S::kSize1;
    const Index i0 = i / (S::kSize4 * S::kSize3 * S::kSize2 * S::kSize1);
    const typename S::Element x =
        from[i0 * S::kFrom0 + i1 * S::kFrom1 + i2 * S::kFrom2 + i3 * S::kFrom3 + i4 * S::kFrom4];
    typename S::Element* target = to + (i0 * S::kTo0 + i1 * S::kTo1 + i2 * S::kTo2 + i3 * S::kTo3 + i4 * S::kTo4);
    if (kHasBias) {
      const Index channel = i0 * S::kBias0 + i1 * S::kBias1 + i2 * S::kBias2 + i3 * S::kBias3 + i4 * S::kBias4;
      Store(target, Load(x) + Load(bias[channel]));
    } else {
      *target = x;
    }
  }
}

}  // namespace cotan::convolution
