// SPDX-License-Identifier: Apache-2.0

// The steps of Winograd's algorithm that its kernels share: tiles of images, their transforms from and to channels
// last, the transforms of weights, and products of panels.
#ifndef COTAN_KERNELS_CPU_CONVOLUTION_WINOGRAD_TRANSFORMS_H_
#define COTAN_KERNELS_CPU_CONVOLUTION_WINOGRAD_TRANSFORMS_H_

#include "kernels/cpu/convolution/winograd_tiles.h"

#ifdef COTAN_WINOGRAD_TARGET
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "base/rounding.h"
#include "kernels/cpu/convolution/convolution_problem.h"

namespace cotan::cpu::winograd {

// The side of a tile of a convolution whose operands are of E. Those of float have the tiles that round less; those of
// BFloat16 are rounded to eight bits at the end (docs/numerics.md).
template <typename E>
using SideOf = std::conditional_t<std::is_same_v<E, float>, Side2, Side4>;

// Returns the mask of the channels that remain from `channel` on.
inline __mmask16 LanesFrom(int64_t channel, int64_t channels) {
  return static_cast<__mmask16>(0xffff >> (kLanes - std::min(kLanes, channels - channel)));
}

// Dense images, channels last.
struct Images {
  int64_t count;
  int64_t rows;
  int64_t columns;
  int64_t channels;

  int64_t Offset(int64_t image, int64_t row, int64_t column) const {
    return ((image * rows + row) * columns + column) * channels;
  }
};

inline Images ImagesOf(const StridedLayout& layout) {
  return {layout.sizes[0], layout.sizes[2], layout.sizes[3], layout.sizes[1]};
}

// A dimension of the output, in tiles of `side` pixels. With a dilation of d, the pixels whose indices are equal modulo
// d are a convolution without dilation of their own: pixels of a tile are d apart, as are those of the input that it
// reads.
struct TileAxis {
  int64_t side;
  int64_t padding;   // pixels of the input before the first one, may be negative
  int64_t dilation;  // 1 = dense
  int64_t tiles;

  TileAxis(int64_t side, int64_t pixels, int64_t padding, int64_t dilation)
      : side(side), padding(padding), dilation(dilation), tiles(dilation * CeilDiv(CeilDiv(pixels, dilation), side)) {}
  // Returns the first pixel of a tile. It is outside of the output if there are fewer pixels in its part than in
  // others.
  int64_t First(int64_t tile) const {
    if (dilation == 1) return side * tile;  // without the division, which would be noticed with few channels
    return tile % dilation + side * dilation * (tile / dilation);
  }
};

// The tiles of the output pixels of all images, and the input pixels of each.
struct TileGrid {
  Images input;
  Images output;
  TileAxis rows;
  TileAxis columns;

  int64_t Count() const { return output.count * rows.tiles * columns.tiles; }
};

// The kSide x kSide pixels of a tile: the offset of the first one, in elements, and which are inside of the image.
template <int kSide>
struct Pixels {
  int64_t offset;
  int64_t row_step;
  int64_t column_step;
  uint64_t inside = 0;  // a bit for each pixel

  static constexpr int kCount = kSide * kSide;
  static constexpr uint64_t kAll = (uint64_t{1} << kCount) - 1;

  Pixels(const TileGrid& grid, const Images& images, int64_t image, int64_t row, int64_t column)
      : offset(images.Offset(image, row, column)),
        row_step(grid.rows.dilation * images.columns * images.channels),
        column_step(grid.columns.dilation * images.channels) {
    const uint64_t columns = Inside(column, grid.columns.dilation, images.columns);
    const uint64_t rows = Inside(row, grid.rows.dilation, images.rows);
    for (int r = 0; r < kSide; ++r) inside |= (rows >> r & 1) * columns << (r * kSide);
  }

  // Returns a bit for each of kSide positions from `first` on, `step` apart, that is in [0, size).
  static uint64_t Inside(int64_t first, int64_t step, int64_t size) {
    uint64_t bits = 0;
    for (int i = 0; i < kSide; ++i, first += step) bits |= static_cast<uint64_t>(first >= 0 && first < size) << i;
    return bits;
  }
  bool Has(int pixel) const { return (inside >> pixel & 1) != 0; }
  // Returns the offset of a pixel, which is an address of the image only if it is inside.
  int64_t Offset(int pixel) const { return offset + pixel / kSide * row_step + pixel % kSide * column_step; }
};

// A position in the tiles of a grid, in their order.
template <typename Side>
class TileCursor {
 public:
  TileCursor(const TileGrid& grid, int64_t tile) : grid_(grid) {
    const int64_t line = tile / grid.columns.tiles;
    column_ = tile - line * grid.columns.tiles;
    image_ = line / grid.rows.tiles;
    row_ = line - image_ * grid.rows.tiles;
  }

  void Advance() {
    if (++column_ < grid_.columns.tiles) return;
    column_ = 0;
    if (++row_ < grid_.rows.tiles) return;
    row_ = 0;
    ++image_;
  }

  Pixels<Side::kElements> InputPixels() const {
    return {grid_, grid_.input, image_, grid_.rows.First(row_) - grid_.rows.padding,
            grid_.columns.First(column_) - grid_.columns.padding};
  }
  Pixels<Side::kOutputs> OutputPixels() const {
    return {grid_, grid_.output, image_, grid_.rows.First(row_), grid_.columns.First(column_)};
  }

 private:
  const TileGrid& grid_;
  int64_t image_;
  int64_t row_;
  int64_t column_;
};

// Transformed tiles [elements][groups of `width` channels][tiles][width]. Elements are one cache line more than that
// apart, so that those of a tile are in different sets of the first-level cache.
template <typename Side>
struct Transformed {
  static constexpr int kElements = Side::kElements * Side::kElements;

  int64_t tiles;
  int64_t width;
  int64_t groups;

  Transformed(int64_t channels, int64_t tiles, int64_t width)
      : tiles(tiles), width(width), groups(CeilDiv(channels, width)) {}
  int64_t GroupFloats() const { return tiles * width; }
  int64_t ElementFloats() const { return groups * GroupFloats() + kLanes; }
  int64_t Floats() const { return kElements * ElementFloats(); }
  int64_t Offset(int64_t tile, int64_t channel) const {
    return channel / width * GroupFloats() + tile * width + channel % width;
  }
};

// Stores the elements of a transformed tile of 16 channels.
template <typename Side>
COTAN_WINOGRAD_INLINE void StoreElements(const __m512 (&elements)[Transformed<Side>::kElements], int64_t step,
                                         float* to) {
#pragma GCC unroll 36
  for (int i = 0; i < Transformed<Side>::kElements; ++i) _mm512_store_ps(to + i * step, elements[i]);
}

// The inverse of StoreElements().
template <typename Side>
COTAN_WINOGRAD_INLINE void LoadElements(const float* from, int64_t step,
                                        __m512 (&elements)[Transformed<Side>::kElements]) {
#pragma GCC unroll 36
  for (int i = 0; i < Transformed<Side>::kElements; ++i) elements[i] = _mm512_load_ps(from + i * step);
}

// Loads 16 channels, those of `lanes`, of the pixels of a tile; what is outside of the image is 0.
template <typename E, int kSide>
COTAN_WINOGRAD_INLINE void LoadPixels(const E* channels, const Pixels<kSide>& pixels, __mmask16 lanes,
                                      __m512 (&values)[kSide * kSide]) {
  if (pixels.inside == Pixels<kSide>::kAll) {
#pragma GCC unroll 36
    for (int i = 0; i < kSide * kSide; ++i) values[i] = LoadLanes(channels + pixels.Offset(i), lanes);
    return;
  }
#pragma GCC unroll 36
  for (int i = 0; i < kSide * kSide; ++i) {
    values[i] = pixels.Has(i) ? LoadLanes(channels + pixels.Offset(i), lanes) : _mm512_setzero_ps();
  }
}

// Transforms the input pixels of one tile. E is float or BFloat16.
template <typename E, typename Side = SideOf<E>>
COTAN_WINOGRAD_TARGET inline void InputTile(const E* images, int64_t channels, const Pixels<Side::kElements>& pixels,
                                            const Transformed<Side>& form, float* to) {
  for (int64_t c = 0; c < channels; c += kLanes, to += form.GroupFloats()) {
    __m512 d[Transformed<Side>::kElements];
    __m512 t[Transformed<Side>::kElements];
    LoadPixels(images + c, pixels, LanesFrom(c, channels), d);
    TransformSquare<typename Side::Input>(d, t);
    StoreElements<Side>(t, form.ElementFloats(), to);
  }
}

// Transforms the gradients of the output pixels of tile `tile` of a block.
template <typename E, typename Side = SideOf<E>>
COTAN_WINOGRAD_TARGET inline void GradientTile(const E* images, int64_t channels, const Pixels<Side::kOutputs>& pixels,
                                               const Transformed<Side>& form, int64_t tile, float* block) {
  for (int64_t c = 0; c < channels; c += kLanes) {
    __m512 y[Pixels<Side::kOutputs>::kCount];
    __m512 m[Transformed<Side>::kElements];
    LoadPixels(images + c, pixels, LanesFrom(c, channels), y);
    TransformSquare<typename Side::OutputGradient>(y, m);
    StoreElements<Side>(m, form.ElementFloats(), block + form.Offset(tile, c));
  }
}

// Writes the output pixels of tile `tile` of a block; `bias` may be null.
template <typename E, typename Side = SideOf<E>>
COTAN_WINOGRAD_TARGET inline void OutputTile(const float* block, const Transformed<Side>& form, int64_t tile,
                                             const Pixels<Side::kOutputs>& pixels, int64_t channels, const E* bias,
                                             E* images) {
  for (int64_t c = 0; c < channels; c += kLanes) {
    const __mmask16 lanes = LanesFrom(c, channels);
    __m512 m[Transformed<Side>::kElements];
    __m512 y[Pixels<Side::kOutputs>::kCount];
    LoadElements<Side>(block + form.Offset(tile, c), form.ElementFloats(), m);
    TransformSquare<typename Side::Output>(m, y);
    const __m512 addend = bias == nullptr ? _mm512_setzero_ps() : LoadLanes(bias + c, lanes);
#pragma GCC unroll 16
    for (int i = 0; i < Pixels<Side::kOutputs>::kCount; ++i) {
      if (pixels.Has(i)) StoreLanes(_mm512_add_ps(y[i], addend), lanes, images + pixels.Offset(i) + c);
    }
  }
}

// The weights as a product reads or writes them: [to channels, from channels, 3, 3], the last two dense. Strides are in
// elements.
struct Weights {
  int64_t to_channels;
  int64_t from_channels;
  int64_t to_stride;
  int64_t from_stride;
  bool flips;  // the kernel in reverse order
};

// Calls fn(from, to) for the channels `from` in [begin, begin + rows) and each 16th `to` in [first, first + columns),
// in about the order of the weights in memory.
template <typename Fn>
void ForEachKernels(const Weights& w, int64_t begin, int64_t rows, int64_t first, int64_t columns, Fn fn) {
  if (w.from_stride > w.to_stride) {
    for (int64_t from = begin; from < begin + rows; ++from) {
      for (int64_t to = first; to < first + columns; to += kLanes) fn(from, to);
    }
    return;
  }
  for (int64_t to = first; to < first + columns; to += kLanes) {
    for (int64_t from = begin; from < begin + rows; ++from) fn(from, to);
  }
}

// Transforms the weights from channel `from` to 16 channels from `to` on, and stores the elements, `step` floats apart.
// What is outside of the weights is 0.
template <typename E, typename Side = SideOf<E>>
COTAN_WINOGRAD_TARGET inline void WeightElements(const E* weights, const Weights& w, int64_t from, int64_t to,
                                                 int64_t step, float* elements) {
  __m512 g[9];
  __m512 u[Transformed<Side>::kElements];
  const int64_t lanes = from < w.from_channels ? std::min(kLanes, w.to_channels - to) : 0;
  LoadKernels(weights + from * w.from_stride + to * w.to_stride, w.to_stride, lanes, w.flips, g);
  TransformSquare<typename Side::Weight>(g, u);
  StoreElements<Side>(u, step, elements);
}

// The inverse of WeightElements(), of gradients, which are rounded to E.
template <typename E, typename Side = SideOf<E>>
COTAN_WINOGRAD_TARGET inline void WeightGradients(const float* elements, int64_t step, const Weights& w, int64_t from,
                                                  int64_t to, E* weights) {
  __m512 u[Transformed<Side>::kElements];
  __m512 g[9];
  LoadElements<Side>(elements, step, u);
  TransformSquare<typename Side::WeightGradient>(u, g);
  StoreKernels(g, w.to_stride, std::min(kLanes, w.to_channels - to), weights + from * w.from_stride + to * w.to_stride);
}

// Computes the rows of one panel: to[tiles, columns] (+)= left * right, with the left matrix in groups of 16 columns.
COTAN_WINOGRAD_TARGET inline void MultiplyTiles(LeftBlocks block, int64_t tiles, const float* right, int64_t columns,
                                                bool adds, float* to) {
  for (int64_t t = 0; t < tiles; t += kTileRows, block.data += kTileRows * kLanes, to += kTileRows * kPanel) {
    if (columns > kLanes) {
      MultiplyTile<2, kLanes, 1>(block, right, to, adds);
    } else {
      MultiplyTile<1, kLanes, 1>(block, right, to, adds);
    }
  }
}

inline constexpr int64_t kSummedTiles = 64;  // terms of a sum of a weight gradient

// Computes 16 rows of one panel of a weight gradient: to[16, columns] (+)= left^T * right, over `tiles` tiles. Sums of
// few tiles are added up, as one sum over all would round more than that of a direct convolution.
COTAN_WINOGRAD_TARGET inline void AddProducts(const float* left, const float* right, int64_t tiles, int64_t columns,
                                              bool adds, float* to) {
  for (int64_t tile = 0; tile < tiles; tile += kSummedTiles) {
    const int64_t count = std::min(kSummedTiles, tiles - tile);
    for (int64_t row = 0; row < kLanes; row += kTileRows) {
      const LeftBlocks block = {left + tile * kLanes + row, 0, 1, count};
      if (columns > kLanes) {
        MultiplyTile<2, 1, kLanes>(block, right + tile * kPanel, to + row * kPanel, adds || tile > 0);
      } else {
        MultiplyTile<1, 1, kLanes>(block, right + tile * kPanel, to + row * kPanel, adds || tile > 0);
      }
    }
  }
}

}  // namespace cotan::cpu::winograd

#endif

#endif  // COTAN_KERNELS_CPU_CONVOLUTION_WINOGRAD_TRANSFORMS_H_
