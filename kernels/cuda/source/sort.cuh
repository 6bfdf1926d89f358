// SPDX-License-Identifier: Apache-2.0

// Sorts of the lines of a tensor, by merging. An element is an item: a key of unsigned bits in the order of the dtype,
// then its index in the line. So all items of a line differ, and the sort is stable.
//
// Tiles of a line are sorted in shared memory (SortTiles), and then merged in pairs by further launches (MergeRuns).
// Sorted runs are cut off after the number of elements that is asked for.
//
// A sort is a type S with
//   Key, Item, Index (unsigned, of elements)
//   kInputStep, kValuesStep, kIndexesStep: strides along a line
//   Lines: Dims of (input, values, indexes) with an element per line
// A step of it is a type L with
//   kLines; kItems: items of a line
//   kKeep: items that a sorted run keeps; only the last one of a line may be shorter
//   kFromInput, kToOutput: reads the input, writes values and indexes; otherwise items [kLines, kItems] in scratch
//   kToItems: of a line in the result
#pragma once

#include "cotan/copy_dims.cuh"
#include "cotan/error.cuh"

namespace cotan::sort {

// Items of a thread.
constexpr int kPerThread = 8;

// --- Keys and items ----------------------------------------------------------

// NaN has the largest key, and -0 that of 0. kInfinity: the bits of infinity of a float format, otherwise 0.
template <typename B, bool kIsSigned, B kInfinity, bool kDescending>
struct OrderedKey {
  using Bits = B;
  __device__ static Bits Of(Bits bits) {
    const Bits key = Ascending(bits);
    return kDescending ? static_cast<Bits>(~key) : key;
  }

 private:
  __device__ static Bits Ascending(Bits bits) {
    constexpr Bits kSign = static_cast<Bits>(Bits(1) << (8 * sizeof(Bits) - 1));
    if constexpr (kInfinity == 0) {
      return kIsSigned ? static_cast<Bits>(bits ^ kSign) : bits;
    } else {
      const Bits magnitude = static_cast<Bits>(bits & static_cast<Bits>(~kSign));
      if (magnitude > kInfinity) return static_cast<Bits>(~Bits(0));
      if (magnitude == 0) return kSign;
      return (bits & kSign) != 0 ? static_cast<Bits>(~bits) : static_cast<Bits>(bits | kSign);
    }
  }
};

// Key and index in one integer.
template <typename Word, int kIndexBits>
struct PackedItem {
  Word word;

  template <typename Key>
  __device__ static PackedItem Of(Key key, uint32 index) {
    return {static_cast<Word>(static_cast<Word>(key) << kIndexBits | index)};
  }
  // Returns an item that is greater than all others.
  __device__ static PackedItem Last() { return {static_cast<Word>(~Word(0))}; }
  __device__ uint32 Index() const { return static_cast<uint32>(word & ((Word(1) << kIndexBits) - 1)); }
};
template <typename Word, int kIndexBits>
__device__ inline bool IsLess(PackedItem<Word, kIndexBits> a, PackedItem<Word, kIndexBits> b) {
  return a.word < b.word;
}

// For keys of 64 bits.
struct alignas(16) WideItem {
  uint64 key;
  uint64 index;

  __device__ static WideItem Of(uint64 key, uint32 index) { return {key, index}; }
  __device__ static WideItem Last() { return {~uint64(0), ~uint64(0)}; }
  __device__ uint32 Index() const { return static_cast<uint32>(index); }
};
__device__ inline bool IsLess(WideItem a, WideItem b) { return a.key != b.key ? a.key < b.key : a.index < b.index; }

template <typename Word, int kIndexBits>
__device__ inline PackedItem<Word, kIndexBits> Select(bool first, PackedItem<Word, kIndexBits> a,
                                                      PackedItem<Word, kIndexBits> b) {
  return {first ? a.word : b.word};
}
__device__ inline WideItem Select(bool first, WideItem a, WideItem b) {
  return {first ? a.key : b.key, first ? a.index : b.index};
}

// --- Merges ------------------------------------------------------------------

// Items in shared memory, with gaps so that threads use different banks when each one reads its kPerThread items.
template <typename Item>
struct SharedItems {
  Item* items;
  __device__ Item& operator[](int i) const { return items[i + i / kPerThread]; }
  __device__ SharedItems At(int first) const { return {items + first + first / kPerThread}; }  // a multiple
};
__device__ constexpr int SharedSize(int count) { return count + count / kPerThread; }

// Items in shared memory that begin at any position.
template <typename Item>
struct SharedRange {
  SharedItems<Item> items;
  int first;
  __device__ const Item& operator[](int i) const { return items[first + i]; }
};

// Returns how many of the first `diagonal` items of the merged runs are from `a`.
template <typename Index, typename Run>
__device__ inline Index Split(const Run& a, Index a_size, const Run& b, Index b_size, Index diagonal) {
  Index low = diagonal > b_size ? diagonal - b_size : 0;
  Index high = diagonal < a_size ? diagonal : a_size;
  while (low < high) {
    const Index middle = low + (high - low) / 2;
    if (IsLess(b[diagonal - 1 - middle], a[middle])) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

// Returns the kPerThread items from `diagonal` on of the merged runs; items beyond the last one are Last().
template <typename Item>
__device__ inline void MergeItems(const SharedRange<Item>& a, int a_size, const SharedRange<Item>& b, int b_size,
                                  int diagonal, Item (&to)[kPerThread]) {
  int i = Split<int>(a, a_size, b, b_size, diagonal);
  int j = diagonal - i;
  Item x = Item::Last();
  Item y = Item::Last();
  if (i < a_size) x = a[i];
  if (j < b_size) y = b[j];
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) {
    const bool takes_b = IsLess(y, x);
    to[k] = Select(takes_b, y, x);
    if (takes_b) {
      ++j;
      y = Item::Last();
      if (j < b_size) y = b[j];
    } else {
      ++i;
      x = Item::Last();
      if (i < a_size) x = a[i];
    }
  }
}

// Sorts the items of a thread.
template <typename Item>
__device__ inline void SortItems(Item (&items)[kPerThread]) {
#pragma unroll
  for (int round = 0; round < kPerThread; ++round) {
#pragma unroll
    for (int i = round % 2; i + 1 < kPerThread; i += 2) {
      const bool swaps = IsLess(items[i + 1], items[i]);
      const Item low = Select(swaps, items[i + 1], items[i]);
      items[i + 1] = Select(swaps, items[i], items[i + 1]);
      items[i] = low;
    }
  }
}

// --- Operands ----------------------------------------------------------------

// The memory of a step; what it does not have is null.
template <typename S>
struct Operands {
  using Bits = typename S::Key::Bits;
  using Item = typename S::Item;
  const Bits* input;
  Bits* values;
  int64* indexes;
  const Item* from;
  Item* to;
};

template <typename S, typename L>
struct Line {
  using Index = typename S::Index;
  using Item = typename S::Item;
  const Operands<S>& operands;
  Index line;
  Index at[3] = {};

  __device__ Line(const Operands<S>& o, Index l) : operands(o), line(l) {
    if (L::kFromInput || L::kToOutput) S::Lines::Locate(line, at);
  }
  __device__ Item Load(Index i) const {
    if constexpr (L::kFromInput) {
      return Item::Of(S::Key::Of(operands.input[at[0] + i * static_cast<Index>(S::kInputStep)]),
                      static_cast<uint32>(i));
    } else {
      return operands.from[line * static_cast<Index>(L::kItems) + i];
    }
  }
  __device__ void Store(Index i, Item item) const {
    if constexpr (L::kToOutput) {
      const Index from = item.Index();
      operands.values[at[1] + i * static_cast<Index>(S::kValuesStep)] =
          operands.input[at[0] + from * static_cast<Index>(S::kInputStep)];
      operands.indexes[at[2] + i * static_cast<Index>(S::kIndexesStep)] = static_cast<int64>(from);
    } else {
      operands.to[line * static_cast<Index>(L::kToItems) + i] = item;
    }
  }
};

// --- Steps -------------------------------------------------------------------

// Which tile, and which item of it, the thread loads or stores as its `turn`-th; kLinesInner: neighbouring threads have
// neighbouring tiles, not items.
template <typename L>
struct Slot {
  int tile;
  int item;
  __device__ Slot(int turn) {
    const int i = turn * L::kThreads + static_cast<int>(threadIdx.x);
    constexpr int kTiles = L::kThreads * kPerThread / L::kTile;
    tile = L::kLinesInner ? i % kTiles : i / L::kTile;
    item = L::kLinesInner ? i / kTiles : i % L::kTile;
  }
};

// Sorts tiles of kTile items, a power of 2 and at least kPerThread. A block has kThreads threads.
template <typename S, typename L>
__device__ inline void SortTiles(const Operands<S>& operands) {
  using Index = typename S::Index;
  using Item = typename S::Item;
  constexpr int kBlockTiles = L::kThreads * kPerThread / L::kTile;
  constexpr Index kLineTiles = (L::kItems + L::kTile - 1) / L::kTile;
  __shared__ Item memory[SharedSize(L::kThreads * kPerThread)];
  const SharedItems<Item> shared = {memory};
  const Index first = static_cast<Index>(blockIdx.x) * kBlockTiles;

#pragma unroll 1
  for (int turn = 0; turn < kPerThread; ++turn) {
    const Slot<L> slot(turn);
    const Index tile = first + slot.tile;
    const Index i = tile % kLineTiles * L::kTile + slot.item;
    Item item = Item::Last();
    if (tile < kLineTiles * static_cast<Index>(L::kLines) && i < static_cast<Index>(L::kItems)) {
      item = Line<S, L>(operands, tile / kLineTiles).Load(i);
    }
    shared[slot.tile * L::kTile + slot.item] = item;
  }
  __syncthreads();

  const int begin = static_cast<int>(threadIdx.x) * kPerThread;
  Item items[kPerThread];
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) items[k] = shared[begin + k];
  SortItems(items);
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) shared[begin + k] = items[k];
  __syncthreads();
#pragma unroll 1
  for (int run = kPerThread; run < L::kTile; run *= 2) {
    const int pair = begin / (2 * run) * (2 * run);
    MergeItems<Item>({shared, pair}, run, {shared, pair + run}, run, begin - pair, items);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kPerThread; ++k) shared[begin + k] = items[k];
    __syncthreads();
  }

#pragma unroll 1
  for (int turn = 0; turn < kPerThread; ++turn) {
    const Slot<L> slot(turn);
    const Index tile = first + slot.tile;
    const Index position = tile % kLineTiles;
    if (tile < kLineTiles * static_cast<Index>(L::kLines) && slot.item < static_cast<Index>(L::kKeep) &&
        position * L::kTile + slot.item < static_cast<Index>(L::kItems)) {
      Line<S, L>(operands, tile / kLineTiles)
          .Store(position * static_cast<Index>(L::kKeep) + slot.item, shared[slot.tile * L::kTile + slot.item]);
    }
  }
}

// A run of items in global memory.
template <typename S, typename L>
struct GlobalRun {
  const Line<S, L>& line;
  typename S::Index first;
  __device__ typename S::Item operator[](typename S::Index i) const { return line.Load(first + i); }
};

// Merges pairs of runs of kRun items; a block computes kThreads * kPerThread items of the result. The last run of a
// line may be shorter, and may have no partner.
template <typename S, typename L>
__device__ inline void MergeRuns(const Operands<S>& operands) {
  using Index = typename S::Index;
  using Item = typename S::Item;
  constexpr int kTile = L::kThreads * kPerThread;
  constexpr Index kRun = L::kRun, kItems = L::kItems, kKeep = L::kKeep;
  constexpr Index kPairs = (kItems + 2 * kRun - 1) / (2 * kRun);
  constexpr Index kPairTiles = (kKeep + kTile - 1) / kTile;
  __shared__ Item memory[SharedSize(kTile)];
  __shared__ Index splits[2];
  const SharedItems<Item> shared = {memory};
  const Index block = blockIdx.x;
  const Index pair = block / kPairTiles % kPairs;
  const Line<S, L> line(operands, block / kPairTiles / kPairs);

  const Index begin = pair * 2 * kRun;
  const Index rest = kItems - begin;
  const Index a_size = rest < kRun ? rest : kRun;
  const Index b_size = rest - a_size < kRun ? rest - a_size : kRun;
  const Index size = a_size + b_size < kKeep ? a_size + b_size : kKeep;
  const Index from = block % kPairTiles * kTile;
  if (from >= size) return;
  const Index to = size - from < kTile ? size : from + kTile;
  const GlobalRun<S, L> a = {line, begin}, b = {line, begin + a_size};
  if (threadIdx.x % 32 == 0 && threadIdx.x < 64) {
    splits[threadIdx.x / 32] = Split<Index>(a, a_size, b, b_size, threadIdx.x == 0 ? from : to);
  }
  __syncthreads();
  const Index a_from = splits[0], b_from = from - splits[0];
  const int a_count = static_cast<int>(splits[1] - a_from);
  const int count = static_cast<int>(to - from);
  for (int i = threadIdx.x; i < count; i += L::kThreads) {
    shared[i] = i < a_count ? a[a_from + i] : b[b_from + (i - a_count)];
  }
  __syncthreads();
  const int first = static_cast<int>(threadIdx.x) * kPerThread;
  Item items[kPerThread];
  if (first < count) {
    MergeItems<Item>({shared, 0}, a_count, {shared, a_count}, count - a_count, first, items);
  }
  __syncthreads();
  if (first < count) {
#pragma unroll
    for (int k = 0; k < kPerThread; ++k) shared[first + k] = items[k];
  }
  __syncthreads();
  for (int i = threadIdx.x; i < count; i += L::kThreads) line.Store(pair * kKeep + from + i, shared[i]);
}

}  // namespace cotan::sort
