// SPDX-License-Identifier: Apache-2.0

// The inner loops of a matrix product on packed panels, for kernels that compute small products themselves.
// They are inlined into functions that are compiled for several instruction sets (see simd.h).
#ifndef COTAN_KERNELS_CPU_SIMD_GEMM_CORE_H_
#define COTAN_KERNELS_CPU_SIMD_GEMM_CORE_H_

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace cotan::cpu {

// A vector of 64 bytes: one AVX-512 register or several smaller ones.
template <typename T>
struct VectorOf {
  typedef T Type __attribute__((vector_size(64)));
};
template <typename T>
using Vector = typename VectorOf<T>::Type;

// Number of elements of a vector.
template <typename T>
inline constexpr int64_t kVectorSize = 64 / static_cast<int64_t>(sizeof(T));
// Number of columns of a panel of the right matrix.
template <typename T>
inline constexpr int64_t kPanelColumns = 2 * kVectorSize<T>;

template <typename T>
[[gnu::always_inline]] inline void Load(const T* from, Vector<T>& to) {
  std::memcpy(&to, from, sizeof(to));
}
template <typename T>
[[gnu::always_inline]] inline void Store(const Vector<T>& from, T* to) {
  std::memcpy(to, &from, sizeof(from));
}

// Returns the number of elements of a right matrix [depth, columns] in panels, with the columns rounded up to
// whole panels.
template <typename T>
constexpr int64_t PackedSize(int64_t depth, int64_t columns) {
  return (columns + kPanelColumns<T> - 1) / kPanelColumns<T> * kPanelColumns<T> * depth;
}

// Packs b[k, n] = from[k * row + n * column] into panels of [depth, kPanelColumns]; the last panel is padded
// with zeros.
template <typename T>
[[gnu::always_inline]] inline void PackPanels(const T* from, int64_t row, int64_t column, int64_t depth,
                                              int64_t columns, T* to) {
  for (int64_t begin = 0; begin < columns; begin += kPanelColumns<T>) {
    const int64_t count = std::min(kPanelColumns<T>, columns - begin);
    const T* panel = from + begin * column;
    if (column == 1 && count == kPanelColumns<T>) {
      for (int64_t k = 0; k < depth; ++k, to += kPanelColumns<T>) {
        std::memcpy(to, panel + k * row, kPanelColumns<T> * sizeof(T));
      }
      continue;
    }
    for (int64_t k = 0; k < depth; ++k, to += kPanelColumns<T>) {
      if (column == 1) {
        for (int64_t n = 0; n < count; ++n) to[n] = panel[k * row + n];
      } else {
        for (int64_t n = 0; n < count; ++n) to[n] = panel[k * row + n * column];
      }
      for (int64_t n = count; n < kPanelColumns<T>; ++n) to[n] = T{0};
    }
  }
}

// Computes c[i, 0 .. columns) = sum over k of a[i * a_row + k * a_column] * panel[k] for kRows rows and the first
// kVectors vectors of the panel; adds to c if `adds`.
template <int kRows, int kVectors = 2, typename T>
[[gnu::always_inline]] inline void MultiplyTile(const T* a, int64_t a_row, int64_t a_column, const T* panel,
                                                int64_t depth, T* c, int64_t c_row, int64_t columns, bool adds) {
  // The loops over sums are unrolled: those that are not would keep the sums in memory.
  Vector<T> sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) sum[i][v] = Vector<T>{};
  }
  for (int64_t k = 0; k < depth; ++k) {
    Vector<T> right[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) Load(panel + k * kPanelColumns<T> + v * kVectorSize<T>, right[v]);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const T factor = a[i * a_row + k * a_column];
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sum[i][v] += factor * right[v];
    }
  }
  if (columns == kVectors * kVectorSize<T>) {
    if (adds) {
#pragma GCC unroll 8
      for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) {
          Vector<T> old;
          Load(c + i * c_row + v * kVectorSize<T>, old);
          sum[i][v] += old;
        }
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) Store<T>(sum[i][v], c + i * c_row + v * kVectorSize<T>);
    }
    return;
  }
  T values[kRows][kVectors * kVectorSize<T>];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) Store<T>(sum[i][v], values[i] + v * kVectorSize<T>);
  }
  for (int i = 0; i < kRows; ++i) {
    T* row = c + i * c_row;
    for (int64_t n = 0; n < columns; ++n) row[n] = adds ? row[n] + values[i][n] : values[i][n];
  }
}

// MultiplyTile() for any number of rows.
template <int kVectors, typename T>
[[gnu::always_inline]] inline void MultiplyPanel(const T* a, int64_t a_row, int64_t a_column, const T* panel,
                                                 int64_t rows, int64_t depth, T* c, int64_t c_row, int64_t columns,
                                                 bool adds) {
  // With AVX-512, 16 sums hide the latency of multiply-adds. Lower tiles are for the last rows.
  int64_t m = 0;
  for (; m + 8 <= rows; m += 8) {
    MultiplyTile<8, kVectors>(a + m * a_row, a_row, a_column, panel, depth, c + m * c_row, c_row, columns, adds);
  }
  if (m + 4 <= rows) {
    MultiplyTile<4, kVectors>(a + m * a_row, a_row, a_column, panel, depth, c + m * c_row, c_row, columns, adds);
    m += 4;
  }
  if (m + 2 <= rows) {
    MultiplyTile<2, kVectors>(a + m * a_row, a_row, a_column, panel, depth, c + m * c_row, c_row, columns, adds);
    m += 2;
  }
  if (m < rows) {
    MultiplyTile<1, kVectors>(a + m * a_row, a_row, a_column, panel, depth, c + m * c_row, c_row, columns, adds);
  }
}

// Computes c[m, n] = a[m, k] b[k, n], or adds it to c if `adds`, for the first `depth` of the `packed_depth`
// rows that the panels were packed with. c has dense rows `c_row` elements apart. Each element is summed in
// the order of k.
template <typename T>
[[gnu::always_inline]] inline void MultiplyPacked(const T* a, int64_t a_row, int64_t a_column, const T* panels,
                                                  int64_t packed_depth, int64_t rows, int64_t columns, int64_t depth,
                                                  T* c, int64_t c_row, bool adds) {
  for (int64_t n = 0; n < columns; n += kPanelColumns<T>) {
    const T* panel = panels + n * packed_depth;
    const int64_t count = std::min(kPanelColumns<T>, columns - n);
    if (count > kVectorSize<T>) {
      MultiplyPanel<2>(a, a_row, a_column, panel, rows, depth, c + n, c_row, count, adds);
    } else {
      MultiplyPanel<1>(a, a_row, a_column, panel, rows, depth, c + n, c_row, count, adds);
    }
  }
}

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_SIMD_GEMM_CORE_H_
