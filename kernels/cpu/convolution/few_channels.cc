// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/convolution/few_channels.h"

#include <algorithm>
#include <cstring>

#include "base/rounding.h"
#include "kernels/cpu/convolution/convolution_axis.h"
#include "kernels/cpu/simd/gemm_core.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/threading/parallel.h"

namespace cotan::cpu {
namespace {

using Axis = ConvolutionAxis;
using Range = ConvolutionRange;

constexpr int64_t kLanes = kVectorSize<float>;
constexpr int64_t kMaxChannels = 8;
constexpr int64_t kMinDepth = 4;              // channels of the destination, which a product sums
constexpr int64_t kBlockRows = 64;            // of the source, that a chunk computes
constexpr int64_t kProductFloats = 8 * 1024;  // that are added before the next rows are multiplied
constexpr int64_t kMaxProducts = 4096;        // of one destination position

// Computes kRows rows of kVectors vectors of the product of a row-major matrix, `depth` columns wide, with a right
// matrix in panels of one vector.
template <int kRows, int kVectors>
[[gnu::always_inline]] inline void MultiplyRows(const float* left, const float* panels, int64_t depth, float* result,
                                                int64_t width) {
  Vector<float> sums[kRows][kVectors] = {};
  for (int64_t k = 0; k < depth; ++k) {
    Vector<float> right[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) Load(panels + (v * depth + k) * kLanes, right[v]);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sums[r][v] += left[r * depth + k] * right[v];
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) Store<float>(sums[r][v], result + r * width + v * kLanes);
  }
}

template <int kVectors>
[[gnu::always_inline]] inline void MultiplyPanels(const float* left, int64_t rows, const float* panels, int64_t depth,
                                                  float* result, int64_t width) {
  int64_t r = 0;
  for (; r + 8 <= rows; r += 8) {
    MultiplyRows<8, kVectors>(left + r * depth, panels, depth, result + r * width, width);
  }
  if (r + 4 <= rows) {
    MultiplyRows<4, kVectors>(left + r * depth, panels, depth, result + r * width, width);
    r += 4;
  }
  for (; r < rows; ++r) MultiplyRows<1, kVectors>(left + r * depth, panels, depth, result + r * width, width);
}

// Computes result[rows, width] = left[rows, depth] right[depth, width].
COTAN_SIMD_VERSIONS void Multiply(const float* left, int64_t rows, const float* panels, int64_t depth, float* result,
                                  int64_t width) {
  int64_t column = 0;
  for (; column + 2 * kLanes <= width; column += 2 * kLanes) {
    MultiplyPanels<2>(left, rows, panels + column * depth, depth, result + column, width);
  }
  if (column < width) MultiplyPanels<1>(left, rows, panels + column * depth, depth, result + column, width);
}

template <int64_t kCount>
[[gnu::always_inline]] inline void AddFew(const float* from, float* to) {
  typedef float Values __attribute__((vector_size(kCount * sizeof(float))));
  Values sum, value;
  std::memcpy(&sum, to, sizeof(sum));
  std::memcpy(&value, from, sizeof(value));
  sum += value;
  std::memcpy(to, &sum, sizeof(sum));
}

// Adds a run of `count` floats of each of `positions` rows of products to the source, `step` floats apart. The
// processor waits for each run that reads what the one before has just written in other vectors, so runs should not
// overlap.
COTAN_SIMD_VERSIONS void AddRuns(const float* products, int64_t width, int64_t positions, int64_t count, int64_t step,
                                 float* source) {
  for (int64_t x = 0; x < positions; ++x, products += width, source += step) {
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) AddFew<kLanes>(products + i, source + i);
    if (i + 8 <= count) {
      AddFew<8>(products + i, source + i);
      i += 8;
    }
    if (i + 4 <= count) {
      AddFew<4>(products + i, source + i);
      i += 4;
    }
    for (; i < count; ++i) source[i] += products[i];
  }
}

// The scratch has the weights in panels of one vector of columns, [panels][depth][kLanes], and for each thread the
// products of some rows of the destination, [positions][width]. Columns are [kernel rows][kernel columns][channels].
class FewChannelsDataGradient final : public Kernel {
 public:
  FewChannelsDataGradient(int64_t images, int64_t channels, int64_t depth, const Axis& rows, const Axis& columns,
                          int threads)
      : images_(images),
        channels_(channels),
        depth_(depth),
        rows_(rows),
        columns_(columns),
        threads_(threads),
        width_(RoundUp(rows.kernel * columns.kernel * channels, kLanes)),
        phases_((columns.kernel + columns.stride - 1) / columns.stride),
        interior_(InteriorOf(columns, 0, columns.kernel)),
        product_rows_(std::clamp<int64_t>(kProductFloats / (columns.destination * width_), 1, rows.destination)) {
    scratch_bytes_ = static_cast<size_t>(depth_ * width_ + threads_ * ProductFloats()) * sizeof(float);
  }

  absl::Status Run(const KernelArgs& args) override {
    const auto* destination = static_cast<const float*>(args.inputs[0]);
    auto* const panels = static_cast<float*>(args.scratch);
    auto* const source = static_cast<float*>(args.outputs[0]);
    Pack(static_cast<const float*>(args.inputs[1]), panels);
    const int64_t blocks = (rows_.source + kBlockRows - 1) / kBlockRows;
    ParallelForWorker(threads_, images_ * blocks, 1, [&](int worker, int64_t item, int64_t) {
      const int64_t image = item / blocks;
      const int64_t begin = item % blocks * kBlockRows;
      Block(destination + image * rows_.destination * DestinationRow(), panels,
            {begin, std::min(begin + kBlockRows, rows_.source)}, panels + depth_ * width_ + worker * ProductFloats(),
            source + image * rows_.source * SourceRow());
    });
    return absl::OkStatus();
  }

 private:
  int64_t ProductFloats() const { return product_rows_ * columns_.destination * width_; }
  int64_t DestinationRow() const { return columns_.destination * depth_; }
  int64_t SourceRow() const { return columns_.source * channels_; }

  // Packs row-major weights [depth, channels, kernel positions].
  void Pack(const float* weights, float* panels) const {
    const int64_t taps = rows_.kernel * columns_.kernel;
    for (int64_t column = 0; column < width_; ++column) {
      float* const to = panels + column / kLanes * depth_ * kLanes + column % kLanes;
      const bool is_used = column < taps * channels_;
      const float* const from = weights + column % channels_ * taps + column / channels_;
      for (int64_t k = 0; k < depth_; ++k) to[k * kLanes] = is_used ? from[k * channels_ * taps] : 0.0F;
    }
  }

  // Computes rows [range) of the source of an image.
  void Block(const float* destination, const float* panels, const Range& range, float* products, float* source) const {
    std::fill(source + range.begin * SourceRow(), source + range.end * SourceRow(), 0.0F);
    const Range reach = ReachOf(rows_, range);
    for (int64_t begin = reach.begin; begin < reach.end; begin += product_rows_) {
      const int64_t end = std::min(begin + product_rows_, reach.end);
      Multiply(destination + begin * DestinationRow(), (end - begin) * columns_.destination, panels, depth_, products,
               width_);
      for (int64_t y = begin; y < end; ++y) {
        AddProducts(products + (y - begin) * columns_.destination * width_, y, range, source);
      }
    }
  }

  // Adds the products of row y of the destination to rows [range) of the source.
  void AddProducts(const float* products, int64_t y, const Range& range, float* source) const {
    for (int64_t phase = 0; phase < phases_; ++phase) {
      for (int64_t tap = 0; tap < rows_.kernel; ++tap) {
        const int64_t row = rows_.Origin(y) + tap * rows_.dilation;
        if (row < range.begin || row >= range.end) continue;
        AddRow(products + tap * columns_.kernel * channels_, phase, source + row * SourceRow());
      }
    }
  }

  // Adds the products of a kernel row at every phases_-th position, from `phase` on, to a row of the source.
  void AddRow(const float* products, int64_t phase, float* row) const {
    int64_t x = phase;
    for (; x < std::min(interior_.begin, columns_.destination); x += phases_) AddAtBorder(products, x, row);
    if (x < interior_.end) {
      const int64_t positions = (interior_.end - x + phases_ - 1) / phases_;
      AddRuns(products + x * width_, phases_ * width_, positions, columns_.kernel * channels_,
              phases_ * columns_.stride * channels_, row + columns_.Origin(x) * channels_);
      x += positions * phases_;
    }
    for (; x < columns_.destination; x += phases_) AddAtBorder(products, x, row);
  }

  // Adds the taps that are inside.
  void AddAtBorder(const float* products, int64_t x, float* row) const {
    const int64_t origin = columns_.Origin(x);
    const int64_t begin = std::max<int64_t>(0, -origin);
    const int64_t end = std::min(columns_.kernel, columns_.source - origin);
    if (begin >= end) return;
    AddRuns(products + x * width_ + begin * channels_, width_, 1, (end - begin) * channels_, 0,
            row + (origin + begin) * channels_);
  }

  int64_t images_;
  int64_t channels_;  // of the source
  int64_t depth_;     // channels of the destination
  Axis rows_;
  Axis columns_;
  int threads_;
  int64_t width_;         // products of a destination position, whole vectors
  int64_t phases_;        // taps of positions so far apart do not overlap
  Range interior_;        // positions whose taps are all inside
  int64_t product_rows_;  // rows of the destination that are multiplied at once
};

}  // namespace

bool HasFewChannelsDataGradient(const ConvolutionProblem& problem) {
  const DimVector& weights = problem.weights.layout.sizes;
  if (problem.product != ConvolutionProduct::kBackwardData || problem.groups != 1) return false;
  if (problem.stride.size() > 2 || problem.dilation.back() != 0) return false;
  if (weights[1] > kMaxChannels || weights[0] < kMinDepth) return false;
  const int64_t taps = NumElements(absl::MakeConstSpan(weights).subspan(2));
  return taps > 1 && taps * weights[1] <= kMaxProducts;
}

std::unique_ptr<Kernel> MakeFewChannelsDataGradient(const ConvolutionProblem& problem, int threads) {
  if (problem.dtype != DType::kFloat32 || !HasFewChannelsDataGradient(problem)) return nullptr;
  const DimVector& weights = problem.weights.layout.sizes;
  const Axis columns = ConvolutionAxisOf(problem, problem.stride.size() - 1);
  const Axis rows = problem.stride.size() == 2 ? ConvolutionAxisOf(problem, 0) : Axis{};
  return std::make_unique<FewChannelsDataGradient>(problem.source.layout.sizes[0], weights[1], weights[0], rows,
                                                   columns, threads);
}

}  // namespace cotan::cpu
