// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/convolution/strided_gradient.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>
#include <vector>

#include "base/rounding.h"
#include "base/status_macros.h"
#include "kernels/cpu/convolution/convolution_axis.h"
#include "kernels/cpu/convolution/weight_taps.h"
#include "kernels/cpu/convolution/window_parts.h"
#include "kernels/cpu/convolution/windows.h"
#include "kernels/cpu/copy/copy.h"
#include "kernels/cpu/matmul/avx512_gemm.h"
#include "kernels/cpu/threading/parallel.h"
#include "kernels/cpu/threading/pipeline.h"

namespace cotan::cpu {
namespace {

constexpr int64_t kMaxTerms = 384;         // of a part of a sum
constexpr int64_t kMaxColumns = 512;       // of a part of a weight gradient
constexpr int64_t kMinChannelsOfTap = 32;  // of a part with one tap, unless a kernel row is too long
constexpr int64_t kItemsPerThread = 3;     // so that threads end at about the same time
constexpr int64_t kMinBandChannels = 16;   // of a part of a weight gradient

// Of the problems that qualify.
constexpr int64_t kMinChannels = 16;          // of the source: a vector
constexpr int64_t kMinPixels = 192;           // of the destination
constexpr int64_t kMaxPixelsOfOneTap = 1024;  // whose gradient has so many zeros that writing them takes the time
constexpr int64_t kMinPixelsOfFewChannels = 4096;

// Returns the size of the last of the blocks of `block` elements that hold `count`.
int64_t LastBlock(int64_t count, int64_t block) { return (count - 1) % block + 1; }

// Positions first, first + step, ... of one dimension of the result.
struct ResultAxis {
  int64_t size = 1;
  int64_t first = 0;
  int64_t step = 1;
};

// Multiplies each window by a matrix [floats of a window, channels of the result]. Inputs: images, matrix; output: the
// result, dense channels last, of which it writes the positions of `rows` and `columns`, one for each window of an
// image.
class WindowProduct final : public Kernel {
 public:
  WindowProduct(WindowParts windows, int64_t images, const ResultAxis& rows, const ResultAxis& columns,
                int64_t channels, int threads)
      : windows_(std::move(windows)),
        count_(images * windows_.Positions()),
        rows_(rows),
        columns_(columns),
        channels_(channels),
        is_in_place_(windows_.Count() == 1 && windows_[0].ArePixels()),
        is_dense_(rows.step == 1 && columns.step == 1),
        block_(std::min(windows_.BlockWindows(count_), std::max(CeilDiv(count_, int64_t{threads}), kBlockMultiple))),
        workers_(static_cast<size_t>(std::min<int64_t>(threads, CeilDiv(count_, block_)))) {
    size_t product_bytes = 0;
    for (Worker& worker : workers_) {
      for (int64_t part = 0; part < windows_.Count(); ++part) {
        for (const int64_t windows : {block_, LastBlock(count_, block_)}) {
          worker.products.push_back(
              MakeAvx512Gemm(Geometry(windows, part), part == 0 ? Addend::kNone : Addend::kInOutput, 1));
          product_bytes = std::max(product_bytes, RoundUp(worker.products.back()->scratch_bytes(), kScratchAlignment));
        }
      }
    }
    windows_bytes_ =
        is_in_place_ ? 0 : RoundUp(static_cast<size_t>(block_ * windows_.Floats()) * sizeof(float), kScratchAlignment);
    result_bytes_ = is_dense_ ? 0 : RoundUp(static_cast<size_t>(block_ * channels_) * sizeof(float), kScratchAlignment);
    worker_bytes_ = windows_bytes_ + result_bytes_ + product_bytes;
    scratch_bytes_ = worker_bytes_ * workers_.size();
  }

  absl::Status Run(const KernelArgs& args) override {
    for (Worker& worker : workers_) worker.status = absl::OkStatus();
    ParallelForWorker(static_cast<int>(workers_.size()), count_, block_, [&](int number, int64_t begin, int64_t end) {
      Worker& worker = workers_[static_cast<size_t>(number)];
      if (!worker.status.ok()) return;
      worker.status = RunBlock(args, begin, end, worker,
                               static_cast<char*>(args.scratch) + worker_bytes_ * static_cast<size_t>(number));
    });
    for (const Worker& worker : workers_) COTAN_RETURN_IF_ERROR(worker.status);
    return absl::OkStatus();
  }

 private:
  struct Worker {
    std::vector<std::unique_ptr<Kernel>> products;  // for each part: of block_ windows, and of the last ones
    absl::Status status;
  };

  MatmulGeometry Geometry(int64_t windows, int64_t part) const {
    const int64_t floats = windows_[part].Floats();
    return {.m = windows,
            .n = channels_,
            .k = floats,
            .a = {floats, 1},
            .b = {channels_, 1},
            .c = {channels_, 1},
            .batch = {}};
  }

  // Computes windows [begin, end) of the batch.
  absl::Status RunBlock(const KernelArgs& args, int64_t begin, int64_t end, const Worker& worker, char* scratch) const {
    auto* const images = static_cast<float*>(args.inputs[0]);
    auto* const result = static_cast<float*>(args.outputs[0]);
    auto* const windows = is_in_place_ ? images + begin * windows_.Floats() : reinterpret_cast<float*>(scratch);
    auto* matrix = static_cast<float*>(args.inputs[1]);
    void* output = is_dense_ ? result + begin * channels_ : reinterpret_cast<float*>(scratch + windows_bytes_);
    for (int64_t part = 0; part < windows_.Count(); ++part) {
      if (!is_in_place_) windows_[part].Gather(images, begin, end, windows);
      void* inputs[2] = {windows, matrix};
      Kernel& product = *worker.products[static_cast<size_t>(2 * part + (end - begin == block_ ? 0 : 1))];
      COTAN_RETURN_IF_ERROR(product.Run({inputs, &output, scratch + windows_bytes_ + result_bytes_}));
      matrix += windows_[part].Floats() * channels_;
    }
    if (!is_dense_) Scatter(static_cast<const float*>(output), begin, end, result);
    return absl::OkStatus();
  }

  // Copies the products of windows [begin, end) to their positions in the result.
  void Scatter(const float* products, int64_t begin, int64_t end, float* result) const {
    const int64_t row_windows = CeilDiv(columns_.size - columns_.first, columns_.step);
    const int64_t image_rows = windows_.Positions() / row_windows;
    while (begin < end) {
      const int64_t image = begin / windows_.Positions();
      const int64_t row = image * rows_.size + rows_.first + begin / row_windows % image_rows * rows_.step;
      const int64_t column = columns_.first + begin % row_windows * columns_.step;
      const int64_t count = std::min(row_windows - begin % row_windows, end - begin);
      CopyPieces(products, channels_, count, channels_, result + (row * columns_.size + column) * channels_,
                 columns_.step * channels_);
      products += count * channels_;
      begin += count;
    }
  }

  const WindowParts windows_;
  const int64_t count_;  // of windows in the batch
  const ResultAxis rows_;
  const ResultAxis columns_;
  const int64_t channels_;
  const bool is_in_place_;  // The windows are read in the images.
  const bool is_dense_;     // The products are consecutive in the result.
  const int64_t block_;     // windows
  size_t windows_bytes_ = 0;
  size_t result_bytes_ = 0;
  size_t worker_bytes_ = 0;
  std::vector<Worker> workers_;
};

// Computes the gradient of the weights as a matrix [channels of the destination, taps, channels of the source]. Inputs:
// source, destination. A work item is a part of the taps and some channels of the destination; it adds the products of
// all windows in their order.
class WindowWeightGradient final : public Kernel {
 public:
  // All parts of the windows have equally many taps. `block` windows are multiplied at once; results depend on it.
  WindowWeightGradient(WindowParts windows, int64_t images, int64_t block, int64_t channels, int threads)
      : windows_(std::move(windows)),
        count_(images * windows_.Positions()),
        channels_(channels),
        bands_(Bands(windows_.Count(), channels, threads)),
        band_channels_(CeilDiv(channels, bands_)),
        block_(block),
        workers_(static_cast<size_t>(std::min<int64_t>(threads, windows_.Count() * bands_))) {
    size_t product_bytes = 0;
    for (Worker& worker : workers_) {
      MakeProducts(worker);
      for (const auto& kernel : worker.products) {
        product_bytes = std::max(product_bytes, RoundUp(kernel->scratch_bytes(), kScratchAlignment));
      }
    }
    windows_bytes_ = RoundUp(static_cast<size_t>(block_ * windows_.Floats()) * sizeof(float), kScratchAlignment);
    worker_bytes_ = windows_bytes_ + product_bytes;
    scratch_bytes_ = worker_bytes_ * workers_.size();
  }

  absl::Status Run(const KernelArgs& args) override {
    for (Worker& worker : workers_) worker.status = absl::OkStatus();
    ParallelForWorker(
        static_cast<int>(workers_.size()), windows_.Count() * bands_, 1, [&](int number, int64_t item, int64_t) {
          Worker& worker = workers_[static_cast<size_t>(number)];
          if (!worker.status.ok()) return;
          worker.status = RunItem(args, item / bands_, item % bands_, worker,
                                  static_cast<char*>(args.scratch) + worker_bytes_ * static_cast<size_t>(number));
        });
    for (const Worker& worker : workers_) COTAN_RETURN_IF_ERROR(worker.status);
    return absl::OkStatus();
  }

 private:
  // Returns in how many bands the channels are cut. Each band gathers its windows again.
  static int64_t Bands(int64_t parts, int64_t channels, int threads) {
    const int64_t items = parts == 1 || threads == 1 ? threads : kItemsPerThread * threads;
    return std::min(CeilDiv(items, parts), CeilDiv(channels, kMinBandChannels));
  }

  struct Worker {
    std::array<std::unique_ptr<Kernel>, 8> products;  // by ProductIndex()
    absl::Status status;
  };
  // Returns which of a worker's products computes a block of windows for a band of channels.
  static size_t ProductIndex(bool is_last_block, bool is_last_band, bool adds) {
    return (is_last_block ? size_t{4} : 0) + (is_last_band ? size_t{2} : 0) + (adds ? size_t{1} : 0);
  }

  void MakeProducts(Worker& worker) const {
    for (size_t i = 0; i < worker.products.size(); ++i) {
      const MatmulGeometry geometry = {.m = (i & 2) != 0 ? LastBlock(channels_, band_channels_) : band_channels_,
                                       .n = windows_.Floats(),
                                       .k = (i & 4) != 0 ? LastBlock(count_, block_) : block_,
                                       .a = {1, channels_},
                                       .b = {windows_.Floats(), 1},
                                       .c = {windows_.Count() * windows_.Floats(), 1},
                                       .batch = {}};
      worker.products[i] = MakeAvx512Gemm(geometry, (i & 1) != 0 ? Addend::kInOutput : Addend::kNone, 1);
    }
  }

  absl::Status RunItem(const KernelArgs& args, int64_t part, int64_t band, const Worker& worker, char* scratch) const {
    const int64_t channel = band * band_channels_;
    if (channel >= channels_) return absl::OkStatus();
    const bool is_last_band = channel + band_channels_ >= channels_;
    auto* const source = static_cast<float*>(args.inputs[0]);
    auto* const destination = static_cast<float*>(args.inputs[1]) + channel;
    auto* const windows = reinterpret_cast<float*>(scratch);
    void* output = static_cast<float*>(args.outputs[0]) + (channel * windows_.Count() + part) * windows_.Floats();
    for (int64_t begin = 0; begin < count_; begin += block_) {
      const int64_t end = std::min(begin + block_, count_);
      windows_[part].Gather(source, begin, end, windows);
      void* inputs[2] = {destination + begin * channels_, windows};
      Kernel& product = *worker.products[ProductIndex(end == count_, is_last_band, begin > 0)];
      COTAN_RETURN_IF_ERROR(product.Run({inputs, &output, scratch + windows_bytes_}));
    }
    return absl::OkStatus();
  }

  const WindowParts windows_;
  const int64_t count_;     // of windows in the batch
  const int64_t channels_;  // of the destination
  const int64_t bands_;     // of these channels
  const int64_t band_channels_;
  const int64_t block_;  // windows
  size_t windows_bytes_ = 0;
  size_t worker_bytes_ = 0;
  std::vector<Worker> workers_;
};

// The product that computes the positions of the source with one remainder by the stride: the windows of the
// destination along a dimension, and the taps that they meet.
struct Phase {
  WindowAxis windows;
  std::vector<int64_t> taps;
  ResultAxis result;
};

Phase PhaseOf(const ConvolutionAxis& axis, int64_t remainder) {
  Phase phase;
  phase.result = {axis.source, remainder, axis.stride};
  phase.windows.size = axis.destination;
  phase.windows.positions = CeilDiv(axis.source - remainder, axis.stride);
  phase.windows.offsets.clear();
  for (int64_t tap = 0; tap < axis.kernel; ++tap) {
    const int64_t origin = remainder + axis.padding - tap * axis.dilation;
    if (origin % axis.stride != 0) continue;
    phase.windows.offsets.push_back(origin / axis.stride);
    phase.taps.push_back(tap);
  }
  return phase;
}

// Returns the windows of the source along a dimension.
WindowAxis SourceWindows(const ConvolutionAxis& axis) {
  WindowAxis windows = {axis.source, axis.destination, axis.stride, {}};
  for (int64_t tap = 0; tap < axis.kernel; ++tap) windows.offsets.push_back(tap * axis.dilation - axis.padding);
  return windows;
}

// Builds the steps of a gradient.
class Builder {
 public:
  Builder(const ConvolutionProblem& problem, int threads)
      : problem_(problem),
        images_(problem.source.layout.sizes[0]),
        in_(problem.weights.layout.sizes[1]),
        out_(problem.weights.layout.sizes[0]),
        columns_(ConvolutionAxisOf(problem, problem.stride.size() - 1)),
        threads_(threads),
        pipeline_(std::make_unique<Pipeline>(threads)) {
    if (problem.stride.size() == 2) rows_ = ConvolutionAxisOf(problem, 0);
  }

  std::unique_ptr<Kernel> Build() {
    if (problem_.product == ConvolutionProduct::kBackwardData) {
      AddDataGradient();
    } else {
      AddWeightGradient();
    }
    return std::move(pipeline_);
  }

 private:
  // The products of one remainder along each dimension.
  struct PhasePair {
    Phase rows;
    Phase columns;
    size_t taps() const { return rows.taps.size() * columns.taps.size(); }
  };

  int64_t Taps() const { return rows_.kernel * columns_.kernel; }

  Slot AddMatrix() { return pipeline_->AddScratch(static_cast<size_t>(out_ * Taps() * in_) * sizeof(float)); }

  std::vector<PhasePair> Phases() const {
    std::vector<PhasePair> phases;
    for (int64_t row = 0; row < std::min(rows_.stride, rows_.source); ++row) {
      for (int64_t column = 0; column < std::min(columns_.stride, columns_.source); ++column) {
        phases.push_back({PhaseOf(rows_, row), PhaseOf(columns_, column)});
      }
    }
    return phases;
  }

  void AddDataGradient() {
    const std::vector<PhasePair> phases = Phases();
    const bool has_gaps = std::any_of(phases.begin(), phases.end(), [](const PhasePair& p) { return p.taps() == 0; });
    if (has_gaps) {
      const StridedLayout source = {{NumElements(problem_.source.layout.sizes)}, {1}, 0};
      pipeline_->Add(MakeZeroKernel(sizeof(float), source, threads_), {}, {Slot::Output(0)});
    }
    Slot weights = AddWeights(phases);
    for (const PhasePair& phase : phases) {
      if (phase.taps() == 0) continue;
      pipeline_->Add(std::make_unique<WindowProduct>(ByTerms(phase.rows.windows, phase.columns.windows), images_,
                                                     phase.rows.result, phase.columns.result, in_, threads_),
                     {Slot::Input(0), weights}, {Slot::Output(0)});
      weights.byte_offset += phase.taps() * static_cast<size_t>(out_ * in_) * sizeof(float);
    }
  }

  // Returns windows of the destination in parts of whole kernel rows, with at most kMaxTerms floats if a row has no
  // more.
  WindowParts ByTerms(const WindowAxis& rows, const WindowAxis& columns) const {
    const auto row_taps = static_cast<int64_t>(rows.offsets.size());
    const auto column_taps = static_cast<int64_t>(columns.offsets.size());
    const int64_t parts = std::min(CeilDiv(row_taps * column_taps * out_, kMaxTerms), row_taps);
    return {out_, rows, columns, CeilDiv(row_taps, parts), column_taps};
  }

  // Returns a slot with the weights [taps, out, in] of one phase after another.
  Slot AddWeights(const std::vector<PhasePair>& phases) {
    if (Taps() == 1) return Slot::Input(1);
    WeightTaps layout = {out_, in_, Taps(), {}, in_, out_ * in_};
    for (const PhasePair& phase : phases) {
      for (const int64_t row : phase.rows.taps) {
        for (const int64_t column : phase.columns.taps) layout.taps.push_back(row * columns_.kernel + column);
      }
    }
    const Slot matrix = AddMatrix();
    pipeline_->Add(MakeTapGather(std::move(layout), threads_), {Slot::Input(1)}, {matrix});
    return matrix;
  }

  void AddWeightGradient() {
    const Slot matrix = Taps() == 1 ? Slot::Output(0) : AddMatrix();
    const WindowAxis rows = SourceWindows(rows_);
    const WindowAxis columns = SourceWindows(columns_);
    // A part is a kernel row, or a tap. The blocks, which results depend on, are the same for any number of threads.
    const int64_t row = columns_.kernel * in_ > kMaxColumns ? 1 : columns_.kernel;
    const int64_t block =
        WindowParts(in_, rows, columns, 1, row).BlockWindows(images_ * rows.positions * columns.positions);
    const int64_t part = threads_ > 1 && in_ >= kMinChannelsOfTap ? 1 : row;
    pipeline_->Add(std::make_unique<WindowWeightGradient>(WindowParts(in_, rows, columns, 1, part), images_, block,
                                                          out_, threads_),
                   {Slot::Input(0), Slot::Input(1)}, {matrix});
    if (Taps() == 1) return;
    std::vector<int64_t> taps(static_cast<size_t>(Taps()));
    std::iota(taps.begin(), taps.end(), 0);
    pipeline_->Add(MakeTapScatter({out_, in_, Taps(), std::move(taps), Taps() * in_, in_}, threads_), {matrix},
                   {Slot::Output(0)});
  }

  const ConvolutionProblem& problem_;
  int64_t images_;
  int64_t in_;   // channels of the source
  int64_t out_;  // channels of the destination
  ConvolutionAxis rows_;
  ConvolutionAxis columns_;
  int threads_;
  std::unique_ptr<Pipeline> pipeline_;
};

// The weights are copied, which takes as long as the sums of some hundred pixels; those of one tap are not.
bool Qualifies(const ConvolutionProblem& p) {
  if (p.dtype != DType::kFloat32 || p.groups != 1 || p.stride.size() > 2) return false;
  const DimVector& weights = p.weights.layout.sizes;
  const int64_t pixels = NumElements(p.destination.layout.sizes) / weights[0];
  const bool has_one_tap = NumElements(weights) == weights[0] * weights[1];
  if (AllAre(p.stride, 1)) {
    // Of the kernels without a stride, oneDNN is slow at those with dilations or of one column.
    const bool is_column = weights.back() == 1 && !has_one_tap;
    if (p.product != ConvolutionProduct::kBackwardWeights || (AllAre(p.dilation, 0) && !is_column)) return false;
  }
  switch (p.product) {
    case ConvolutionProduct::kForward:
      return false;
    case ConvolutionProduct::kBackwardData:
      return weights[1] >= kMinChannels && (has_one_tap ? pixels <= kMaxPixelsOfOneTap : pixels >= kMinPixels);
    case ConvolutionProduct::kBackwardWeights:
      if (weights[1] >= kMinChannels) return true;
      return weights[1] * weights.back() >= kMinChannels && pixels >= kMinPixelsOfFewChannels;
  }
  return false;
}

}  // namespace

std::unique_ptr<Kernel> MakeStridedGradient(const ConvolutionProblem& problem, int threads) {
  if (!HasAvx512Gemm() || !Qualifies(problem)) return nullptr;
  return Builder(problem, threads).Build();
}

}  // namespace cotan::cpu
