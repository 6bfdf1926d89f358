// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/matmul/few_rows.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/rounding.h"
#include "kernels/cpu/simd/avx512_lanes.h"
#include "kernels/cpu/simd/transpose16.h"
#include "kernels/cpu/threading/parallel.h"

namespace cotan::cpu {

#ifdef COTAN_LANES_TARGET
namespace {

constexpr int64_t kVector = 16;  // floats
constexpr int kMaxRows = 4;
constexpr int kDepth = 8;                   // rows of a right matrix that are read side by side
constexpr int64_t kColumns = 4096;          // of the result that stay in cache while the right matrix is read by rows
constexpr int64_t kDots = 64;               // columns of a chunk if the right matrix is stored by columns
constexpr int64_t kPrefetchDistance = 256;  // floats
// A smaller right matrix that is stored by rows is read again without loss, so that results can stay in registers.
constexpr int64_t kMinElementsByRows = int64_t{1} << 16;
constexpr double kFlopsPerElement = 10;  // as many as are computed in the time of reading an element

// Some rows of the product: the left matrix, a right matrix and a result at some column.
struct Operands {
  const float* a;
  MatrixStrides a_strides;
  const float* b;
  int64_t b_step;  // from row to row, or from column to column if it is stored by columns
  float* c;
  int64_t c_row;
};

// Adds the products of kTerms columns of the left matrix and rows of the right one to `columns` of the result.
template <int kRows, int kTerms>
COTAN_LANES_TARGET void AddTerms(const Operands& o, int64_t columns) {
  __m512 left[kRows][kTerms];
#pragma GCC unroll 4
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int t = 0; t < kTerms; ++t) left[i][t] = _mm512_set1_ps(o.a[i * o.a_strides.row + t * o.a_strides.column]);
  }
  for (int64_t n = 0; n < columns; n += kVector) {
    const auto mask = static_cast<__mmask16>(columns - n >= kVector ? 0xffff : (1 << (columns - n)) - 1);
    __m512 sum[kRows];
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) sum[i] = LoadLanes(o.c + i * o.c_row + n, mask);
#pragma GCC unroll 8
    for (int t = 0; t < kTerms; ++t) {
      const float* const from = o.b + t * o.b_step + n;
      _mm_prefetch(from + kPrefetchDistance, _MM_HINT_T0);
      const __m512 right = LoadLanes(from, mask);
#pragma GCC unroll 4
      for (int i = 0; i < kRows; ++i) sum[i] = _mm512_fmadd_ps(left[i][t], right, sum[i]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) StoreLanes(sum[i], mask, o.c + i * o.c_row + n);
  }
}

// Adds all `depth` terms.
template <int kRows>
void AddProduct(Operands o, int64_t depth, int64_t columns) {
  int64_t k = 0;
  const auto advance = [&](int terms) {
    k += terms;
    o.a += terms * o.a_strides.column;
    o.b += terms * o.b_step;
  };
  for (; k + kDepth <= depth; advance(kDepth)) AddTerms<kRows, kDepth>(o, columns);
  for (; k < depth; advance(1)) AddTerms<kRows, 1>(o, columns);
}

// Computes the sums of the 16 lanes of each of kCount vectors.
template <int kCount>
COTAN_LANES_INLINE void SumLanes(const __m512 (&vectors)[kCount], float* sums) {
#pragma GCC unroll 2
  for (int first = 0; first < kCount; first += 16) {
    Float16Lanes r[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      r[i] = first + i < kCount ? Float16Lanes(vectors[first + i < kCount ? first + i : 0]) : Float16Lanes{};
    }
    Transpose16x16(r);
#pragma GCC unroll 4
    for (int half = 8; half > 0; half /= 2) {
#pragma GCC unroll 8
      for (int i = 0; i < half; ++i) r[i] += r[i + half];
    }
    _mm512_store_ps(sums + first, __m512(r[0]));
  }
}

// Adds the products of dense rows of the left matrix and kCount columns of the right one.
template <int kRows, int kCount>
COTAN_LANES_TARGET void AddDots(const Operands& o, int64_t depth) {
  __m512 sum[kRows * kCount];
#pragma GCC unroll 32
  for (int i = 0; i < kRows * kCount; ++i) sum[i] = _mm512_setzero_ps();
  for (int64_t k = 0; k < depth; k += kVector) {
    const auto mask = static_cast<__mmask16>(depth - k >= kVector ? 0xffff : (1 << (depth - k)) - 1);
    __m512 left[kRows];
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) left[i] = LoadLanes(o.a + i * o.a_strides.row + k, mask);
#pragma GCC unroll 8
    for (int j = 0; j < kCount; ++j) {
      const float* const from = o.b + j * o.b_step + k;
      _mm_prefetch(from + kPrefetchDistance, _MM_HINT_T0);
      const __m512 right = LoadLanes(from, mask);
#pragma GCC unroll 4
      for (int i = 0; i < kRows; ++i) sum[i * kCount + j] = _mm512_fmadd_ps(left[i], right, sum[i * kCount + j]);
    }
  }
  alignas(64) float sums[(kRows * kCount + 15) / 16 * 16];
  SumLanes(sum, sums);
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kCount; ++j) o.c[i * o.c_row + j] += sums[i * kCount + j];
  }
}

// Adds the products of `columns` columns.
template <int kRows>
void AddColumns(Operands o, int64_t depth, int64_t columns) {
  constexpr int kCount = kRows < 4 ? 8 : 6;  // sums in registers
  int64_t n = 0;
  const auto advance = [&](int count) {
    n += count;
    o.b += count * o.b_step;
    o.c += count;
  };
  for (; n + kCount <= columns; advance(kCount)) AddDots<kRows, kCount>(o, depth);
  for (; n < columns; advance(1)) AddDots<kRows, 1>(o, depth);
}

using AddFn = void (*)(Operands o, int64_t depth, int64_t columns);
constexpr std::array<AddFn, kMaxRows> kByRows = {AddProduct<1>, AddProduct<2>, AddProduct<3>, AddProduct<4>};
constexpr std::array<AddFn, kMaxRows> kByColumns = {AddColumns<1>, AddColumns<2>, AddColumns<3>, AddColumns<4>};

// The geometry has 1 to kMaxRows rows, no batch, and a result with dense rows.
class FewRows final : public Kernel {
 public:
  // `is_transposed`: inputs 0 and 1 are the right and the left matrix.
  FewRows(const MatmulGeometry& geometry, Addend addend, bool is_transposed, int threads)
      : g_(geometry),
        addend_(addend),
        is_transposed_(is_transposed),
        threads_(ThreadsWorthwhile(threads, kFlopsPerElement * static_cast<double>(g_.k * g_.n))),
        is_by_rows_(g_.b.column == 1) {
    const auto row = static_cast<size_t>(g_.m - 1);
    add_ = is_by_rows_ ? kByRows[row] : kByColumns[row];
    const int64_t part = RoundUp(CeilDiv(g_.n, static_cast<int64_t>(threads_)), kVector);
    chunk_ = std::min(is_by_rows_ ? kColumns : kDots, part);
    copies_left_ = !is_by_rows_ && g_.a.column != 1;
    if (copies_left_) scratch_bytes_ = static_cast<size_t>(g_.m * g_.k) * sizeof(float);
  }

  absl::Status Run(const KernelArgs& args) override {
    const auto* a = static_cast<const float*>(args.inputs[is_transposed_ ? 1 : 0]);
    const auto* b = static_cast<const float*>(args.inputs[is_transposed_ ? 0 : 1]);
    auto* c = static_cast<float*>(args.outputs[0]);
    const auto* bias = addend_ == Addend::kBias ? static_cast<const float*>(args.inputs[2]) : nullptr;
    MatrixStrides left = g_.a;
    if (copies_left_) {
      CopyLeft(a, static_cast<float*>(args.scratch));
      a = static_cast<const float*>(args.scratch);
      left = {g_.k, 1};
    }
    ParallelFor(threads_, g_.n, chunk_, [&](int64_t begin, int64_t end) {
      if (addend_ != Addend::kInOutput) {
        for (int64_t i = 0; i < g_.m; ++i) {
          float* const row = c + i * g_.c.row;
          if (bias == nullptr) {
            std::fill(row + begin, row + end, 0.0F);
          } else {
            std::copy(bias + begin, bias + end, row + begin);
          }
        }
      }
      add_({a, left, b + begin * g_.b.column, is_by_rows_ ? g_.b.row : g_.b.column, c + begin, g_.c.row}, g_.k,
           end - begin);
    });
    return absl::OkStatus();
  }

 private:
  void CopyLeft(const float* from, float* to) const {
    for (int64_t i = 0; i < g_.m; ++i) {
      for (int64_t k = 0; k < g_.k; ++k) to[i * g_.k + k] = from[i * g_.a.row + k * g_.a.column];
    }
  }

  MatmulGeometry g_;
  Addend addend_;
  bool is_transposed_;
  int threads_;
  bool is_by_rows_;  // the right matrix is stored by rows
  bool copies_left_;
  int64_t chunk_;  // columns
  AddFn add_;
};

bool Qualifies(const MatmulGeometry& g) {
  if (!g.batch.empty() || g.m > kMaxRows || g.c.column != 1) return false;
  return g.b.column == 1 ? g.k * g.n >= kMinElementsByRows : g.b.row == 1;
}

}  // namespace

std::unique_ptr<Kernel> MakeFewRowsProduct(const MatmulGeometry& geometry, Addend addend, int threads) {
  if (!HasAvx512Lanes()) return nullptr;
  const MatmulGeometry g = WithUnitStrides(geometry);
  if (Qualifies(g)) return std::make_unique<FewRows>(g, addend, /*is_transposed=*/false, threads);
  const MatmulGeometry transposed = WithUnitStrides(TransposedProduct(geometry));
  if (addend == Addend::kBias || !Qualifies(transposed)) return nullptr;
  return std::make_unique<FewRows>(transposed, addend, /*is_transposed=*/true, threads);
}

#else

std::unique_ptr<Kernel> MakeFewRowsProduct(const MatmulGeometry& /*geometry*/, Addend /*addend*/, int /*threads*/) {
  return nullptr;
}

#endif

}  // namespace cotan::cpu
