// SPDX-License-Identifier: Apache-2.0

// The steps of Winograd's F(2x2, 3x3) that its kernels share: tiles of images, their transforms from and to channels
// last, the transforms of weights, and products of panels.
#ifndef COTAN_KERNELS_CPU_CONVOLUTION_WINOGRAD_TRANSFORMS_H_
#define COTAN_KERNELS_CPU_CONVOLUTION_WINOGRAD_TRANSFORMS_H_

#include "kernels/cpu/convolution/winograd_tiles.h"

#ifdef COTAN_WINOGRAD_TARGET
#include <algorithm>
#include <cstdint>

#include "base/rounding.h"
#include "kernels/cpu/convolution/convolution_problem.h"

namespace cotan::cpu::winograd {

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

// A dimension of the output, in tiles of two pixels. With a dilation of d, the pixels whose indices are equal modulo d
// are a convolution without dilation of their own: pixels of a tile are d apart, as are those of the input that it
// reads.
struct TileAxis {
  int64_t padding;   // pixels of the input before the first one, may be negative
  int64_t dilation;  // 1 = dense
  int64_t tiles;

  TileAxis(int64_t pixels, int64_t padding, int64_t dilation)
      : padding(padding), dilation(dilation), tiles(dilation * CeilDiv(CeilDiv(pixels, dilation), 2)) {}
  // Returns the first pixel of a tile. It is outside of the output if there are fewer pixels in its part than in
  // others.
  int64_t First(int64_t tile) const {
    if (dilation == 1) return 2 * tile;  // without the division, which would be noticed with few channels
    return tile % dilation + 2 * dilation * (tile / dilation);
  }
};

// The tiles of 2 x 2 output pixels of all images, and the 4 x 4 input pixels of each.
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
  uint16_t inside = 0;  // a bit for each pixel

  static constexpr uint16_t kAll = (1 << (kSide * kSide)) - 1;

  Pixels(const TileGrid& grid, const Images& images, int64_t image, int64_t row, int64_t column)
      : offset(images.Offset(image, row, column)),
        row_step(grid.rows.dilation * images.columns * images.channels),
        column_step(grid.columns.dilation * images.channels) {
    const unsigned columns = Inside(column, grid.columns.dilation, images.columns);
    const unsigned rows = Inside(row, grid.rows.dilation, images.rows);
    for (int r = 0; r < kSide; ++r) inside |= static_cast<uint16_t>((rows >> r & 1) * columns << (r * kSide));
  }

  // Returns a bit for each of kSide positions from `first` on, `step` apart, that is in [0, size).
  static unsigned Inside(int64_t first, int64_t step, int64_t size) {
    unsigned bits = 0;
    for (int i = 0; i < kSide; ++i, first += step) bits |= static_cast<unsigned>(first >= 0 && first < size) << i;
    return bits;
  }
  bool Has(int pixel) const { return (inside >> pixel & 1) != 0; }
  // Returns the offset of a pixel, which is an address of the image only if it is inside.
  int64_t Offset(int pixel) const { return offset + pixel / kSide * row_step + pixel % kSide * column_step; }
};

// A position in the tiles of a grid, in their order.
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

  Pixels<4> InputPixels() const {
    return {grid_, grid_.input, image_, grid_.rows.First(row_) - grid_.rows.padding,
            grid_.columns.First(column_) - grid_.columns.padding};
  }
  Pixels<2> OutputPixels() const {
    return {grid_, grid_.output, image_, grid_.rows.First(row_), grid_.columns.First(column_)};
  }

 private:
  const TileGrid& grid_;
  int64_t image_;
  int64_t row_;
  int64_t column_;
};

// Transformed tiles [kElements][groups of `width` channels][tiles][width]. Elements are one cache line more than that
// apart, so that the 16 of a tile are in different sets of the first-level cache.
struct Transformed {
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

// Transforms the input pixels of one tile. E is float or BFloat16.
template <typename E>
COTAN_WINOGRAD_TARGET inline void InputTile(const E* images, int64_t channels, const Pixels<4>& pixels,
                                            const Transformed& form, float* to) {
  for (int64_t c = 0; c < channels; c += kLanes, to += form.GroupFloats()) {
    const __mmask16 lanes = LanesFrom(c, channels);
    __m512 d[16];
    if (pixels.inside == Pixels<4>::kAll) {
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) d[i] = LoadLanes(images + pixels.Offset(i) + c, lanes);
    } else {
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) {
        d[i] = pixels.Has(i) ? LoadLanes(images + pixels.Offset(i) + c, lanes) : _mm512_setzero_ps();
      }
    }
    TransformInput(d);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) _mm512_store_ps(to + i * form.ElementFloats(), d[i]);
  }
}

// Transforms the gradients of the output pixels of tile `tile` of a block.
template <typename E>
COTAN_WINOGRAD_TARGET inline void GradientTile(const E* images, int64_t channels, const Pixels<2>& pixels,
                                               const Transformed& form, int64_t tile, float* block) {
  for (int64_t c = 0; c < channels; c += kLanes) {
    const __mmask16 lanes = LanesFrom(c, channels);
    __m512 y[4];
    __m512 m[16];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      y[i] = pixels.Has(i) ? LoadLanes(images + pixels.Offset(i) + c, lanes) : _mm512_setzero_ps();
    }
    TransformGradient(y, m);
    float* const to = block + form.Offset(tile, c);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) _mm512_store_ps(to + i * form.ElementFloats(), m[i]);
  }
}

// Writes the output pixels of tile `tile` of a block; `bias` may be null.
COTAN_WINOGRAD_TARGET inline void OutputTile(const float* block, const Transformed& form, int64_t tile,
                                             const Pixels<2>& pixels, int64_t channels, const float* bias,
                                             float* images) {
  for (int64_t c = 0; c < channels; c += kLanes) {
    const __mmask16 lanes = LanesFrom(c, channels);
    const float* const from = block + form.Offset(tile, c);
    __m512 m[16];
    __m512 y[4];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) m[i] = _mm512_load_ps(from + i * form.ElementFloats());
    TransformOutput(m, y);
    const __m512 addend = bias == nullptr ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(lanes, bias + c);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      if (pixels.Has(i)) {
        _mm512_mask_storeu_ps(images + pixels.Offset(i) + c, lanes, _mm512_add_ps(y[i], addend));
      }
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

// Transforms the weights from channel `from` to 16 channels from `to` on, and stores the 16 elements, `step` floats
// apart. What is outside of the weights is 0.
COTAN_WINOGRAD_TARGET inline void WeightElements(const float* weights, const Weights& w, int64_t from, int64_t to,
                                                 int64_t step, float* elements) {
  __m512 g[9];
  __m512 u[16];
  const int64_t lanes = from < w.from_channels ? std::min(kLanes, w.to_channels - to) : 0;
  LoadKernels(weights + from * w.from_stride + to * w.to_stride, w.to_stride, lanes, w.flips, g);
  TransformWeight(g, u);
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) _mm512_store_ps(elements + i * step, u[i]);
}

// The inverse of WeightElements(), of gradients, which are rounded to E.
template <typename E>
COTAN_WINOGRAD_TARGET inline void WeightGradients(const float* elements, int64_t step, const Weights& w, int64_t from,
                                                  int64_t to, E* weights) {
  __m512 u[16];
  __m512 g[9];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) u[i] = _mm512_load_ps(elements + i * step);
  TransformWeightGradient(u, g);
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
