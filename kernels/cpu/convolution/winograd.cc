// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/convolution/winograd.h"

#include <algorithm>

#include "base/rounding.h"
#include "kernels/cpu/convolution/winograd_tiles.h"
#include "kernels/cpu/threading/parallel.h"

namespace cotan::cpu {

#ifdef COTAN_WINOGRAD_TARGET
namespace {

using winograd::kElements;
using winograd::kLanes;
using winograd::kPanel;
using winograd::kTileRows;

constexpr int64_t kMinChannels = 16;
// Fewer tiles do not pay for the transform of the weights, unless these stay in cache.
constexpr int64_t kMinTiles = 96;
constexpr int64_t kMinTilesOfSmallGradients = 32;
constexpr int64_t kMaxWeightsOfSmallGradients = 64 * 1024;  // pairs of channels
// Transformed floats of a block of tiles, which stay in the second-level cache; a weight gradient reads its sums again
// for each block. A block of few tiles would read the weights or sums too often.
constexpr int64_t kBlockFloats = 64 * 1024;
constexpr int64_t kGradientFloats = 192 * 1024;
constexpr int64_t kMinBlockTiles = 32;
constexpr int64_t kMinGradientTiles = 64;
constexpr int64_t kSummedTiles = 64;
constexpr int64_t kTransformGrain = 16;  // tiles of a chunk of a transform

// Returns the mask of the channels that remain from `channel` on.
__mmask16 LanesFrom(int64_t channel, int64_t channels) {
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

Images ImagesOf(const StridedLayout& layout) {
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

// The kSide x kSide pixels of a tile: the offset of the first one, in floats, and which are inside of the image.
template <int kSide>
struct Pixels {
  int64_t offset;
  int64_t row_floats;
  int64_t column_floats;
  uint16_t inside = 0;  // a bit for each pixel

  static constexpr uint16_t kAll = (1 << (kSide * kSide)) - 1;

  Pixels(const TileGrid& grid, const Images& images, int64_t image, int64_t row, int64_t column)
      : offset(images.Offset(image, row, column)),
        row_floats(grid.rows.dilation * images.columns * images.channels),
        column_floats(grid.columns.dilation * images.channels) {
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
  int64_t Offset(int pixel) const { return offset + pixel / kSide * row_floats + pixel % kSide * column_floats; }
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

// Transforms the input pixels of one tile.
COTAN_WINOGRAD_TARGET void InputTile(const float* images, int64_t channels, const Pixels<4>& pixels,
                                     const Transformed& form, float* to) {
  for (int64_t c = 0; c < channels; c += kLanes, to += form.GroupFloats()) {
    const __mmask16 lanes = LanesFrom(c, channels);
    __m512 d[16];
    if (pixels.inside == Pixels<4>::kAll) {
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) d[i] = _mm512_maskz_loadu_ps(lanes, images + pixels.Offset(i) + c);
    } else {
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) {
        d[i] = pixels.Has(i) ? _mm512_maskz_loadu_ps(lanes, images + pixels.Offset(i) + c) : _mm512_setzero_ps();
      }
    }
    winograd::TransformInput(d);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) _mm512_store_ps(to + i * form.ElementFloats(), d[i]);
  }
}

// Transforms the gradients of the output pixels of tile `tile` of a block.
COTAN_WINOGRAD_TARGET void GradientTile(const float* images, int64_t channels, const Pixels<2>& pixels,
                                        const Transformed& form, int64_t tile, float* block) {
  for (int64_t c = 0; c < channels; c += kLanes) {
    const __mmask16 lanes = LanesFrom(c, channels);
    __m512 y[4];
    __m512 m[16];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      y[i] = pixels.Has(i) ? _mm512_maskz_loadu_ps(lanes, images + pixels.Offset(i) + c) : _mm512_setzero_ps();
    }
    winograd::TransformGradient(y, m);
    float* const to = block + form.Offset(tile, c);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) _mm512_store_ps(to + i * form.ElementFloats(), m[i]);
  }
}

// Writes the output pixels of tile `tile` of a block; `bias` may be null.
COTAN_WINOGRAD_TARGET void OutputTile(const float* block, const Transformed& form, int64_t tile,
                                      const Pixels<2>& pixels, int64_t channels, const float* bias, float* images) {
  for (int64_t c = 0; c < channels; c += kLanes) {
    const __mmask16 lanes = LanesFrom(c, channels);
    const float* const from = block + form.Offset(tile, c);
    __m512 m[16];
    __m512 y[4];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) m[i] = _mm512_load_ps(from + i * form.ElementFloats());
    winograd::TransformOutput(m, y);
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
// floats.
struct Weights {
  int64_t to_channels;
  int64_t from_channels;
  int64_t to_stride;
  int64_t from_stride;
  bool flips;  // the kernel in reverse order
};

// Transforms the weights from one channel to all others into the panels of its row: [kElements][panels][rows][kPanel].
COTAN_WINOGRAD_TARGET void WeightRow(const float* weights, const Weights& w, int64_t row, const Transformed& form,
                                     float* panels) {
  for (int64_t c = 0; c < form.groups * kPanel; c += kLanes) {
    __m512 g[9];
    __m512 u[16];
    const int64_t lanes = row < w.from_channels ? std::min(kLanes, w.to_channels - c) : 0;
    winograd::LoadKernels(weights + row * w.from_stride + c * w.to_stride, w.to_stride, lanes, w.flips, g);
    winograd::TransformWeight(g, u);
    float* const to = panels + form.Offset(row, c);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) _mm512_store_ps(to + i * form.ElementFloats(), u[i]);
  }
}

// Writes the gradients of the weights from one channel to all others.
COTAN_WINOGRAD_TARGET void WeightGradientRow(const float* panels, const Transformed& form, int64_t row,
                                             const Weights& w, float* weights) {
  for (int64_t c = 0; c < w.to_channels; c += kLanes) {
    __m512 u[16];
    __m512 g[9];
    const float* const from = panels + form.Offset(row, c);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) u[i] = _mm512_load_ps(from + i * form.ElementFloats());
    winograd::TransformWeightGradient(u, g);
    winograd::StoreKernels(g, w.to_stride, std::min(kLanes, w.to_channels - c),
                           weights + row * w.from_stride + c * w.to_stride);
  }
}

// Computes the rows of one panel: to[tiles, columns] = left * right, with the left matrix in groups of 16 columns.
COTAN_WINOGRAD_TARGET void MultiplyTiles(const Transformed& left_form, const float* left, int64_t tiles,
                                         const float* right, int64_t columns, float* to) {
  winograd::LeftBlocks block = {left, left_form.GroupFloats(), left_form.groups, kLanes};
  for (int64_t t = 0; t < tiles; t += kTileRows, block.data += kTileRows * kLanes, to += kTileRows * kPanel) {
    if (columns > kLanes) {
      winograd::MultiplyTile<2, kLanes, 1>(block, right, to, false);
    } else {
      winograd::MultiplyTile<1, kLanes, 1>(block, right, to, false);
    }
  }
}

// Computes 16 rows of one panel of a weight gradient: to[16, columns] (+)= left^T * right, over `tiles` tiles. Sums of
// few tiles are added up, as one sum over all would round more than that of a direct convolution.
COTAN_WINOGRAD_TARGET void AddProducts(const float* left, const float* right, int64_t tiles, int64_t columns, bool adds,
                                       float* to) {
  for (int64_t tile = 0; tile < tiles; tile += kSummedTiles) {
    const int64_t count = std::min(kSummedTiles, tiles - tile);
    for (int64_t row = 0; row < kLanes; row += kTileRows) {
      const winograd::LeftBlocks block = {left + tile * kLanes + row, 0, 1, count};
      if (columns > kLanes) {
        winograd::MultiplyTile<2, 1, kLanes>(block, right + tile * kPanel, to + row * kPanel, adds || tile > 0);
      } else {
        winograd::MultiplyTile<1, 1, kLanes>(block, right + tile * kPanel, to + row * kPanel, adds || tile > 0);
      }
    }
  }
}

// kForward or kBackwardData. The transformed weights are shared, the tiles of a block are a worker's own.
class WinogradProduct final : public Kernel {
 public:
  WinogradProduct(const TileGrid& grid, const Weights& weights, int threads)
      : grid_(grid),
        weights_(weights),
        threads_(threads),
        block_tiles_(BlockTiles(grid)),
        panels_(weights.to_channels, RoundUp(weights.from_channels, kLanes), kPanel),
        inputs_(weights.from_channels, block_tiles_, kLanes),
        outputs_(weights.to_channels, block_tiles_, kPanel) {
    const int64_t floats = panels_.Floats() + threads_ * WorkerFloats();
    scratch_bytes_ = static_cast<size_t>(floats) * sizeof(float);
  }

  absl::Status Run(const KernelArgs& args) override {
    const auto* weights = static_cast<const float*>(args.inputs[1]);
    auto* const panels = static_cast<float*>(args.scratch);
    ParallelFor(threads_, panels_.tiles, kLanes, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) WeightRow(weights, weights_, row, panels_, panels);
    });
    ParallelForWorker(threads_, grid_.Count(), block_tiles_, [&](int worker, int64_t begin, int64_t end) {
      RunBlock(args, begin, end, panels + panels_.Floats() + worker * WorkerFloats());
    });
    return absl::OkStatus();
  }

  void set_has_bias() { has_bias_ = true; }

 private:
  static int64_t BlockTiles(const TileGrid& grid) {
    const int64_t each = kElements * (grid.input.channels + grid.output.channels);
    return RoundUp(std::min(std::max(kBlockFloats / each, kMinBlockTiles), grid.Count()), kTileRows);
  }

  int64_t WorkerFloats() const { return inputs_.Floats() + outputs_.Floats(); }

  void RunBlock(const KernelArgs& args, int64_t begin, int64_t end, float* scratch) const {
    const auto* from = static_cast<const float*>(args.inputs[0]);
    const auto* bias = has_bias_ ? static_cast<const float*>(args.inputs[2]) : nullptr;
    auto* to = static_cast<float*>(args.outputs[0]);
    const auto* panels = static_cast<const float*>(args.scratch);
    float* const products = scratch + inputs_.Floats();
    TileCursor input(grid_, begin);
    for (int64_t t = 0; t < end - begin; ++t, input.Advance()) {
      InputTile(from, grid_.input.channels, input.InputPixels(), inputs_, scratch + t * kLanes);
    }
    for (int64_t e = 0; e < kElements; ++e) {
      for (int64_t panel = 0; panel < panels_.groups; ++panel) {
        MultiplyTiles(inputs_, scratch + e * inputs_.ElementFloats(), end - begin,
                      panels + e * panels_.ElementFloats() + panel * panels_.GroupFloats(),
                      weights_.to_channels - panel * kPanel,
                      products + e * outputs_.ElementFloats() + panel * outputs_.GroupFloats());
      }
    }
    TileCursor output(grid_, begin);
    for (int64_t t = 0; t < end - begin; ++t, output.Advance()) {
      OutputTile(products, outputs_, t, output.OutputPixels(), grid_.output.channels, bias, to);
    }
  }

  TileGrid grid_;
  Weights weights_;
  int threads_;
  bool has_bias_ = false;
  int64_t block_tiles_;
  Transformed panels_;  // the weights: a row for each channel of the input
  Transformed inputs_;
  Transformed outputs_;
};

// kBackwardWeights: for each block of tiles, the 16 products of transformed inputs and gradients are added to 16
// matrices, [from channels, to channels] each.
class WinogradWeightGradient final : public Kernel {
 public:
  WinogradWeightGradient(const TileGrid& grid, const Weights& weights, int threads)
      : grid_(grid),
        weights_(weights),
        threads_(threads),
        block_tiles_(BlockTiles(grid)),
        panels_(weights.to_channels, RoundUp(weights.from_channels, kLanes), kPanel),
        inputs_(weights.from_channels, block_tiles_, kLanes),
        gradients_(weights.to_channels, block_tiles_, kPanel) {
    scratch_bytes_ = static_cast<size_t>(panels_.Floats() + inputs_.Floats() + gradients_.Floats()) * sizeof(float);
  }

  absl::Status Run(const KernelArgs& args) override {
    auto* const sums = static_cast<float*>(args.scratch);
    auto* const weights = static_cast<float*>(args.outputs[0]);
    for (int64_t begin = 0; begin < grid_.Count(); begin += block_tiles_) {
      const int64_t end = std::min(begin + block_tiles_, grid_.Count());
      float* const inputs = sums + panels_.Floats();
      float* const gradients = inputs + inputs_.Floats();
      Transform(args, begin, end, inputs, gradients);
      ParallelFor(threads_, kElements, 1, [&](int64_t element, int64_t) {
        AddElement(inputs + element * inputs_.ElementFloats(), gradients + element * gradients_.ElementFloats(),
                   end - begin, begin > 0, sums + element * panels_.ElementFloats());
      });
    }
    ParallelFor(threads_, weights_.from_channels, kLanes, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) WeightGradientRow(sums, panels_, row, weights_, weights);
    });
    return absl::OkStatus();
  }

 private:
  static int64_t BlockTiles(const TileGrid& grid) {
    const int64_t each = kElements * (grid.input.channels + grid.output.channels);
    return std::min(std::max(kGradientFloats / each, kMinGradientTiles), grid.Count());
  }

  void Transform(const KernelArgs& args, int64_t begin, int64_t end, float* inputs, float* gradients) const {
    const auto* source = static_cast<const float*>(args.inputs[0]);
    const auto* destination = static_cast<const float*>(args.inputs[1]);
    ParallelFor(threads_, end - begin, kTransformGrain, [&](int64_t first, int64_t last) {
      TileCursor at(grid_, begin + first);
      for (int64_t t = first; t < last; ++t, at.Advance()) {
        InputTile(source, grid_.input.channels, at.InputPixels(), inputs_, inputs + t * kLanes);
        GradientTile(destination, grid_.output.channels, at.OutputPixels(), gradients_, t, gradients);
      }
    });
  }

  void AddElement(const float* inputs, const float* gradients, int64_t tiles, bool adds, float* sums) const {
    for (int64_t panel = 0; panel < panels_.groups; ++panel) {
      for (int64_t group = 0; group < inputs_.groups; ++group) {
        AddProducts(inputs + group * inputs_.GroupFloats(), gradients + panel * gradients_.GroupFloats(), tiles,
                    weights_.to_channels - panel * kPanel, adds,
                    sums + panel * panels_.GroupFloats() + group * kLanes * kPanel);
      }
    }
  }

  TileGrid grid_;
  Weights weights_;
  int threads_;
  int64_t block_tiles_;
  Transformed panels_;
  Transformed inputs_;
  Transformed gradients_;
};

bool Qualifies(const ConvolutionProblem& p) {
  const DimVector& weights = p.weights.layout.sizes;
  if (p.dtype != DType::kFloat32 || p.stride.size() != 2 || p.groups != 1) return false;
  if (weights[2] != 3 || weights[3] != 3 || !AllAre(p.stride, 1)) return false;
  return weights[0] >= kMinChannels && weights[1] >= kMinChannels;
}

// Returns the tiles of the product. The gradient of data is the product of the gradient of the output with the
// kernels in reverse order, with a padding of 2 * dilation - padding, which may be negative.
TileGrid GridOf(const ConvolutionProblem& p) {
  const Images source = ImagesOf(p.source.layout);
  const Images destination = ImagesOf(p.destination.layout);
  const int64_t rows = p.dilation[0] + 1;
  const int64_t columns = p.dilation[1] + 1;
  if (p.product == ConvolutionProduct::kBackwardData) {
    return {destination,
            source,
            {source.rows, 2 * rows - p.padding_before[0], rows},
            {source.columns, 2 * columns - p.padding_before[1], columns}};
  }
  return {source,
          destination,
          {destination.rows, p.padding_before[0], rows},
          {destination.columns, p.padding_before[1], columns}};
}

bool IsWorthwhile(const ConvolutionProblem& p, const TileGrid& grid) {
  // A tile takes 16 multiplications for up to four pixels, a direct convolution nine for each. With a dilation of about
  // the image's size, a tile has one pixel.
  const int64_t pixels = grid.output.count * grid.output.rows * grid.output.columns;
  if (!AllAre(p.dilation, 0) && 2 * grid.Count() > pixels) return false;
  if (grid.Count() >= kMinTiles) return true;
  const int64_t weights = p.weights.layout.sizes[0] * p.weights.layout.sizes[1];
  return p.product != ConvolutionProduct::kForward && grid.Count() >= kMinTilesOfSmallGradients &&
         weights <= kMaxWeightsOfSmallGradients;
}

Weights WeightsOf(const ConvolutionProblem& p) {
  const StridedLayout w = OwnWeights(p);
  if (p.product == ConvolutionProduct::kBackwardData) {
    return {w.sizes[1], w.sizes[0], w.strides[1], w.strides[0], /*flips=*/true};
  }
  return {w.sizes[0], w.sizes[1], w.strides[0], w.strides[1], /*flips=*/false};
}

}  // namespace

std::unique_ptr<Kernel> MakeWinograd(const ConvolutionProblem& problem, int threads) {
  if (!__builtin_cpu_supports("avx512f") || !Qualifies(problem)) return nullptr;
  const TileGrid grid = GridOf(problem);
  if (!IsWorthwhile(problem, grid)) return nullptr;
  const Weights weights = WeightsOf(problem);
  if (problem.product == ConvolutionProduct::kBackwardWeights) {
    return std::make_unique<WinogradWeightGradient>(grid, weights, threads);
  }
  auto product = std::make_unique<WinogradProduct>(grid, weights, threads);
  if (problem.bias && problem.product == ConvolutionProduct::kForward) product->set_has_bias();
  return product;
}

#else

std::unique_ptr<Kernel> MakeWinograd(const ConvolutionProblem& /*problem*/, int /*threads*/) { return nullptr; }

#endif

}  // namespace cotan::cpu
