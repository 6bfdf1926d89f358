// SPDX-License-Identifier: Apache-2.0

// The gradient of the weights of a convolution from patches of its input and boxes of the gradient of its output, in
// shared memory.
//
// In addition to convolution_patch.cuh, whose result is here the gradient of the output, a geometry has
//   kChannels, of that gradient, and its strides in elements: kResultN, kResultC, kResultAtH, kResultAtW
//   kResultVector: channels that are next to each other in it if it is aligned, 4 or 1
//   strides in elements of the weights: kWeightSource and kWeightResult (channels), kWeightAtH, kWeightAtW
#pragma once

#include "cotan/convolution_patch.cuh"

namespace cotan::convolution {

// How a block adds the products of boxes of kImages x kRows x kColumns windows, for kTileChannels channels of the
// gradient of the output and kTileSources vectors of kVector channels of the input. A thread has kThreadChannels of
// those channels, one of those vectors and one row of the kernel; it adds kPixels neighbouring windows at a time. The
// threads form kSlices slices, which share the windows of a box. kStages boxes are in shared memory. kSplits blocks
// share the boxes of a tile.
template <int kImages_, int kRows_, int kColumns_, int kPixels_, int kTileChannels_, int kThreadChannels_,
          int kTileSources_, int kVector_, int kSlices_, int kStages_, int kSplits_>
struct WeightTiling {
  static constexpr int kImages = kImages_;
  static constexpr int kRows = kRows_;
  static constexpr int kColumns = kColumns_;
  static constexpr int kPixels = kPixels_;
  static constexpr int kTileChannels = kTileChannels_;
  static constexpr int kThreadChannels = kThreadChannels_;
  static constexpr int kTileSources = kTileSources_;
  static constexpr int kVector = kVector_;
  static constexpr int kSlices = kSlices_;
  static constexpr int kStages = kStages_;
  static constexpr int kSplits = kSplits_;
};

template <typename G, typename T>
struct WeightGradient {
  using Index = typename G::Index;
  using Element = typename G::Element;
  using Tile = Box<G, T::kImages, T::kRows, T::kColumns, T::kPixels, T::kVector>;
  using Vector = typename Tile::Vector;
  static constexpr uint32 kElementBytes = sizeof(Element);
  static constexpr int kThreadChannels = T::kThreadChannels;
  static constexpr int kChannelGroups = T::kTileChannels / kThreadChannels;
  static constexpr int kSliceThreads = kChannelGroups * T::kTileSources * G::kTapsH;
  static constexpr int kWorkers = kSliceThreads * T::kSlices;
  static constexpr int kThreads = (kWorkers + 31) / 32 * 32;  // Those beyond the workers only copy.
  // Of a slice, by the channels of the gradient of the output and the others.
  using Place = ThreadPlace<kChannelGroups, T::kTileSources * G::kTapsH>;
  static constexpr int kPackSize = kThreadChannels % 4 == 0 ? 4 : 1;
  using ChannelPack = Pack<Element, kPackSize>;
  static constexpr int kPacks = kThreadChannels / kPackSize;
  // Elements of the gradient of the output that are copied together.
  static constexpr int kCopied = T::kTileChannels % 4 == 0 ? 4 : 1;
  using CopiedPack = Pack<Element, kCopied>;
  static constexpr int kWindows = T::kImages * T::kRows * T::kColumns;
  static constexpr int kPatchElements = (T::kTileSources * Tile::kPlane * T::kVector + 3) / 4 * 4;
  static constexpr int kStageElements = kPatchElements + (kWindows * T::kTileChannels + 3) / 4 * 4;
  static constexpr int kThreadSums = G::kTapsW * kThreadChannels * T::kVector;
  static constexpr int kTileSums = kSliceThreads * kThreadSums;
  static constexpr int kColumnSums = kTileSums / G::kTapsW;  // those of one column of the kernel
  static constexpr int kStaged = T::kStages * kStageElements;
  // Columns whose sums the slices exchange at a time: all, if there is room for them.
  static constexpr int kExchangedColumns = kTileSums * T::kSlices <= kStaged ? G::kTapsW : 1;
  static constexpr int kExchangedSums = kExchangedColumns * kColumnSums;
  static constexpr int kExchanged = kExchangedSums * T::kSlices;
  static constexpr int kSharedBytes = (kStaged > kExchanged ? kStaged : kExchanged) * static_cast<int>(sizeof(Element));
  static constexpr Index kChannelTiles = (G::kChannels + T::kTileChannels - 1) / T::kTileChannels;
  static constexpr Index kSourceTiles =
      (G::kSourceChannels + T::kTileSources * T::kVector - 1) / (T::kTileSources * T::kVector);
  static constexpr Index kTiles = kChannelTiles * kSourceTiles;
  static constexpr Index kBlocks = kTiles * T::kSplits;
  static constexpr Index kPartBoxes = (Tile::kBoxes + T::kSplits - 1) / T::kSplits;

  const Element* source;
  const Element* gradient;  // of the output
  Element* result;
  Element* partial;  // kBlocks x kTileSums elements, if kSplits > 1
  uint32* finished;  // kTiles counters, if kSplits > 1; zero before and after a launch

  // Computes block `block` of kBlocks. The last block of a tile that ends adds the sums of all, in order.
  __device__ void Run(Index block, Element* shared) const {
    const Index tile = block % kTiles;
    const Index split = block / kTiles;
    const Index first_channel = tile % kChannelTiles * T::kTileChannels;
    const Index first_source = tile / kChannelTiles * (T::kTileSources * T::kVector);
    const Index begin = split * kPartBoxes;
    const Index end = begin + kPartBoxes < Tile::kBoxes ? begin + kPartBoxes : Tile::kBoxes;
    const uint32 address = SharedAddress(shared);
    const bool source_aligned = IsAligned<16>(source);
    const bool gradient_aligned = IsAligned<16>(gradient);
    const auto start = [&](Index box) {
      if (box < end) {
        const uint32 stage = address + box % T::kStages * (kStageElements * kElementBytes);
        const Tile at(box);
        at.template CopyPatch<T::kTileSources, kThreads>(source, first_source, source_aligned, stage);
        CopyGradient(at, first_channel, gradient_aligned, stage + kPatchElements * kElementBytes);
      }
      EndCopies();
    };
    const int thread = static_cast<int>(threadIdx.x) % kSliceThreads;
    const int slice = static_cast<int>(threadIdx.x) / kSliceThreads;
    const int last_group = slice < T::kSlices ? Tile::kGroups : 0;
    const Place place(thread);
    const int channel_group = place.inner;
    const int plane = place.outer % T::kTileSources;
    const int tap = place.outer / T::kTileSources;
    Element sums[G::kTapsW][kThreadChannels][T::kVector] = {};
#pragma unroll
    for (int i = 0; i < T::kStages - 1; ++i) start(begin + i);
#pragma unroll 1
    for (Index box = begin; box < end; ++box) {
      WaitForCopies<T::kStages - 2>();
      __syncthreads();
      start(box + T::kStages - 1);
      const Element* const stage = shared + static_cast<int>(box % T::kStages) * kStageElements;
      const Tile at(box);
#pragma unroll 1
      for (int group = slice; group < last_group; group += T::kSlices) {
        Multiply(reinterpret_cast<const Vector*>(stage) + plane * Tile::kPlane + Tile::WindowOf(group, tap),
                 stage + kPatchElements + group * T::kPixels * T::kTileChannels + channel_group * kPackSize,
                 WindowsOf(at, group), sums);
      }
    }
    Element* const own = partial + (split * kTiles + tile) * kTileSums;
#pragma unroll
    for (int first = 0; first < G::kTapsW; first += kExchangedColumns) {
      __syncthreads();
#pragma unroll
      for (int x = 0; x < kExchangedColumns; ++x) {
        if (slice < T::kSlices) Share(thread, sums[first + x], shared + (slice * kExchangedColumns + x) * kColumnSums);
      }
      __syncthreads();
      for (int i = static_cast<int>(threadIdx.x); i < kExchangedSums; i += kThreads) {
        Element total = shared[i];
#pragma unroll 8
        for (int s = 1; s < T::kSlices; ++s) total += shared[s * kExchangedSums + i];
        if (T::kSplits > 1) {
          own[first * kColumnSums + i] = total;
        } else {
          Write(first * kColumnSums + i, total, first_channel, first_source);
        }
      }
    }
    if (T::kSplits > 1 && IsLast(tile)) AddPartialSums(tile, first_channel, first_source);
  }

 private:
  // Starts to copy a box of the gradient of the output, as [window, channel]; zeros where there is none.
  __device__ void CopyGradient(const Tile& box, Index first_channel, bool aligned, uint32 to) const {
    constexpr int kVectors = T::kTileChannels / kCopied;
    constexpr int kInnerVectors = G::kResultC == 1 ? kVectors : 1;
    constexpr int kLines = T::kImages * T::kRows;
    ForEachItem<kLines*(kVectors / kInnerVectors), T::kColumns * kInnerVectors, kThreads>([&](int unit) {
      const int line = unit % kLines;
      const int first_vector = unit / kLines;
      const Index image = box.image + line / T::kRows;
      const Index y = box.row + line % T::kRows;
      const bool line_inside = image < G::kImages && y < G::kResultH;
      const Index line_offset = image * G::kResultN + y * G::kResultAtH;
      return [=](int item) {
        const int vector = first_vector + item % kInnerVectors;
        const int x = item / kInnerVectors;
        const bool inside = line_inside && box.column + x < G::kResultW;
        const Index channel = first_channel + vector * kCopied;
        const Index offset = line_offset + (box.column + x) * G::kResultAtW + channel * G::kResultC;
        const uint32 at = to + ((line * T::kColumns + x) * T::kTileChannels + vector * kCopied) * kElementBytes;
        if (G::kResultVector == kCopied && kCopied > 1 && aligned) {
          const bool copied = inside && channel < G::kChannels;
          StartCopy(at, reinterpret_cast<const CopiedPack*>(gradient + (copied ? offset : 0)), copied);
          return;
        }
#pragma unroll
        for (int j = 0; j < kCopied; ++j) {
          const bool copied = inside && channel + j < G::kChannels;
          StartCopy(at + j * kElementBytes, gradient + (copied ? offset + j * G::kResultC : 0), copied);
        }
      };
    });
  }

  // Returns how many windows of a group exist: the others have the gradient 0, but may cover elements of the source
  // that are not finite.
  __device__ static int WindowsOf(const Tile& box, int group) {
    if constexpr (G::kResultH % T::kRows == 0 && G::kResultW % T::kColumns == 0) return T::kPixels;
    const Index y = box.row + group / Tile::kRowGroups % T::kRows;
    const Index rest = G::kResultW - (box.column + group % Tile::kRowGroups * T::kPixels);
    return y >= G::kResultH ? 0 : static_cast<int>(rest < T::kPixels ? rest : T::kPixels);
  }

  // Adds the products of the first `windows` of kPixels windows.
  __device__ static void Multiply(const Vector* patch, const Element* factors, int windows,
                                  Element (&sums)[G::kTapsW][kThreadChannels][T::kVector]) {
    Vector window[Tile::kWindow];
#pragma unroll
    for (int i = 0; i < Tile::kWindow; ++i) window[i] = patch[Tile::At(i)];
#pragma unroll
    for (int i = 0; i < T::kPixels; ++i) {
      if (i >= windows) break;
#pragma unroll
      for (int p = 0; p < kPacks; ++p) {
        const ChannelPack factor =
            *reinterpret_cast<const ChannelPack*>(factors + i * T::kTileChannels + p * kChannelGroups * kPackSize);
#pragma unroll
        for (int x = 0; x < G::kTapsW; ++x) {
          const Vector& value = window[i * Tile::kMoveW + x * G::kDilationW];
#pragma unroll
          for (int j = 0; j < kPackSize; ++j) {
#pragma unroll
            for (int v = 0; v < T::kVector; ++v) {
              Element& sum = sums[x][p * kPackSize + j][v];
              sum = MultiplyAdd(factor.values[j], value.values[v], sum);
            }
          }
        }
      }
    }
  }

  // Puts the sums of a thread for a column of the kernel to `shared`, as [channel of the thread, thread, channel of the
  // vector].
  __device__ static void Share(int thread, const Element (&sums)[kThreadChannels][T::kVector], Element* shared) {
#pragma unroll
    for (int j = 0; j < kThreadChannels; ++j) {
      Vector vector;
#pragma unroll
      for (int v = 0; v < T::kVector; ++v) vector.values[v] = sums[j][v];
      reinterpret_cast<Vector*>(shared)[j * kSliceThreads + thread] = vector;
    }
  }

  // Adds the sums of all blocks of a tile, in order, and writes them.
  __device__ void AddPartialSums(Index tile, Index first_channel, Index first_source) const {
    for (int i = static_cast<int>(threadIdx.x); i < kTileSums; i += kThreads) {
      const Element* const from = partial + tile * kTileSums + i;
      Element total = 0;
#pragma unroll 8
      for (int s = 0; s < T::kSplits; ++s) total += from[s * static_cast<Index>(kTiles * kTileSums)];
      Write(i, total, first_channel, first_source);
    }
  }

  // Returns whether this is the last block of the tile that ends; it then sees what the others wrote.
  __device__ bool IsLast(Index tile) const {
    __shared__ bool is_last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
      is_last = atomicInc(finished + tile, T::kSplits - 1) == T::kSplits - 1;  // becomes 0 after the last one
      __threadfence();
    }
    __syncthreads();
    return is_last;
  }

  // Writes sum i of a tile.
  __device__ void Write(int i, Element sum, Index first_channel, Index first_source) const {
    const int v = i % T::kVector;
    const Place place(i / T::kVector % kSliceThreads);
    const int item = i / T::kVector / kSliceThreads;
    const int x = item / kThreadChannels;
    const int j = item % kThreadChannels;
    const int y = place.outer / T::kTileSources;
    const Index channel = first_channel + (j / kPackSize * kChannelGroups + place.inner) * kPackSize + j % kPackSize;
    const Index c = first_source + place.outer % T::kTileSources * T::kVector + v;
    if (channel >= G::kChannels || c >= G::kSourceChannels) return;
    result[channel * G::kWeightResult + c * G::kWeightSource + y * G::kWeightAtH + x * G::kWeightAtW] = sum;
  }
};

}  // namespace cotan::convolution
