// SPDX-License-Identifier: Apache-2.0

// Products with weights that stay on the multiprocessor for all time steps, in registers and shared memory, for
// recurrent layers whose weights fit there.
//
// A group of kLanes neighbouring threads has kUnits hidden units. Each lane multiplies a part of the depth with all
// rows of the weights that belong to these units; then the lanes exchange sums until each has all of the sum of some
// items, an item being a unit of a batch entry. So a time step needs one barrier.
//
// R (recurrent.cuh) has Product: a PersistentGeometry.
#pragma once

#include "cotan/recurrent.cuh"

namespace cotan::recurrent {

// The product of [entries, depth] by weights, of which `unit_rows` rows, `hidden` apart, belong to a unit. `registers`
// vectors of 16 bytes of a thread's weights lie in registers, the others in shared memory; of these, `early` are read
// while the threads wait for the factors.
template <int depth, int unit_rows, int units, int lanes, int registers, int early>
struct PersistentGeometry {
  static constexpr int kDepth = depth, kUnitRows = unit_rows, kUnits = units, kLanes = lanes;
  static constexpr int kRegisters = registers, kEarly = early;
};

// A thread's part of the weights and of the products with them. Vector c * kRows + r has kVector elements of the depth
// in chunk c of row r; row k * kUnits + i is the k-th row of the i-th unit of the thread.
template <typename R>
struct Persistent {
  using Element = typename R::Element;
  using Compute = typename ComputeOf<Element>::Type;
  using P = typename R::Product;
  static constexpr int kVector = 16 / sizeof(Compute);
  static constexpr int kRows = P::kUnits * P::kUnitRows;
  static constexpr int kStride = P::kLanes * kVector;  // of the depth that a lane has, in vectors
  static constexpr int kChunks = (P::kDepth + kStride - 1) / kStride;
  static constexpr int kPaddedDepth = kChunks * kStride;
  static constexpr int kVectors = kChunks * kRows;
  static constexpr int kSharedVectors = kVectors - P::kRegisters;
  static constexpr int kItems = P::kUnits * R::kEntries;
  static constexpr int kThreadItems = kItems > P::kLanes ? kItems / P::kLanes : 1;
  static constexpr int kItemLanes = P::kLanes > kItems ? P::kLanes / kItems : 1;  // lanes that have the same items
  // Two lanes that have the same item share its rows: the first one has rows 0 and 2, the other one rows 1 and 3 or 2.
  static constexpr int kRowLanes = P::kUnitRows > 1 && kItemLanes > 1 ? 2 : 1;
  static constexpr int kThreadRows = (P::kUnitRows + kRowLanes - 1) / kRowLanes;
  static_assert(P::kRegisters > 0 && kSharedVectors >= 0);

  // Of the vectors before the f-th, those in shared memory: they are spread evenly, in groups that are loaded together.
  static constexpr int kGroup = P::kUnitRows == 1 ? P::kUnits : 1;
  static_assert(kSharedVectors % kGroup == 0 && P::kEarly % kGroup == 0 && P::kEarly <= kSharedVectors);
  __device__ static constexpr int SharedBefore(int f) {
    const int before = (f / kGroup * kSharedVectors + kVectors - 1) / kVectors * kGroup;
    return IsShared(f) ? before + f % kGroup : before;
  }
  __device__ static constexpr bool IsShared(int f) {
    return (f / kGroup * kSharedVectors + kVectors - 1) / kVectors <
           ((f / kGroup + 1) * kSharedVectors + kVectors - 1) / kVectors;
  }

  Compute held[P::kRegisters][kVector];
  Compute early[P::kEarly > 0 ? P::kEarly : 1][kVector];

  __device__ static int Lane() { return static_cast<int>(threadIdx.x) % P::kLanes; }
  __device__ static int FirstUnit() { return static_cast<int>(threadIdx.x) / P::kLanes * P::kUnits; }

  // Returns the thread's f-th vector in shared memory, of which the first come first.
  __device__ static Compute* Shared(int f) {
    return reinterpret_cast<Compute*>(shared_bytes) + (f * R::kThreads + static_cast<int>(threadIdx.x)) * kVector;
  }

  // Returns the two buffers of factors, [2, kEntries, kPaddedDepth].
  __device__ static Compute* Factors() {
    return reinterpret_cast<Compute*>(shared_bytes) + kSharedVectors * R::kThreads * kVector;
  }

  // Whether all threads have all of their units, and all lanes all of their depth.
  static constexpr bool kHasAllUnits = R::kHidden % P::kUnits == 0 && R::kHidden / P::kUnits * P::kLanes == R::kThreads;
  static constexpr bool kHasAllDepth = P::kDepth % kStride == 0;
  // Whether vectors lie along the units, which are neighbours in memory, or along the depth.
  template <int64 kRowStride>
  static constexpr bool kAlongUnits = P::kUnitRows == 1 && kRowStride == 1 && P::kUnits > 1;

  // Returns the i-th unit of the thread, or another one if there is none: what it computes is not stored.
  __device__ static int UnitAt(int i) {
    const int unit = FirstUnit() + i;
    return kHasAllUnits || unit < R::kHidden ? unit : R::kHidden - P::kUnits > 0 ? R::kHidden - P::kUnits : 0;
  }

  // Loads kVector elements of a row from `depth` on; zeros beyond the end. There are no branches: ptxas would spill
  // what is loaded on both sides.
  template <int64 kDepthStride, bool kAligned>
  __device__ static void LoadAlongDepth(const Element* row, int depth, Element (&to)[kVector]) {
    if constexpr (kAligned) {
      const bool exists = kHasAllDepth || depth < P::kDepth;
      LoadElements<kVector>(exists ? row + depth : row, true, to);
#pragma unroll
      for (int v = 0; v < kVector; ++v) to[v] = exists ? to[v] : Element{};
    } else {
#pragma unroll
      for (int v = 0; v < kVector; ++v) {
        const bool exists = kHasAllDepth || depth + v < P::kDepth;
        const Element value = row[exists ? (depth + v) * kDepthStride : 0];
        to[v] = exists ? value : Element{};
      }
    }
  }

  template <int64 kRowStride, int64 kDepthStride, bool kAligned>
  __device__ static void LoadChunk(const Element* from, int chunk, Element (&to)[kRows][kVector]) {
    const int depth = chunk * kStride + Lane() * kVector;
    if constexpr (kAlongUnits<kRowStride>) {
#pragma unroll
      for (int v = 0; v < kVector; ++v) {
        Element units[P::kUnits];
        const bool exists = kHasAllDepth || depth + v < P::kDepth;
        const Element* const at = from + (exists ? (depth + v) * kDepthStride : 0);
        if constexpr (kAligned) {
          LoadElements<P::kUnits>(at + UnitAt(0), true, units);
        } else {
#pragma unroll
          for (int i = 0; i < P::kUnits; ++i) units[i] = at[UnitAt(i)];
        }
#pragma unroll
        for (int i = 0; i < P::kUnits; ++i) to[i][v] = exists ? units[i] : Element{};
      }
    } else {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const int row = r / P::kUnits * R::kHidden + UnitAt(r % P::kUnits);
        LoadAlongDepth<kDepthStride, kAligned>(from + row * kRowStride, depth, to[r]);
      }
    }
  }

  template <int64 kRowStride, int64 kDepthStride, bool kAligned>
  __device__ void LoadAll(const Element* from) {
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      // The barrier bounds the loads on their way, whose addresses and conditions take registers.
      if (c > 0 && !(kAligned && kHasAllDepth)) __syncthreads();
      Element elements[kRows][kVector];
      LoadChunk<kRowStride, kDepthStride, kAligned>(from, c, elements);
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const int f = c * kRows + r;
        Compute values[kVector];
#pragma unroll
        for (int v = 0; v < kVector; ++v) values[v] = Widen(elements[r][v]);
        if (IsShared(f)) {
          StoreElements<kVector>(values, true, Shared(SharedBefore(f)));
        } else {
#pragma unroll
          for (int v = 0; v < kVector; ++v) held[f - SharedBefore(f)][v] = values[v];
        }
      }
    }
  }

  // Loads the weights, from[row * kRowStride + depth * kDepthStride].
  template <int64 kRowStride, int64 kDepthStride>
  __device__ void Load(const Element* from) {
    constexpr bool kUnitVectors = kAlongUnits<kRowStride>;
    constexpr int kSize = kUnitVectors ? P::kUnits : kVector;
    constexpr bool kDense = kUnitVectors ? kDepthStride % kSize == 0 && R::kHidden % kSize == 0
                                         : kDepthStride == 1 && kRowStride % kSize == 0 && P::kDepth % kSize == 0;
    if constexpr (kDense) {
      if (IsAligned<kSize * sizeof(Element)>(from)) {
        LoadAll<kRowStride, kDepthStride, true>(from);
        return;
      }
    }
    LoadAll<kRowStride, kDepthStride, false>(from);
  }

  // Reads what Multiply() reads before it has factors.
  __device__ void ReadEarly() {
#pragma unroll
    for (int f = 0; f < P::kEarly; ++f) LoadElements<kVector>(Shared(f), true, early[f]);
  }

  // Multiplies `factors` [kEntries, kPaddedDepth] in shared memory; writes the lane's part of the sums.
  __device__ void Multiply(const Compute* factors, Compute (&sums)[R::kEntries][kRows]) const {
#pragma unroll
    for (int b = 0; b < R::kEntries; ++b) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) sums[b][r] = 0;
    }
    factors += Lane() * kVector;
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      Compute x[R::kEntries][kVector];
#pragma unroll
      for (int b = 0; b < R::kEntries; ++b) {
        LoadElements<kVector>(factors + b * kPaddedDepth + c * kStride, true, x[b]);
      }
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const int f = c * kRows + r;
        Compute w[kVector];
        const int before = SharedBefore(f);
        if (IsShared(f) && before >= P::kEarly) {
          LoadElements<kVector>(Shared(before), true, w);
        } else {
#pragma unroll
          for (int v = 0; v < kVector; ++v) w[v] = IsShared(f) ? early[before][v] : held[f - before][v];
        }
#pragma unroll
        for (int b = 0; b < R::kEntries; ++b) {
#pragma unroll
          for (int v = 0; v < kVector; ++v) sums[b][r] = MultiplyAdd(w[v], x[b][v], sums[b][r]);
        }
      }
    }
  }

  // Adds the parts of the lanes. The thread has items [FirstItem(), FirstItem() + kThreadItems) of the group; item
  // b * kUnits + i is unit i of entry b.
  __device__ static void Exchange(const Compute (&sums)[R::kEntries][kRows],
                                  Compute (&totals)[kThreadItems][kThreadRows]) {
    Compute parts[kItems][P::kUnitRows];
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
#pragma unroll
      for (int k = 0; k < P::kUnitRows; ++k) {
        parts[item][k] = sums[item / P::kUnits][k * P::kUnits + item % P::kUnits];
      }
    }
    int items = kItems;
#pragma unroll
    for (int distance = P::kLanes / 2; distance > 0; distance /= 2) {
      if (items > 1) {
        items /= 2;
#pragma unroll
        for (int item = 0; item < kItems; ++item) {
          if (item >= items) continue;
#pragma unroll
          for (int k = 0; k < P::kUnitRows; ++k) {
            parts[item][k] = AddHalf(parts[item][k], parts[item + items][k], distance);
          }
        }
      } else {
        AddRows(distance, parts[0]);
      }
    }
#pragma unroll
    for (int m = 0; m < kThreadItems; ++m) {
#pragma unroll
      for (int k = 0; k < kThreadRows; ++k) totals[m][k] = parts[m][k];
    }
  }

  // Adds the parts of `lower` of two lanes in the one whose number has not the bit `distance`, those of `upper` in the
  // other one.
  __device__ static Compute AddHalf(Compute lower, Compute upper, int distance) {
    const bool is_upper = (threadIdx.x & distance) != 0;
    return (is_upper ? upper : lower) + __shfl_xor_sync(0xffffffffu, is_upper ? lower : upper, distance);
  }

  // Adds the parts of two lanes that have the same item.
  __device__ static void AddRows(int distance, Compute (&parts)[P::kUnitRows]) {
    const bool divides = distance < kRowLanes;
#pragma unroll
    for (int k = 0; k < P::kUnitRows; k += divides ? 2 : 1) {
      if (divides && k + 1 < P::kUnitRows) {
        parts[k / 2] = AddHalf(parts[k], parts[k + 1], distance);
      } else {
        parts[divides ? k / 2 : k] = parts[k] + __shfl_xor_sync(0xffffffffu, parts[k], distance);
      }
    }
  }

  __device__ static int FirstItem() { return Lane() / kItemLanes * kThreadItems; }
  // Returns the number of the thread among those that have the same items.
  __device__ static int ItemLane() { return Lane() % kItemLanes; }

  __device__ static int RowLane() { return Lane() % kRowLanes; }

  // Zeros both buffers of factors. The caller waits for all threads.
  __device__ static void ClearFactors() {
    constexpr int kCount = 2 * R::kEntries * kPaddedDepth;
    Compute* const factors = Factors();
    for (int i = static_cast<int>(threadIdx.x); i < kCount; i += R::kThreads) factors[i] = 0;
  }
};

// The items of a thread, the first of which is unit `unit` of entry `entry` of the block, batch entry `row`.
template <typename R>
struct ThreadItems {
  using W = Persistent<R>;
  static constexpr int kUnits = R::Product::kUnits;
  static constexpr bool kAllExist = W::kHasAllUnits && R::kBatch % R::kEntries == 0;
  int unit = W::FirstUnit() + W::FirstItem() % kUnits;
  int entry = W::FirstItem() / kUnits;
  int64 row = static_cast<int64>(blockIdx.x) * R::kEntries + entry;

  // Return the unit and the batch entry of the m-th item.
  __device__ int Unit(int m) const { return unit + m % kUnits; }
  __device__ int64 Row(int m) const { return row + m / kUnits; }
  __device__ bool Has(int m) const { return kAllExist || (Unit(m) < R::kHidden && Row(m) < R::kBatch); }

  // Returns the address of gate `gate` of the first item at step t.
  template <typename Sequence, typename Element>
  __device__ Element* At(Element* operand, int64 t, int gate = 0) const {
    return operand + t * Sequence::kStep + row * Sequence::kRow + (gate * R::kHidden + unit) * Sequence::kColumn;
  }

  // Returns how far gate `gate` of the m-th item is from gate 0 of the first.
  template <typename Sequence>
  __device__ static constexpr int64 Offset(int m, int gate = 0) {
    return m / kUnits * Sequence::kRow + (int64{gate} * R::kHidden + m % kUnits) * Sequence::kColumn;
  }

  // Returns where the m-th item is among the factors, of which `gate` has kHidden.
  __device__ int Factor(int m, int gate = 0) const {
    return (entry + m / kUnits) * W::kPaddedDepth + gate * R::kHidden + Unit(m);
  }
};

// Returns how far an operand's next step is, in the order in which they are computed.
template <typename R, typename Sequence>
inline constexpr int64 kNextStep = R::kReverse ? -Sequence::kStep : Sequence::kStep;

}  // namespace cotan::recurrent
