// SPDX-License-Identifier: Apache-2.0

// Kernels that check an index or read rows of a table through it. One element per thread.
#pragma once

#include "cotan/copy_dims.cuh"
#include "cotan/copy_values.cuh"
#include "cotan/error.cuh"

namespace cotan::indexing {

// The values that an index may have: see IndexRange in kernels/api/index_range.h.
template <int64 size, bool from_end, bool has_ignored, int64 ignored>
struct Range {
  static constexpr int64 kSize = size;
  __device__ static bool IsIgnored(int64 value) { return has_ignored && value == ignored; }
  __device__ static bool Allows(int64 value) {
    return (value >= (from_end ? -size : 0) && value < size) || IsIgnored(value);
  }
  // Returns the position that an allowed value selects, or the ignored value; for other values, a valid position.
  __device__ static int64 Resolve(int64 value) {
    if (IsIgnored(value)) return value;
    if (!Allows(value)) return 0;
    return value < 0 ? value + size : value;
  }
};

// Where and how errors are recorded.
struct Errors {
  ErrorRecord* record;
  unsigned op;
};

// Records an error unless R allows `value`, the element at row-major `position` of the index.
template <typename R, typename Index>
__device__ inline void Check(const Errors& errors, Index position, int64 value) {
  if (!R::Allows(value)) RecordError(errors.record, errors.op, static_cast<long long>(position), value);
}

// Returns the number of the thread in a grid whose blocks begin with `first_block`.
template <typename Index>
__device__ inline Index ThreadOfGrid(unsigned first_block = 0) {
  return static_cast<Index>(blockIdx.x - first_block) * static_cast<Index>(blockDim.x) +
         static_cast<Index>(threadIdx.x);
}

// Checks an index. `D` is a Dims of (index, position).
template <typename R, typename Index, typename D, typename T>
__device__ inline void CheckAll(const T* index, const Errors& errors) {
  const Index i = ThreadOfGrid<Index>();
  if (i >= static_cast<Index>(D::kCount)) return;
  Index at[2] = {};
  D::Locate(i, at);
  Check<R>(errors, at[1], index[at[0]]);
}

// Copies an index with negative values resolved, by the blocks from `first_block` on. `D` is a Dims of (index, output,
// position); errors have `first_position` added to the position.
template <typename R, typename Index, bool kRecords, typename D, typename T>
__device__ inline void ResolveAll(const T* index, T* output, const Errors& errors, unsigned first_block = 0,
                                  int64 first_position = 0) {
  const Index i = ThreadOfGrid<Index>(first_block);
  if (i >= static_cast<Index>(D::kCount)) return;
  Index at[3] = {};
  D::Locate(i, at);
  const int64 value = index[at[0]];
  if (kRecords) Check<R>(errors, static_cast<int64>(at[2]) + first_position, value);
  output[at[1]] = static_cast<T>(R::Resolve(value));
}

// Copies rows of a table. `D` is a Dims of (table, output, index, position); the table's dimension that the index
// selects from has stride kRow.
template <typename E, typename R, typename Index, bool kRecords, int64 kRow, typename D, typename T>
__device__ inline void GatherRows(const void* table, const T* index, void* output, const Errors& errors, Index i) {
  Index at[4] = {};
  D::Locate(i, at);
  const int64 value = index[at[2]];
  if (kRecords) Check<R>(errors, at[3], value);
  E element = {};
  if (R::kSize > 0) {
    element = static_cast<const E*>(table)[at[0] + static_cast<Index>(R::Resolve(value)) * static_cast<Index>(kRow)];
  }
  static_cast<E*>(output)[at[1]] = element;
}

// Gathers elements of `Vector` type if the pointers are aligned, otherwise of `Scalar` type. The dims count vectors and
// scalars.
template <typename Vector, typename Scalar, typename R, typename Index, bool kRecords, int64 kVectorRow,
          int64 kScalarRow, typename VectorDims, typename ScalarDims, typename T>
__device__ inline void Gather(const void* table, const T* index, void* output, const Errors& errors) {
  const Index i = ThreadOfGrid<Index>();
  if (i >= static_cast<Index>(VectorDims::kCount)) return;
  if (sizeof(Vector) == sizeof(Scalar) || (IsAligned<sizeof(Vector)>(table) && IsAligned<sizeof(Vector)>(output))) {
    GatherRows<Vector, R, Index, kRecords, kVectorRow, VectorDims>(table, index, output, errors, i);
  } else {
    constexpr Index kRatio = sizeof(Vector) / sizeof(Scalar);
#pragma unroll 1
    for (Index k = 0; k < kRatio; ++k) {
      GatherRows<Scalar, R, Index, kRecords, kScalarRow, ScalarDims>(table, index, output, errors,
                                                                     k * static_cast<Index>(VectorDims::kCount) + i);
    }
  }
}

}  // namespace cotan::indexing
