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

// Computes c[i, 0 .. columns) = sum over k of a[i * a_row + k * a_column] * panel[k] for kRows rows; adds to
// c if `adds`.
template <int kRows, typename T>
[[gnu::always_inline]] inline void MultiplyTile(const T* a, int64_t a_row, int64_t a_column, const T* panel,
                                                int64_t depth, T* c, int64_t c_row, int64_t columns, bool adds) {
  Vector<T> sum[kRows][2] = {};
  for (int64_t k = 0; k < depth; ++k) {
    Vector<T> low;
    Vector<T> high;
    Load(panel + k * kPanelColumns<T>, low);
    Load(panel + k * kPanelColumns<T> + kVectorSize<T>, high);
    for (int i = 0; i < kRows; ++i) {
      const T factor = a[i * a_row + k * a_column];
      sum[i][0] += factor * low;
      sum[i][1] += factor * high;
    }
  }
  for (int i = 0; i < kRows; ++i) {
    T* row = c + i * c_row;
    if (columns == kPanelColumns<T>) {
      for (int half = 0; half < 2; ++half) {
        Vector<T> old = {};
        if (adds) Load(row + half * kVectorSize<T>, old);
        Store<T>(old + sum[i][half], row + half * kVectorSize<T>);
      }
      continue;
    }
    T values[kPanelColumns<T>];
    Store<T>(sum[i][0], values);
    Store<T>(sum[i][1], values + kVectorSize<T>);
    for (int64_t n = 0; n < columns; ++n) row[n] = adds ? row[n] + values[n] : values[n];
  }
}

// Computes c[m, n] = a[m, k] b[k, n], or adds it to c if `adds`, for the first `depth` of the `packed_depth`
// rows that the panels were packed with. c has dense rows `c_row` elements apart. Each element is summed in
// the order of k.
template <typename T>
[[gnu::always_inline]] inline void MultiplyPacked(const T* a, int64_t a_row, int64_t a_column, const T* panels,
                                                  int64_t packed_depth, int64_t rows, int64_t columns, int64_t depth,
                                                  T* c, int64_t c_row, bool adds) {
  // With AVX-512, 16 sums hide the latency of multiply-adds. Lower tiles are for the last rows.
  for (int64_t n = 0; n < columns; n += kPanelColumns<T>) {
    const T* panel = panels + n * packed_depth;
    const int64_t count = std::min(kPanelColumns<T>, columns - n);
    int64_t m = 0;
    for (; m + 8 <= rows; m += 8) {
      MultiplyTile<8>(a + m * a_row, a_row, a_column, panel, depth, c + m * c_row + n, c_row, count, adds);
    }
    if (m + 4 <= rows) {
      MultiplyTile<4>(a + m * a_row, a_row, a_column, panel, depth, c + m * c_row + n, c_row, count, adds);
      m += 4;
    }
    if (m + 2 <= rows) {
      MultiplyTile<2>(a + m * a_row, a_row, a_column, panel, depth, c + m * c_row + n, c_row, count, adds);
      m += 2;
    }
    if (m < rows) {
      MultiplyTile<1>(a + m * a_row, a_row, a_column, panel, depth, c + m * c_row + n, c_row, count, adds);
    }
  }
}

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_SIMD_GEMM_CORE_H_
