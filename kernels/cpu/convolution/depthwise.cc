// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/convolution/depthwise.h"

#include <algorithm>
#include <array>

#include "kernels/cpu/convolution/convolution_axis.h"
#include "kernels/cpu/simd/gemm_core.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/threading/parallel.h"
#include "kernels/cpu/threading/tuning.h"

namespace cotan::cpu {
namespace {

constexpr int64_t kLanes = kVectorSize<float>;
// oneDNN is faster for 3 x 3, except for images of at most 2 x 2, and ten times slower for 5 x 5 (docs/performance.md).
constexpr int64_t kMinKernel = 4;
constexpr int64_t kSmallImage = 2;
constexpr int64_t kMinKernelOfSmallImages = 3;
constexpr int64_t kMaxVectors = 4;  // of channels of a block
constexpr int64_t kBlockChannels = kMaxVectors * kLanes;
constexpr int64_t kMaxTaps = 7;              // of a kernel row that are summed in registers
constexpr int64_t kMaxTapsOfWideBlocks = 5;  // 5 taps of 4 vectors are 20 of 32 registers
constexpr int64_t kBlocksForAllThreads = 8;  // with fewer blocks of channels the batch is split, too

using Axis = ConvolutionAxis;
using Range = ConvolutionRange;

// A row of the gradient, a row of the source, and the first tap of the kernel row to sum.
struct Rows {
  const float* gradient;
  const float* source;
  int64_t channels;  // floats from pixel to pixel
  int64_t first_tap;
};

// Adds the products of output position `at` for the taps that are inside.
template <int kTaps, int kVectors>
[[gnu::always_inline]] inline void AddBorder(const Axis& axis, const Rows& rows, int64_t at, float* sums) {
  for (int64_t t = 0; t < kTaps; ++t) {
    const int64_t x = axis.Origin(at) + (rows.first_tap + t) * axis.dilation;
    if (x < 0 || x >= axis.source) continue;
    const float* const gradient = rows.gradient + at * rows.channels;
    const float* const source = rows.source + x * rows.channels;
    for (int64_t c = 0; c < kVectors * kLanes; c += kLanes) {
      Vector<float> sum, g, v;
      Load(sums + t * kBlockChannels + c, sum);
      Load(gradient + c, g);
      Load(source + c, v);
      Store<float>(sum + g * v, sums + t * kBlockChannels + c);
    }
  }
}

// Adds the products of the output positions in `range`, where all taps are inside.
template <int kTaps, int kVectors>
[[gnu::always_inline]] inline void AddInterior(const Axis& axis, const Rows& rows, const Range& range, float* sums) {
  Vector<float> sum[kTaps][kVectors] = {};  // of the row alone: a sum over all rows would round more
  const float* gradient = rows.gradient + range.begin * rows.channels;
  const float* source = rows.source + (axis.Origin(range.begin) + rows.first_tap * axis.dilation) * rows.channels;
  const int64_t tap = axis.dilation * rows.channels;
  for (int64_t at = range.begin; at < range.end; ++at) {
    Vector<float> g[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) Load(gradient + v * kLanes, g[v]);
#pragma GCC unroll 7
    for (int t = 0; t < kTaps; ++t) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        Vector<float> x;
        Load(source + t * tap + v * kLanes, x);
        sum[t][v] += g[v] * x;
      }
    }
    gradient += rows.channels;
    source += axis.stride * rows.channels;
  }
#pragma GCC unroll 7
  for (int t = 0; t < kTaps; ++t) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      float* const to = sums + t * kBlockChannels + v * kLanes;
      Vector<float> old;
      Load(to, old);
      Store<float>(old + sum[t][v], to);
    }
  }
}

template <int kTaps, int kVectors>
COTAN_SIMD_VERSIONS void AddRow(const Axis& axis, const Rows& rows, float* sums) {
  const Range interior = InteriorOf(axis, rows.first_tap, kTaps);
  for (int64_t at = 0; at < interior.begin; ++at) AddBorder<kTaps, kVectors>(axis, rows, at, sums);
  if (interior.begin < interior.end) AddInterior<kTaps, kVectors>(axis, rows, interior, sums);
  for (int64_t at = interior.end; at < axis.destination; ++at) AddBorder<kTaps, kVectors>(axis, rows, at, sums);
}

using RowFn = void (*)(const Axis& axis, const Rows& rows, float* sums);

// Functions for 1, 2 and 4 vectors and 1 to 7 taps.
template <int kVectors>
constexpr std::array<RowFn, kMaxTaps> kRowFns = {AddRow<1, kVectors>, AddRow<2, kVectors>, AddRow<3, kVectors>,
                                                 AddRow<4, kVectors>, AddRow<5, kVectors>, AddRow<6, kVectors>,
                                                 AddRow<7, kVectors>};

RowFn RowFnOf(int64_t vectors, int64_t taps) {
  const auto at = static_cast<size_t>(taps - 1);
  if (vectors == 1) return kRowFns<1>[at];
  return vectors == 2 ? kRowFns<2>[at] : kRowFns<4>[at];
}

// Returns the vectors of a block: 1, 2 or 4, no more than there are channels.
int64_t BlockVectors(int64_t channels, int64_t taps) {
  if (channels >= 4 * kLanes && taps <= kMaxTapsOfWideBlocks) return 4;
  return channels >= 2 * kLanes ? 2 : 1;
}

// Channels [begin, begin + vectors * kLanes). The last block may contain channels of the one before: those below
// `first` are computed again, but not written.
struct Block {
  int64_t begin;
  int64_t vectors;
  int64_t first;
};

// Sums over parts of the batch are [parts][blocks][kernel positions][kBlockChannels] in the scratch.
class DepthwiseWeightGradient final : public Kernel {
 public:
  DepthwiseWeightGradient(int64_t images, int64_t channels, const Axis& rows, const Axis& columns, int threads)
      : images_(images),
        channels_(channels),
        rows_(rows),
        columns_(columns),
        threads_(threads),
        vectors_(BlockVectors(channels, columns.kernel)),
        blocks_((channels + vectors_ * kLanes - 1) / (vectors_ * kLanes)),
        parts_(blocks_ >= kBlocksForAllThreads ? 1 : std::min(images, kMaxConvolutionParts)) {
    scratch_bytes_ = static_cast<size_t>(parts_ * blocks_ * BlockFloats()) * sizeof(float);
  }

  absl::Status Run(const KernelArgs& args) override {
    const auto* source = static_cast<const float*>(args.inputs[0]);
    const auto* destination = static_cast<const float*>(args.inputs[1]);
    auto* const sums = static_cast<float*>(args.scratch);
    auto* const weights = static_cast<float*>(args.outputs[0]);
    ParallelFor(threads_, parts_ * blocks_, 1, [&](int64_t item, int64_t) {
      SumPart(source, destination, item / blocks_, BlockAt(item % blocks_), sums + item * BlockFloats());
    });
    for (int64_t block = 0; block < blocks_; ++block) Write(BlockAt(block), sums + block * BlockFloats(), weights);
    return absl::OkStatus();
  }

 private:
  int64_t KernelPositions() const { return rows_.kernel * columns_.kernel; }
  int64_t BlockFloats() const { return KernelPositions() * kBlockChannels; }

  // The last block ends at the last channel, with as many vectors as the remaining channels need, or one more.
  Block BlockAt(int64_t index) const {
    const int64_t first = index * vectors_ * kLanes;
    int64_t vectors = 1;
    while (vectors < vectors_ && vectors * kLanes < channels_ - first) vectors *= 2;
    return {std::min(first, channels_ - vectors * kLanes), vectors, first};
  }

  void SumPart(const float* source, const float* destination, int64_t part, const Block& block, float* sums) const {
    std::fill_n(sums, BlockFloats(), 0.0F);
    for (int64_t image = images_ * part / parts_; image < images_ * (part + 1) / parts_; ++image) {
      for (int64_t y = 0; y < rows_.destination; ++y) {
        const float* const gradient =
            destination + (image * rows_.destination + y) * columns_.destination * channels_ + block.begin;
        for (int64_t tap = 0; tap < rows_.kernel; ++tap) {
          const int64_t row = rows_.Origin(y) + tap * rows_.dilation;
          if (row < 0 || row >= rows_.source) continue;
          const float* const from = source + (image * rows_.source + row) * columns_.source * channels_ + block.begin;
          SumRow({gradient, from, channels_, 0}, block, sums + tap * columns_.kernel * kBlockChannels);
        }
      }
    }
  }

  void SumRow(Rows rows, const Block& block, float* sums) const {
    for (; rows.first_tap < columns_.kernel; rows.first_tap += kMaxTaps) {
      const int64_t taps = std::min(kMaxTaps, columns_.kernel - rows.first_tap);
      RowFnOf(block.vectors, taps)(columns_, rows, sums + rows.first_tap * kBlockChannels);
    }
  }

  void Write(const Block& block, const float* sums, float* weights) const {
    const int64_t positions = KernelPositions();
    const int64_t end = block.begin + block.vectors * kLanes;
    for (int64_t c = block.first; c < end; ++c) {
      for (int64_t k = 0; k < positions; ++k) {
        float sum = 0;
        for (int64_t part = 0; part < parts_; ++part) {
          sum += sums[part * blocks_ * BlockFloats() + k * kBlockChannels + c - block.begin];
        }
        weights[c * positions + k] = sum;
      }
    }
  }

  int64_t images_;
  int64_t channels_;
  Axis rows_;
  Axis columns_;
  int threads_;
  int64_t vectors_;  // of a block
  int64_t blocks_;
  int64_t parts_;
};

}  // namespace

std::unique_ptr<Kernel> MakeDepthwiseWeightGradient(const ConvolutionProblem& problem, int threads) {
  const int64_t channels = problem.source.layout.sizes[1];
  const bool is_depthwise = problem.groups == channels && problem.destination.layout.sizes[1] == channels;
  if (problem.product != ConvolutionProduct::kBackwardWeights || problem.dtype != DType::kFloat32) return nullptr;
  if (!is_depthwise || channels < kLanes || problem.stride.size() > 2) return nullptr;
  const Axis columns = ConvolutionAxisOf(problem, problem.stride.size() - 1);
  const Axis rows = problem.stride.size() == 2 ? ConvolutionAxisOf(problem, 0) : Axis{};
  const bool is_small = std::max(rows.destination, columns.destination) <= kSmallImage;
  if (std::max(rows.kernel, columns.kernel) < (is_small ? kMinKernelOfSmallImages : kMinKernel)) return nullptr;
  return std::make_unique<DepthwiseWeightGradient>(problem.source.layout.sizes[0], channels, rows, columns, threads);
}

}  // namespace cotan::cpu
