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

#include "cotan/async_copy.cuh"
#include "cotan/copy_values.cuh"
#include "cotan/error.cuh"
#include "cotan/multiply_add.cuh"
#include "cotan/types.cuh"

namespace cotan::convolution {

// The place of thread `i` in a grid of kInner x kOuter. Pairs of lanes share the inner coordinate, and others the outer
// one: then two halves of a warp load vectors of 16 bytes from shared memory, not four quarters.
template <int kInner, int kOuter>
struct ThreadPlace {
  static constexpr bool kPaired = kInner % 2 == 0 && kOuter % 2 == 0;
  __device__ explicit ThreadPlace(int i)
      : inner(kPaired ? i / 4 % (kInner / 2) * 2 + i % 2 : i % kInner),
        outer(kPaired ? i / (2 * kInner) * 2 + i / 2 % 2 : i / kInner) {}
  int inner, outer;
};

// Calls line(i)(j) for each i below kLines and j below kItems. A warp has consecutive items of a line in its lanes, and
// several lines, or a segment of one.
template <int kLines, int kItems, int kThreads, typename Line>
__device__ inline void ForEachItem(const Line& line) {
  constexpr int kWarps = kThreads / 32;
  static_assert(kThreads % 32 == 0);
  constexpr int kSteps = (kItems + 31) / 32;
  constexpr int kShares = kLines < kWarps ? kWarps / kLines : 1;
  constexpr int kSegments = kShares < kSteps ? kShares : kSteps;
  constexpr int kSegmentSteps = (kSteps + kSegments - 1) / kSegments;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  // The same in all lanes, which the compiler then knows.
  const int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 32, 0);
#pragma unroll 1
  for (int unit = warp; unit < kLines * kSegments; unit += kWarps) {
    const auto copy = line(unit / kSegments);
    const int first = unit % kSegments * (kSegmentSteps * 32) + lane;
#pragma unroll
    for (int s = 0; s < kSegmentSteps; ++s) {
      if (first + s * 32 < kItems) copy(first + s * 32);
    }
  }
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
  static constexpr uint32 kVectorBytes = sizeof(Vector);
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
  // No multiple of 64 bytes: vectors of neighbouring planes are in different banks.
  static constexpr int kPlane = kImages * kHeight * kPitch + (kImages * kHeight * kPitch % 4 == 0 ? 1 : 0);
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
  __device__ void CopyPatch(const Element* source, Index channel, bool aligned, uint32 patch) const {
    // Lanes have neighbours in memory: planes of a place, or places of a row.
    constexpr int kInnerPlanes = G::kSourceC == 1 ? kPlanes : 1;
    constexpr int kLines = kImages * kHeight;
    ForEachItem<kLines*(kPlanes / kInnerPlanes), kWidth * kInnerPlanes, kThreads>([&](int unit) {
      const int line = unit % kLines;
      const int first_plane = unit / kLines;
      const Index from_image = image + line / kHeight;
      const Index from_row = row * G::kStrideH - G::kPaddingH + line % kHeight * kStepH;
      const bool line_inside = from_image < G::kImages && from_row >= 0 && from_row < G::kSourceH;
      const Index offset = from_image * G::kSourceN + from_row * G::kSourceAtH;
      return [=](int item) {
        const int plane = first_plane + item % kInnerPlanes;
        const int x = item / kInnerPlanes;
        const Index from_column = column * G::kStrideW - G::kPaddingW + x * kStepW;
        const bool inside = line_inside && from_column >= 0 && from_column < G::kSourceW;
        const Index c = channel + plane * kVector;
        CopyVector(source, offset + from_column * G::kSourceAtW + c * G::kSourceC, c, inside, aligned,
                   patch + (plane * kPlane + line * kPitch + x + x / kGroupWidth) * kVectorBytes);
      };
    });
  }

  Index image, row, column;

 private:
  __device__ static void CopyVector(const Element* source, Index offset, Index channel, bool inside, bool aligned,
                                    uint32 to) {
    if (kVector > 1 && G::kSourceVector % kVector == 0 && aligned) {
      const bool copied = inside && channel < G::kSourceChannels;
      StartCopy(to, reinterpret_cast<const Vector*>(source + (copied ? offset : 0)), copied);
      return;
    }
#pragma unroll
    for (int v = 0; v < kVector; ++v) {
      const bool copied = inside && channel + v < G::kSourceChannels;
      StartCopy(to + v * static_cast<uint32>(sizeof(Element)), source + (copied ? offset + v * G::kSourceC : 0),
                copied);
    }
  }
};

}  // namespace cotan::convolution
