// SPDX-License-Identifier: Apache-2.0

// Patches of a tensor in shared memory, for products that read each element for many elements of a kernel.
//
// A geometry G is a type with constants: a result of two spatial dimensions whose windows slide over a source:
//   Element; Index (int or long long, as the extents of the operands need)
//   kImages; kResultH, kResultW; kSourceChannels, kSourceH, kSourceW; kTapsH, kTapsW
//   kStrideH, kStrideW; kDilationH, kDilationW; kPaddingH, kPaddingW, which may be negative
//   strides in elements of the source: kSourceN, kSourceC, kSourceAtH, kSourceAtW
//   kSourceVector: channels that an aligned source has next to each other, 4 or 1
#pragma once

#include "cotan/copy_values.cuh"
#include "cotan/error.cuh"
#include "cotan/types.cuh"

namespace cotan::convolution {

__device__ inline float FusedMultiplyAdd(float a, float b, float c) { return __fmaf_rn(a, b, c); }
__device__ inline double FusedMultiplyAdd(double a, double b, double c) { return __fma_rn(a, b, c); }

// Starts to copy an element, or zero if it lies outside, from global to shared memory.
template <typename T>
__device__ inline void StartCopy(T* to, const T* from, bool inside) {
  uint64 address;
  asm("cvta.to.shared.u64 %0, %1;" : "=l"(address) : "l"(to));
  constexpr int kBytes = static_cast<int>(sizeof(T));
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16);
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(static_cast<uint32>(address)), "l"(from),
               "n"(kBytes), "r"(inside ? kBytes : 0)
               : "memory");
}
__device__ inline void StartCopy(Pack<double, 4>* to, const Pack<double, 4>* from, bool inside) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    StartCopy(reinterpret_cast<Pack<double, 2>*>(to) + i, reinterpret_cast<const Pack<double, 2>*>(from) + i, inside);
  }
}
// Ends a group of copies of this thread.
__device__ inline void EndCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits for all groups of copies of this thread but the last kPending.
template <int kPending>
__device__ inline void WaitForCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// A box of the result, kImages_ x kRows_ x kColumns_, and the patch of the source that its windows cover. A thread has
// kPixels neighbouring elements of a row of the box. The patch consists of planes of vectors of kVector channels. A row
// of it has a gap after the elements that the windows of a thread add, so that vectors of neighbouring threads are in
// different banks.
template <typename G, int kImages_, int kRows_, int kColumns_, int kPixels_, int kVector_>
struct Box {
  using Index = typename G::Index;
  using Element = typename G::Element;
  using Vector = Pack<Element, kVector_>;
  static constexpr int kImages = kImages_;
  static constexpr int kRows = kRows_;
  static constexpr int kColumns = kColumns_;
  static constexpr int kPixels = kPixels_;
  static constexpr int kVector = kVector_;
  static constexpr int kRowGroups = kColumns / kPixels;
  static constexpr int kGroups = kImages * kRows * kRowGroups;
  static_assert(kColumns % kPixels == 0);

  // Neighbours in the patch are kStep apart in the source; windows of neighbouring results are kMove apart in the
  // patch: only elements of the source that some window covers are in the patch of a kernel with one element.
  static constexpr int kStepH = G::kTapsH == 1 ? G::kStrideH : 1;
  static constexpr int kStepW = G::kTapsW == 1 ? G::kStrideW : 1;
  static constexpr int kMoveH = G::kTapsH == 1 ? 1 : G::kStrideH;
  static constexpr int kMoveW = G::kTapsW == 1 ? 1 : G::kStrideW;
  static constexpr int kHeight = (kRows - 1) * kMoveH + (G::kTapsH - 1) * G::kDilationH + 1;
  static constexpr int kWidth = (kColumns - 1) * kMoveW + (G::kTapsW - 1) * G::kDilationW + 1;
  static constexpr int kGroupWidth = kPixels * kMoveW;
  static constexpr int kPitch = kWidth + (kWidth - 1) / kGroupWidth;
  static constexpr int kPlane = kImages * kHeight * kPitch;
  // Elements of the patch that the windows of a thread's pixels cover in a row.
  static constexpr int kWindow = (kPixels - 1) * kMoveW + (G::kTapsW - 1) * G::kDilationW + 1;

  static constexpr Index kBoxesH = (G::kResultH + kRows - 1) / kRows;
  static constexpr Index kBoxesW = (G::kResultW + kColumns - 1) / kColumns;
  static constexpr Index kBoxes = (G::kImages + kImages - 1) / kImages * kBoxesH * kBoxesW;

  __device__ explicit Box(Index box)
      : image(box / (kBoxesH * kBoxesW) * kImages),
        row(box / kBoxesW % kBoxesH * kRows),
        column(box % kBoxesW * kColumns) {}

  // Returns the vector of the patch at which the windows of group `group` begin, in row `tap` of the kernel.
  __device__ static int WindowOf(int group, int tap) {
    const int line = group / kRowGroups;
    const int patch_row = line / kRows * kHeight + line % kRows * kMoveH + tap * G::kDilationH;
    return patch_row * kPitch + group % kRowGroups * (kGroupWidth + 1);
  }
  // Returns where element i of a thread's windows lies after WindowOf().
  __device__ static constexpr int At(int i) { return i + i / kGroupWidth; }

  // Starts to copy the patch of kPlanes planes from channel `channel` on; zeros where the source has no elements.
  template <int kPlanes, int kThreads>
  __device__ void CopyPatch(const Element* source, Index channel, bool aligned, Vector* patch) const {
    constexpr bool kChannelsInner = G::kSourceC == 1;
    constexpr int kCount = kPlanes * kImages * kHeight * kWidth;
#pragma unroll 2
    for (int i = static_cast<int>(threadIdx.x); i < kCount; i += kThreads) {
      const int place = kChannelsInner ? i / kPlanes : i % (kImages * kHeight * kWidth);
      const int plane = kChannelsInner ? i % kPlanes : i / (kImages * kHeight * kWidth);
      const int line = place / kWidth;
      const int x = place % kWidth;
      const Index from_image = image + line / kHeight;
      const Index from_row = row * G::kStrideH - G::kPaddingH + line % kHeight * kStepH;
      const Index from_column = column * G::kStrideW - G::kPaddingW + x * kStepW;
      const bool inside = from_image < G::kImages && from_row >= 0 && from_row < G::kSourceH && from_column >= 0 &&
                          from_column < G::kSourceW;
      const Index c = channel + plane * kVector;
      const Index offset = from_image * G::kSourceN + c * G::kSourceC + from_row * G::kSourceAtH +
                           from_column * G::kSourceAtW;
      CopyVector(source, offset, c, inside, aligned, patch + plane * kPlane + line * kPitch + x + x / kGroupWidth);
    }
  }

  Index image, row, column;

 private:
  __device__ static void CopyVector(const Element* source, Index offset, Index channel, bool inside, bool aligned,
                                    Vector* to) {
    if (kVector > 1 && G::kSourceVector % kVector == 0 && aligned) {
      const bool copied = inside && channel < G::kSourceChannels;
      StartCopy(to, reinterpret_cast<const Vector*>(source + (copied ? offset : 0)), copied);
      return;
    }
#pragma unroll
    for (int v = 0; v < kVector; ++v) {
      const bool copied = inside && channel + v < G::kSourceChannels;
      StartCopy(&to->values[v], source + (copied ? offset + v * G::kSourceC : 0), copied);
    }
  }
};

}  // namespace cotan::convolution
