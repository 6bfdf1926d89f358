// SPDX-License-Identifier: Apache-2.0

// Cumulative reductions of the lines of a tensor.
//
// A scan is a type S with
//   Element, Index (unsigned, of elements), Function (scan_functions.cuh), kHasIndexes
//   kLength (of a line), kLines, kReverse
//   kInputStep, kOutputStep, kIndexesStep: strides along a line
//   Lines: Dims of (input, output, indexes) with an element per line
//   kParts, kPartLength: a line is scanned by kParts blocks, which begin with the totals of the parts before theirs
// and the constants of ScanRows or ScanColumns.
#pragma once

#include "cotan/copy_dims.cuh"
#include "cotan/copy_values.cuh"
#include "cotan/error.cuh"
#include "cotan/scan_functions.cuh"

namespace cotan::scan {

// --- Where elements lie ------------------------------------------------------

// The line and the part of this block, or of a thread of it.
template <typename S>
struct Place {
  using Index = typename S::Index;
  Index line, part;
  Index begin, part_end;  // positions of the part
  Index end;              // as part_end; begin for lines beyond the last one
  Index at[3];            // offsets of position 0

  __device__ Place(int lines_per_block, int line_of_block) {
    const Index block = blockIdx.x;
    part = block % static_cast<Index>(S::kParts);
    line = block / static_cast<Index>(S::kParts) * lines_per_block + line_of_block;
    begin = part * static_cast<Index>(S::kPartLength);
    part_end = begin + static_cast<Index>(S::kPartLength);
    if (part_end > static_cast<Index>(S::kLength)) part_end = static_cast<Index>(S::kLength);
    end = part_end;
    at[0] = at[1] = at[2] = 0;
    if (line < static_cast<Index>(S::kLines)) {
      S::Lines::Locate(line, at);
    } else {
      end = begin;
    }
  }
  // Returns true if the thread's line exists.
  __device__ bool IsValid() const { return line < static_cast<Index>(S::kLines); }
  // Returns the index in the line of the first of `count` positions from `i` in memory.
  template <int kCount>
  __device__ static Index InLine(Index i) {
    return S::kReverse ? static_cast<Index>(S::kLength) - kCount - i : i;
  }
};

template <typename S>
__device__ inline typename S::Function::State StateOf(typename S::Element element, typename S::Index in_line) {
  return S::Function::Of(Format<typename S::Element>::Load(element), in_line);
}

// --- Rows --------------------------------------------------------------------

// Scans lines whose elements lie close together. kWarps warps, or kLanes lanes if kWarps is 1, have a line; a thread
// has kPacks packs of kVector elements at a time.
template <typename S>
struct RowScan {
  using Element = typename S::Element;
  using Index = typename S::Index;
  using F = typename S::Function;
  using State = typename F::State;
  static constexpr int kVector = S::kVector;
  static constexpr int kLineThreads = S::kLanes * S::kWarps;
  static constexpr int kStep = S::kLanes * kVector;    // elements of the packs of a warp
  static constexpr int kWarpStep = kStep * S::kPacks;  // elements of a warp
  static constexpr int kChunk = kWarpStep * S::kWarps;

  const Element* input;
  Element* output;
  int64* indexes;
  bool aligned;
  Exchange<F, kThreads / 32>& exchange;
  int turn = 0;

  __device__ static int Lane() { return static_cast<int>(threadIdx.x) % S::kLanes; }
  __device__ static int Warp() { return static_cast<int>(threadIdx.x) / S::kLanes % S::kWarps; }

  // Joins the states of the warps of a line.
  __device__ Prefix<State> JoinWarps(State state) {
    if constexpr (S::kWarps == 1) {
      return {F::None(), state};
    } else {
      State* const states = exchange.states[turn];
      turn ^= 1;
      const int warp = static_cast<int>(threadIdx.x) / 32;
      if (threadIdx.x % 32 == 0) states[warp] = state;
      __syncthreads();
      return JoinGroups<F, S::kWarps, 1>(states + warp / S::kWarps * S::kWarps, Warp());
    }
  }

  __device__ void Load(const Place<S>& place, Index i, Element (&pack)[kVector]) const {
    const Index offset = place.at[0] + Place<S>::template InLine<kVector>(i) * static_cast<Index>(S::kInputStep);
    Element elements[kVector];
    LoadElements<kVector>(input + offset, aligned, elements);
#pragma unroll
    for (int v = 0; v < kVector; ++v) pack[v] = elements[S::kReverse ? kVector - 1 - v : v];
  }

  // Returns the state of element v of the pack at position i.
  __device__ static State Of(const Element (&pack)[kVector], Index i, int v) {
    return StateOf<S>(pack[v], Place<S>::template InLine<1>(i + v));
  }

  // Stores the pack at position i, after the elements of `state`.
  __device__ void Store(const Place<S>& place, Index i, const Element (&pack)[kVector], State state) const {
    Element elements[kVector];
    int64 positions[kVector];
#pragma unroll
    for (int v = 0; v < kVector; ++v) {
      state = F::Join(state, Of(pack, i, v));
      const int to = S::kReverse ? kVector - 1 - v : v;
      elements[to] = Format<Element>::Store(F::Result(state));
      if constexpr (S::kHasIndexes) {
        positions[to] = F::Position(state);
        // NVRTC divides a vector store of constants and other values; it is not to know that a position is constant.
        asm("" : "+l"(positions[to]));
      }
    }
    const Index in_line = Place<S>::template InLine<kVector>(i);
    StoreElements<kVector>(elements, aligned, output + (place.at[1] + in_line * static_cast<Index>(S::kOutputStep)));
    if constexpr (S::kHasIndexes) {
      StoreElements<kVector>(positions, aligned,
                             indexes + (place.at[2] + in_line * static_cast<Index>(S::kIndexesStep)));
    }
  }

  // Scans from the position `chunk` on, or only reduces; `carry` is the state before and becomes the one after.
  template <bool kStores>
  __device__ void ScanChunk(const Place<S>& place, Index chunk, State& carry) {
    const Index first = chunk + static_cast<Index>(Warp() * kWarpStep + Lane() * kVector);
    Element packs[S::kPacks][kVector] = {};
#pragma unroll
    for (int k = 0; k < S::kPacks; ++k) {
      if (first + k * kStep < place.end) Load(place, first + k * kStep, packs[k]);
    }
    Prefix<State> prefixes[S::kPacks];
    State total = F::None();
#pragma unroll
    for (int k = 0; k < S::kPacks; ++k) {
      const Index i = first + k * kStep;
      State state = F::None();
      if (i < place.end) {
        state = Of(packs[k], i, 0);
#pragma unroll
        for (int v = 1; v < kVector; ++v) state = F::Join(state, Of(packs[k], i, v));
      }
      prefixes[k] = JoinLanes<F, S::kLanes>(state);
      total = F::Join(total, prefixes[k].all);
    }
    const Prefix<State> warps = JoinWarps(total);
    if constexpr (kStores) {
      State before = F::Join(carry, warps.before);
#pragma unroll
      for (int k = 0; k < S::kPacks; ++k) {
        const Index i = first + k * kStep;
        if (i < place.end) Store(place, i, packs[k], F::Join(before, prefixes[k].before));
        before = F::Join(before, prefixes[k].all);
      }
    }
    carry = F::Join(carry, warps.all);
  }
};

template <typename S>
__device__ inline RowScan<S> MakeRowScan(const typename S::Element* input, typename S::Element* output,
                                         int64* indexes) {
  __shared__ Exchange<typename S::Function, kThreads / 32> exchange;
  constexpr int kBytes = S::kVector * sizeof(typename S::Element);
  bool aligned = IsAligned<kBytes>(input) && IsAligned<kBytes>(output);
  if (S::kHasIndexes) aligned = aligned && IsAligned<S::kVector * 8>(indexes);
  return {input, output, indexes, aligned, exchange};
}

// Writes the total of each part, [kLines, kParts].
template <typename S>
__device__ inline void ReduceRows(const typename S::Element* input, typename S::Function::State* totals) {
  using F = typename S::Function;
  RowScan<S> scan = MakeRowScan<S>(input, nullptr, nullptr);
  const Place<S> place(kThreads / scan.kLineThreads, threadIdx.x / scan.kLineThreads);
  typename F::State carry = F::None();
  for (typename S::Index chunk = place.begin; chunk < place.part_end; chunk += scan.kChunk) {
    scan.template ScanChunk<false>(place, chunk, carry);
  }
  if (threadIdx.x == 0) totals[blockIdx.x] = carry;
}

// Scans. `totals` are those of ReduceRows if kParts > 1; a line then has the whole block.
template <typename S>
__device__ inline void ScanRows(const typename S::Element* input, typename S::Element* output, int64* indexes,
                                const typename S::Function::State* totals) {
  using F = typename S::Function;
  RowScan<S> scan = MakeRowScan<S>(input, output, indexes);
  const Place<S> place(kThreads / scan.kLineThreads, threadIdx.x / scan.kLineThreads);
  typename F::State carry = F::None();
  if constexpr (S::kParts > 1) {
    static_assert(S::kParts <= kThreads && scan.kLineThreads == kThreads);
    if (threadIdx.x < place.part) carry = totals[blockIdx.x - static_cast<unsigned>(place.part) + threadIdx.x];
    carry = scan.JoinWarps(JoinLanes<F, 32>(carry).all).all;
  }
  // All threads of the block run as often: those of lines beyond the last one take part in the exchanges.
  for (typename S::Index chunk = place.begin; chunk < place.part_end; chunk += scan.kChunk) {
    scan.template ScanChunk<true>(place, chunk, carry);
  }
}

// --- Columns -----------------------------------------------------------------

// Scans lines that lie side by side. A block has kColumns lines, whose threads lie kColumns apart; a thread has kRows
// consecutive elements at a time.
template <typename S>
struct ColumnScan {
  using Element = typename S::Element;
  using Index = typename S::Index;
  using F = typename S::Function;
  using State = typename F::State;
  static constexpr int kGroups = kThreads / S::kColumns;
  static constexpr int kChunk = kGroups * S::kRows;

  const Element* input;
  Element* output;
  int64* indexes;
  Exchange<F, kThreads>& exchange;
  int turn = 0;

  __device__ static int Column() { return static_cast<int>(threadIdx.x) % S::kColumns; }
  __device__ static int Group() { return static_cast<int>(threadIdx.x) / S::kColumns; }

  // Joins the states of the threads of a line.
  __device__ Prefix<State> JoinThreads(State state) {
    if constexpr (kGroups == 1) {
      return {F::None(), state};
    } else {
      State* const states = exchange.states[turn];
      turn ^= 1;
      states[threadIdx.x] = state;
      __syncthreads();
      return JoinGroups<F, kGroups, S::kColumns>(states + Column(), Group());
    }
  }

  // As RowScan::ScanChunk.
  template <bool kStores>
  __device__ void ScanChunk(const Place<S>& place, Index chunk, State& carry) {
    const Index first = chunk + static_cast<Index>(Group() * S::kRows);
    Element elements[S::kRows] = {};
#pragma unroll
    for (int r = 0; r < S::kRows; ++r) {
      const Index i = Place<S>::template InLine<1>(first + r);
      if (first + r < place.end) elements[r] = input[place.at[0] + i * static_cast<Index>(S::kInputStep)];
    }
    State state = F::None();
#pragma unroll
    for (int r = 0; r < S::kRows; ++r) {
      if (first + r >= place.end) break;
      state = F::Join(state, StateOf<S>(elements[r], Place<S>::template InLine<1>(first + r)));
    }
    const Prefix<State> threads = JoinThreads(state);
    if constexpr (kStores) {
      state = F::Join(carry, threads.before);
#pragma unroll
      for (int r = 0; r < S::kRows; ++r) {
        if (first + r >= place.end) break;
        const Index i = Place<S>::template InLine<1>(first + r);
        state = F::Join(state, StateOf<S>(elements[r], i));
        output[place.at[1] + i * static_cast<Index>(S::kOutputStep)] = Format<Element>::Store(F::Result(state));
        if constexpr (S::kHasIndexes) {
          indexes[place.at[2] + i * static_cast<Index>(S::kIndexesStep)] = F::Position(state);
        }
      }
    }
    carry = F::Join(carry, threads.all);
  }
};

template <typename S>
__device__ inline ColumnScan<S> MakeColumnScan(const typename S::Element* input, typename S::Element* output,
                                               int64* indexes) {
  __shared__ Exchange<typename S::Function, kThreads> exchange;
  return {input, output, indexes, exchange};
}

// Writes the total of each part, [kParts, kLines].
template <typename S>
__device__ inline void ReduceColumns(const typename S::Element* input, typename S::Function::State* totals) {
  using F = typename S::Function;
  ColumnScan<S> scan = MakeColumnScan<S>(input, nullptr, nullptr);
  const Place<S> place(S::kColumns, scan.Column());
  typename F::State carry = F::None();
  for (typename S::Index chunk = place.begin; chunk < place.part_end; chunk += scan.kChunk) {
    scan.template ScanChunk<false>(place, chunk, carry);
  }
  if (scan.Group() == 0 && place.IsValid())
    totals[place.part * static_cast<typename S::Index>(S::kLines) + place.line] = carry;
}

// Scans. `totals` are those of ReduceColumns if kParts > 1.
template <typename S>
__device__ inline void ScanColumns(const typename S::Element* input, typename S::Element* output, int64* indexes,
                                   const typename S::Function::State* totals) {
  using F = typename S::Function;
  using Index = typename S::Index;
  ColumnScan<S> scan = MakeColumnScan<S>(input, output, indexes);
  const Place<S> place(S::kColumns, scan.Column());
  typename F::State carry = F::None();
  if constexpr (S::kParts > 1) {
    constexpr Index kPerGroup = (S::kParts + scan.kGroups - 1) / scan.kGroups;
    const Index first = static_cast<Index>(scan.Group()) * kPerGroup;
    for (Index part = first; part < first + kPerGroup && part < place.part && place.IsValid(); ++part) {
      carry = F::Join(carry, totals[part * static_cast<Index>(S::kLines) + place.line]);
    }
    carry = scan.JoinThreads(carry).all;
  }
  for (Index chunk = place.begin; chunk < place.part_end; chunk += scan.kChunk) {
    scan.template ScanChunk<true>(place, chunk, carry);
  }
}

}  // namespace cotan::scan
