// SPDX-License-Identifier: Apache-2.0

// Convolutions whose source lies in shared memory as patches, and their gradients with respect to the source: with a
// stride, the gradient is one such convolution for each residue of the coordinates.
//
// In addition to convolution_patch.cuh, a geometry has
//   kChannels, of the result
//   strides and offsets in elements of the result: kResultOffset, kResultN, kResultC, kResultAtH, kResultAtW; of the
//   weights: kWeightOffset, kWeightSource and kWeightResult (channels), kWeightAtH, kWeightAtW, which may be negative;
//   kBias
//   kResultVector: channels that an aligned result has next to each other, 4 or 1
//   kSourceInnerWeights: whether the channels of the source, and not those of the result, are nearer in the weights
#pragma once

#include "cotan/convolution_patch.cuh"

namespace cotan::convolution {

// How a block computes a box of the result and kTileChannels of its channels. A thread has kPixels x kThreadChannels
// elements. The threads form kSlices slices, which share the channels of the source: of each chunk, kSliceVectors
// vectors of kVector channels are a slice's; a thread has kLoaded channels of a vector in registers at a time. kStages
// chunks are in shared memory.
template <int kImages_, int kRows_, int kColumns_, int kPixels_, int kTileChannels_, int kThreadChannels_, int kVector_,
          int kLoaded_, int kSlices_, int kSliceVectors_, int kStages_>
struct WindowTiling {
  static constexpr int kImages = kImages_;
  static constexpr int kRows = kRows_;
  static constexpr int kColumns = kColumns_;
  static constexpr int kPixels = kPixels_;
  static constexpr int kTileChannels = kTileChannels_;
  static constexpr int kThreadChannels = kThreadChannels_;
  static constexpr int kVector = kVector_;
  static constexpr int kLoaded = kLoaded_;
  static constexpr int kSlices = kSlices_;
  static constexpr int kSliceVectors = kSliceVectors_;
  static constexpr int kStages = kStages_;
};

template <typename G, typename T>
struct Windows {
  using Index = typename G::Index;
  using Element = typename G::Element;
  using Tile = Box<G, T::kImages, T::kRows, T::kColumns, T::kPixels, T::kVector>;
  using Vector = typename Tile::Vector;
  static constexpr uint32 kElementBytes = sizeof(Element);
  static constexpr int kPixels = T::kPixels;
  static constexpr int kThreadChannels = T::kThreadChannels;
  static constexpr int kColumnGroups = T::kTileChannels / kThreadChannels;
  static constexpr int kSliceThreads = Tile::kGroups * kColumnGroups;
  static constexpr int kWorkers = kSliceThreads * T::kSlices;
  static constexpr int kThreads = (kWorkers + 31) / 32 * 32;  // Those beyond the workers only copy.
  static constexpr int kPlanes = T::kSlices * T::kSliceVectors;
  static constexpr int kChunk = kPlanes * T::kVector;
  static constexpr int kChunks = static_cast<int>((G::kSourceChannels + kChunk - 1) / kChunk);
  static constexpr int kTaps = G::kTapsH * G::kTapsW;
  static constexpr int kPitch = T::kTileChannels + 4;  // of the weights, so that stores are to different banks
  static constexpr int kPatchElements = (kPlanes * Tile::kPlane * T::kVector + 3) / 4 * 4;
  static constexpr int kStageElements = kPatchElements + (kChunk * kTaps * kPitch + 3) / 4 * 4;
  // Elements of a thread's accumulators and of the weights that are loaded and stored together.
  static constexpr int kPackSize = kThreadChannels % 4 == 0 ? 4 : 1;
  using ChannelPack = Pack<Element, kPackSize>;
  static constexpr int kPacks = kThreadChannels / kPackSize;
  static constexpr int kStaged = T::kStages * kStageElements;
  // Pixels whose sums the slices exchange at a time: as many as there is room for.
  __device__ static constexpr int ExchangedPixels() {
    int pixels = kPixels;
    while (pixels > 1 && (kPixels % pixels != 0 || kWorkers * pixels * kThreadChannels > kStaged)) --pixels;
    return pixels;
  }
  static constexpr int kExchangedPixels = ExchangedPixels();
  static constexpr int kExchanged = T::kSlices == 1 ? 0 : kWorkers * kExchangedPixels * kThreadChannels;
  static constexpr int kSharedBytes = (kStaged > kExchanged ? kStaged : kExchanged) * static_cast<int>(sizeof(Element));
  static constexpr Index kChannelTiles = (G::kChannels + T::kTileChannels - 1) / T::kTileChannels;
  static constexpr Index kBlocks = Tile::kBoxes * kChannelTiles;

  const Element* source;
  const Element* weights;
  const Element* bias;  // null for none
  Element* result;

  // Computes block `block` of kBlocks.
  __device__ void Run(Index block, Element* shared) const {
    const Index first_channel = block % kChannelTiles * T::kTileChannels;
    const Tile tile(block / kChannelTiles);
    const bool aligned = IsAligned<16>(source);
    const uint32 address = SharedAddress(shared);
    const auto start = [&](int chunk) {
      if (chunk < kChunks) {
        const uint32 stage = address + chunk % T::kStages * (kStageElements * kElementBytes);
        const Index channel = static_cast<Index>(chunk) * kChunk;
        tile.template CopyPatch<kPlanes, kThreads>(source, channel, aligned, stage);
        CopyWeights(channel, first_channel, stage + kPatchElements * kElementBytes);
      }
      EndCopies();
    };
    const int thread = static_cast<int>(threadIdx.x) % kSliceThreads;
    const int slice = static_cast<int>(threadIdx.x) / kSliceThreads;
    const bool works = kWorkers == kThreads || slice < T::kSlices;
    const ThreadPlace<kColumnGroups, Tile::kGroups> place(thread);
    const int column_group = place.inner;
    const int group = place.outer;
    Element sums[kPixels][kThreadChannels] = {};
#pragma unroll
    for (int i = 0; i < T::kStages - 1; ++i) start(i);
#pragma unroll 1
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      WaitForCopies<T::kStages - 2>();
      __syncthreads();
      start(chunk + T::kStages - 1);
      if (!works) continue;
      const Element* const stage = shared + chunk % T::kStages * kStageElements;
      const int plane = slice * T::kSliceVectors;
      Multiply(reinterpret_cast<const Vector*>(stage) + plane * Tile::kPlane + Tile::WindowOf(group, 0),
               stage + kPatchElements + plane * T::kVector * kTaps * kPitch + column_group * kPackSize, sums);
    }
    const Index channel = first_channel + column_group * kPackSize;
    if constexpr (T::kSlices == 1) {
      if (!works) return;
#pragma unroll
      for (int i = 0; i < kPixels; ++i) {
#pragma unroll
        for (int p = 0; p < kPacks; ++p) {
          Write(tile, group, i, channel + p * kColumnGroups * kPackSize, sums[i] + p * kPackSize);
        }
      }
    } else {
      Exchange(tile, thread, slice, works, group, channel, sums, reinterpret_cast<ChannelPack*>(shared));
    }
  }

 private:
  // Starts to copy the weights of a chunk, as [channel of the source, element of the kernel, channel of the result].
  __device__ void CopyWeights(Index channel, Index first_channel, uint32 to) const {
    // A lane has an element of the inner channels and of the kernel, and every kOuterLanes-th of the outer channels.
    constexpr bool kSourceInner = G::kSourceInnerWeights;
    constexpr int kInnerChannels = kSourceInner ? kChunk : T::kTileChannels;
    constexpr int kOuterChannels = kSourceInner ? T::kTileChannels : kChunk;
    constexpr Index kInnerStride = kSourceInner ? G::kWeightSource : G::kWeightResult;
    constexpr Index kOuterStride = kSourceInner ? G::kWeightResult : G::kWeightSource;
    constexpr bool kTapsInner = kTaps > 1 && (G::kWeightAtW < 0 ? -G::kWeightAtW : G::kWeightAtW) < kInnerStride;
    constexpr int kInner = kInnerChannels * kTaps;
    // Lanes are neighbours in memory as far as their banks differ.
    constexpr int kInnerLanes = kSourceInner ? 8 : 32;
    constexpr int kOuterLanes = 32 / kInnerLanes;
    constexpr int kBlocksOfInner = (kInner + kInnerLanes - 1) / kInnerLanes;
    constexpr int kSteps = (kOuterChannels + kOuterLanes - 1) / kOuterLanes;
    constexpr int kWarps = kThreads / 32;
    constexpr int kShares = kBlocksOfInner < kWarps ? kWarps / kBlocksOfInner : 1;
    constexpr int kSegments = kShares < kSteps ? kShares : kSteps;
    constexpr int kSegmentSteps = (kSteps + kSegments - 1) / kSegments;
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll 1
    for (int unit = static_cast<int>(threadIdx.x) / 32; unit < kBlocksOfInner * kSegments; unit += kWarps) {
      const int inner = unit / kSegments * kInnerLanes + lane % kInnerLanes;
      const int first_outer = unit % kSegments * (kSegmentSteps * kOuterLanes) + lane / kInnerLanes;
      const int tap = kTapsInner ? inner % kTaps : inner / kInnerChannels;
      const int inner_channel = kTapsInner ? inner / kTaps : inner % kInnerChannels;
      const Index inner_limit = kSourceInner ? G::kSourceChannels - channel : G::kChannels - first_channel;
      const Index outer_limit = kSourceInner ? G::kChannels - first_channel : G::kSourceChannels - channel;
      const Element* const from =
          weights + (G::kWeightOffset + channel * G::kWeightSource + first_channel * G::kWeightResult +
                     inner_channel * kInnerStride + tap / G::kTapsW * G::kWeightAtH + tap % G::kTapsW * G::kWeightAtW);
      constexpr int kOuterPitch = kSourceInner ? 1 : kTaps * kPitch;
      const int row = kSourceInner ? inner_channel * kTaps + tap : tap;
      const uint32 at = to + (row * kPitch + (kSourceInner ? 0 : inner_channel)) * kElementBytes;
      const bool inner_inside = inner_channel < inner_limit;
#pragma unroll
      for (int s = 0; s < kSegmentSteps; ++s) {
        const int outer = first_outer + s * kOuterLanes;
        if (inner >= kInner || outer >= kOuterChannels) continue;
        const bool inside = inner_inside && outer < outer_limit;
        StartCopy(at + outer * (kOuterPitch * kElementBytes), inside ? from + outer * kOuterStride : weights, inside);
      }
    }
  }

  // Adds the products of a slice's channels.
  __device__ static void Multiply(const Vector* patch, const Element* factors,
                                  Element (&sums)[kPixels][kThreadChannels]) {
    using Loaded = Pack<Element, T::kLoaded>;
    constexpr int kParts = T::kVector / T::kLoaded;
    constexpr int kUnrolled = kTaps * T::kLoaded * kPixels * kThreadChannels <= 2048 ? G::kTapsH : 1;
#pragma unroll 1
    for (int q = 0; q < T::kSliceVectors; ++q) {
#pragma unroll kUnrolled
      for (int y = 0; y < G::kTapsH; ++y) {
        const Vector* const row = patch + q * Tile::kPlane + y * G::kDilationH * Tile::kPitch;
#pragma unroll 1
        for (int part = 0; part < kParts; ++part) {
          Loaded window[Tile::kWindow];
#pragma unroll
          for (int i = 0; i < Tile::kWindow; ++i) {
            window[i] = reinterpret_cast<const Loaded*>(row + Tile::At(i))[part];
          }
          const int first = (q * T::kVector + part * T::kLoaded) * kTaps + y * G::kTapsW;
          MultiplyRow(window, factors + first * kPitch, sums);
        }
      }
    }
  }

  // Adds the products of a row of the kernel and the loaded channels.
  __device__ static void MultiplyRow(const Pack<Element, T::kLoaded> (&window)[Tile::kWindow], const Element* factors,
                                     Element (&sums)[kPixels][kThreadChannels]) {
#pragma unroll
    for (int x = 0; x < G::kTapsW; ++x) {
#pragma unroll
      for (int v = 0; v < T::kLoaded; ++v) {
#pragma unroll
        for (int p = 0; p < kPacks; ++p) {
          const ChannelPack factor =
              *reinterpret_cast<const ChannelPack*>(factors + (v * kTaps + x) * kPitch + p * kColumnGroups * kPackSize);
#pragma unroll
          for (int i = 0; i < kPixels; ++i) {
            const Element value = window[i * Tile::kMoveW + x * G::kDilationW].values[v];
#pragma unroll
            for (int j = 0; j < kPackSize; ++j) {
              Element& sum = sums[i][p * kPackSize + j];
              sum = MultiplyAdd(value, factor.values[j], sum);
            }
          }
        }
      }
    }
  }

  // Adds the sums of the slices in order, and writes them. Each slice adds a share of the packs of a thread: it gets
  // those of the other slices, and has its own.
  __device__ void Exchange(const Tile& tile, int thread, int slice, bool works, int group, Index channel,
                           const Element (&sums)[kPixels][kThreadChannels], ChannelPack* shared) const {
    constexpr int kItems = kExchangedPixels * kPacks;
#pragma unroll
    for (int first = 0; first < kPixels; first += kExchangedPixels) {
      const auto pack_of = [&](int item) {
        ChannelPack pack;
#pragma unroll
        for (int j = 0; j < kPackSize; ++j) pack.values[j] = sums[first + item / kPacks][item % kPacks * kPackSize + j];
        return pack;
      };
      __syncthreads();
#pragma unroll
      for (int item = 0; item < kItems; ++item) {
        if (works && item % T::kSlices != slice) {
          shared[(slice * kItems + item) * kSliceThreads + thread] = pack_of(item);
        }
      }
      __syncthreads();
      if (!works) continue;
#pragma unroll
      for (int share = 0; share < kItems; share += T::kSlices) {
        ChannelPack own = {};
#pragma unroll
        for (int s = 0; s < T::kSlices; ++s) {
          if (s == slice && share + s < kItems) own = pack_of(share + s);
        }
        const int item = share + slice;
        if (item >= kItems) break;
        ChannelPack total = slice == 0 ? own : shared[item * kSliceThreads + thread];
#pragma unroll
        for (int s = 1; s < T::kSlices; ++s) {
          const ChannelPack pack = s == slice ? own : shared[(s * kItems + item) * kSliceThreads + thread];
#pragma unroll
          for (int j = 0; j < kPackSize; ++j) total.values[j] += pack.values[j];
        }
        Write(tile, group, first + item / kPacks, channel + item % kPacks * kColumnGroups * kPackSize, total.values);
      }
    }
  }

  // Writes kPackSize channels from `channel` on of pixel i of a group.
  __device__ void Write(const Tile& tile, int group, int i, Index channel, const Element* sums) const {
    const int line = group / Tile::kRowGroups;
    const Index image = tile.image + line / Tile::kRows;
    const Index y = tile.row + line % Tile::kRows;
    const Index x = tile.column + group % Tile::kRowGroups * kPixels + i;
    if (image >= G::kImages || y >= G::kResultH || x >= G::kResultW || channel >= G::kChannels) return;
    Element values[kPackSize];
#pragma unroll
    for (int j = 0; j < kPackSize; ++j) {
      const bool has_bias = bias != nullptr && channel + j < G::kChannels;
      values[j] = has_bias ? sums[j] + bias[(channel + j) * G::kBias] : sums[j];
    }
    Element* const to =
        result + G::kResultOffset + image * G::kResultN + channel * G::kResultC + y * G::kResultAtH + x * G::kResultAtW;
    if (G::kResultVector == kPackSize && kPackSize > 1 && IsAligned<16>(result)) {
      StoreElements<kPackSize>(values, true, to);
      return;
    }
#pragma unroll
    for (int j = 0; j < kPackSize; ++j) {
      if (channel + j < G::kChannels) to[j * G::kResultC] = values[j];
    }
  }
};

}  // namespace cotan::convolution
