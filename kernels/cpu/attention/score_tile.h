// SPDX-License-Identifier: Apache-2.0

// Softmax of tiles of attention scores, and its gradient. All functions take f32 and f64, and use AVX-512 for f32.
#ifndef COTAN_KERNELS_CPU_ATTENTION_SCORE_TILE_H_
#define COTAN_KERNELS_CPU_ATTENTION_SCORE_TILE_H_

#include <algorithm>
#include <cstdint>

namespace cotan::cpu::attention {

// Largest number of queries of a tile, and of its keys, which is also the distance between its rows in memory.
inline constexpr int64_t kTileRows = 8;
inline constexpr int64_t kKeys = 64;

// The queries and keys of a tile of scores. A query attends to the first keys of the tile, with a causal mask to one
// more than the query before.
struct ScoreTile {
  int64_t rows = 0;
  int64_t keys = 0;     // at most kKeys
  int64_t visible = 0;  // keys that the first query attends to; may be larger than `keys`
  bool is_causal = false;

  // Returns the number of keys that query `row` attends to.
  int64_t Visible(int64_t row) const { return std::clamp<int64_t>(visible + (is_causal ? row : 0), 0, keys); }
};

// Replaces scores by exp(scale * score - max[i]), and by 0 those that are masked and those up to the next multiple of
// 16 behind the last key. max[i] becomes the largest of its old value and of the scaled scores of row i, total[i] the
// sum of the row added to its old value * corrections[i], where corrections[i] = exp(old - new maximum). A row that has
// seen no score but -inf has the maximum -inf.
template <typename T>
void SoftmaxOfTile(const ScoreTile& tile, T scale, T* scores, T* max, T* total, T* corrections);

// Replaces scores by probabilities p = exp(scale * score - logsumexp) and `slopes`, the gradients of probabilities, by
// p * (slope - dot) * slope_scale, the gradients of scores; masked ones by 0, as SoftmaxOfTile() does. `logsumexp` has
// elements `logsumexp_step` apart. A row whose logsumexp is -inf gives 0.
template <typename T>
void SoftmaxGradientOfTile(const ScoreTile& tile, T scale, T slope_scale, const T* logsumexp, int64_t logsumexp_step,
                           const T* dots, T* scores, T* slopes);

// Computes dots[i] = sum over e of a[i, e] * b[i, e] for rows of `size` elements, which are dense.
template <typename T>
void DotProductsOfRows(const T* a, int64_t a_row, const T* b, int64_t b_row, int64_t rows, int64_t size, T* dots);

}  // namespace cotan::cpu::attention

#endif  // COTAN_KERNELS_CPU_ATTENTION_SCORE_TILE_H_
