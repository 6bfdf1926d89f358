// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/pool/max_pool.h"

#include <algorithm>
#include <atomic>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/half.h"
#include "base/rounding.h"
#include "base/status_macros.h"
#include "kernels/cpu/pool/avx512_max_rows.h"
#include "kernels/cpu/pool/pool_rows.h"
#include "kernels/cpu/pool/pool_windows.h"
#include "kernels/cpu/simd/gemm_core.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/threading/parallel.h"

namespace cotan::cpu {
namespace {

// Computes one row (all w) of the output; `index` may be null.
template <typename S>
COTAN_SIMD_VERSIONS void MaxRow(const PoolGeometry& g, int64_t d, int64_t h, const S* input, S* output,
                                int32_t* index) {
  using T = PoolValue<S>;
  const int64_t side = IsWhole(g.axes[1], h) ? SquareSide(g) : 0;
  for (int64_t w = 0; w < g.axes[2].output; ++w) {
    S* to = output + w * g.axes[2].output_stride;
    int32_t* at = index == nullptr ? nullptr : index + w * g.axes[2].index_stride;
    int64_t lane = 0;
    // GCC 12 does not vectorize loops that convert bf16 and compare: its lanes are computed in smaller groups below.
    if constexpr (!std::is_same_v<S, BFloat16>) {
      if (side != 0 && IsWhole(g.axes[2], w)) {
        const WholeWindow window = WholeWindowAt(g.axes, d, h, w);
        for (; lane + kVectorSize<T> <= g.lanes.size; lane += kVectorSize<T>) {
          int32_t* const positions = at == nullptr ? nullptr : at + lane;
          if (side == 2) MaxOfWhole<T, 2>(window, input + lane, to + lane, positions);
          if (side == 3) MaxOfWhole<T, 3>(window, input + lane, to + lane, positions);
        }
      }
      for (; lane + kVectorSize<T> <= g.lanes.size; lane += kVectorSize<T>) {
        MaxOfLanes(g, d, h, w, input + lane, to + lane, at == nullptr ? nullptr : at + lane);
      }
    }
    ForEachFewLanes<T>(
        lane, g.lanes.size, [&](int64_t first, auto count) __attribute__((always_inline)) {
          int32_t* const positions = at == nullptr ? nullptr : at + first;
          if constexpr (count() > 1) {
            MaxOfFewLanes<S, count()>(g, d, h, w, input + first, to + first, positions);
          } else {
            MaxOfLane(g, d, h, w, input + first, to + first, positions);
          }
        });
  }
}

// Returns the function that computes the rows of `g`.
template <typename S>
MaxRowFunction<S> MaxRowOf(const PoolGeometry& g) {
  if constexpr (!std::is_same_v<S, double>) {
    const MaxRowFunction<S> avx512 = g.lanes.size > 1 ? Avx512MaxRow<S>() : nullptr;
    if (avx512 != nullptr) return avx512;
  }
  return MaxRow<S>;
}

// Adds the gradients of one output row to the input taps they came from. With `assigns` each tap is in one
// window only, and its gradient is assigned. A is S, or float for BFloat16.
template <typename S, typename A>
COTAN_SIMD_VERSIONS void MaxRowBackward(const PoolGeometry& g, bool assigns, int64_t d, int64_t h, const S* grad_output,
                                        const int32_t* index, A* grad_input) {
  using T = PoolValue<S>;
  const int64_t side = IsWhole(g.axes[1], h) ? SquareSide(g) : 0;
  for (int64_t w = 0; w < g.axes[2].output; ++w) {
    const int32_t* at = index + w * g.axes[2].index_stride;
    const S* from = grad_output + w * g.axes[2].output_stride;
    int64_t lane = 0;
    if (side != 0 && IsWhole(g.axes[2], w)) {
      const WholeWindow window = WholeWindowAt(g.axes, d, h, w);
      for (; lane + kVectorSize<T> <= g.lanes.size; lane += kVectorSize<T>) {
        if (side == 2) MaxOfWholeBackward<2>(window, assigns, from + lane, at + lane, grad_input + lane);
        if (side == 3) MaxOfWholeBackward<3>(window, assigns, from + lane, at + lane, grad_input + lane);
      }
    }
    for (; lane + kVectorSize<T> <= g.lanes.size; lane += kVectorSize<T>) {
      MaxOfFewLanesBackward<kVectorSize<T>>(g, assigns, d, h, w, from + lane, at + lane, grad_input + lane);
    }
    ForEachFewLanes<T>(
        lane, g.lanes.size, [&](int64_t first, auto count) __attribute__((always_inline)) {
          if constexpr (count() > 1) {
            MaxOfFewLanesBackward<count()>(g, assigns, d, h, w, from + first, at + first, grad_input + first);
          } else {
            ForEachTap(
                g.axes, d, h, w, [&](int64_t offset, int64_t flat) __attribute__((always_inline)) {
                  A& to = grad_input[offset + first];
                  const T gradient = at[first] == flat ? ToValue(from[first]) : T{0};
                  if constexpr (std::is_same_v<A, BFloat16>) {
                    to = ToElement<A>(gradient);
                  } else {
                    to = (assigns ? T{0} : to) + gradient;
                  }
                });
          }
        });
  }
}

template <typename S>
class MaxPool final : public Kernel {
 public:
  MaxPool(PoolGeometry geometry, bool has_index, int threads)
      : geometry_(std::move(geometry)), row_(MaxRowOf<S>(geometry_)), has_index_(has_index), threads_(threads) {}

  absl::Status Run(const KernelArgs& args) override {
    const auto* input = static_cast<const S*>(args.inputs[0]);
    auto* output = static_cast<S*>(args.outputs[0]);
    auto* index = has_index_ ? static_cast<int32_t*>(args.outputs[1]) : nullptr;
    ForEachOutputRow(
        geometry_, threads_, [](int) {},
        [&](int, int64_t d, int64_t h, const PoolOffsets& at) {
          row_(geometry_, d, h, input + at.input, output + at.output, has_index_ ? index + at.index : nullptr);
        });
    return absl::OkStatus();
  }

 private:
  PoolGeometry geometry_;
  MaxRowFunction<S> row_;
  bool has_index_;
  int threads_;
};

// Returns the elements of an input plane.
int64_t Plane(const PoolGeometry& g) { return g.axes[0].input * g.axes[1].input * g.axes[2].input; }

// Adds the gradients of one output row with a single lane to the taps of their indices. Returns false if an index is
// outside the plane.
template <typename S, typename A>
bool Scatter(const PoolGeometry& g, const S* grad_output, const int32_t* index, A* grad_input) {
  const auto& axes = g.axes;
  const int64_t plane = Plane(g);
  for (int64_t w = 0; w < axes[2].output; ++w) {
    const int64_t flat = index[w * axes[2].index_stride];
    if (flat < 0 || flat >= plane) return false;
    const int64_t id = flat / (axes[1].input * axes[2].input);
    const int64_t ih = flat / axes[2].input % axes[1].input;
    const int64_t iw = flat % axes[2].input;
    grad_input[id * axes[0].input_stride + ih * axes[1].input_stride + iw * axes[2].input_stride] +=
        ToValue(grad_output[w * axes[2].output_stride]);
  }
  return true;
}

absl::Status ForeignIndex(const PoolGeometry& g) {
  return absl::InvalidArgumentError(absl::StrCat("max_pool_backward: an index is outside its plane of ", Plane(g),
                                                 " elements; the indices must come from max_pool"));
}

// Returns true if each input element has one window at most, whose gradient is assigned to it.
bool AssignsGradients(const PoolGeometry& g) { return g.lanes.size > 1 && g.WindowsAreDisjoint(); }

template <typename S>
class MaxPoolBackward final : public Kernel {
 public:
  // S may be BFloat16 if AssignsGradients().
  MaxPoolBackward(PoolGeometry geometry, std::unique_ptr<Kernel> zero, int threads)
      : geometry_(std::move(geometry)),
        assigns_(AssignsGradients(geometry_)),
        zero_(std::move(zero)),
        threads_(threads) {}

  absl::Status Run(const KernelArgs& args) override {
    const auto* grad_output = static_cast<const S*>(args.inputs[0]);
    const auto* index = static_cast<const int32_t*>(args.inputs[1]);
    auto* grad_input = static_cast<S*>(args.outputs[0]);
    if (!assigns_ || !geometry_.WindowsTile()) COTAN_RETURN_IF_ERROR(zero_->Run(args));
    std::atomic<int64_t> foreign{0};
    ForEachOutputRowByOuter(geometry_, threads_, [&](int64_t d, int64_t h, const PoolOffsets& at) {
      if (geometry_.lanes.size > 1) {
        MaxRowBackward(geometry_, assigns_, d, h, grad_output + at.output, index + at.index, grad_input + at.input);
        return;
      }
      if constexpr (!std::is_same_v<S, BFloat16>) {
        const bool inside = Scatter(geometry_, grad_output + at.output, index + at.index, grad_input + at.input);
        if (!inside) foreign.store(1, std::memory_order_relaxed);
      }
    });
    return foreign.load() == 0 ? absl::OkStatus() : ForeignIndex(geometry_);
  }

 private:
  PoolGeometry geometry_;
  bool assigns_;
  std::unique_ptr<Kernel> zero_;  // clears the gradient
  int threads_;
};

// Rounds `positions` groups of `lanes` sums to bf16; `stride` is from group to group of the result.
COTAN_SIMD_VERSIONS void RoundRow(const float* from, int64_t positions, int64_t lanes, int64_t stride, BFloat16* to) {
  if (stride == lanes) {
    lanes *= positions;
    positions = 1;
  }
  for (int64_t i = 0; i < positions; ++i, from += lanes, to += stride) {
    for (int64_t lane = 0; lane < lanes; ++lane) to[lane].bits = FloatToBFloat16(from[lane]);
  }
}

// The backward in bf16 of windows that overlap: the gradients of a plane, with its lanes, are added in f32.
class SummedMaxPoolBackward final : public Kernel {
 public:
  SummedMaxPoolBackward(PoolGeometry geometry, int threads)
      : geometry_(std::move(geometry)), sums_(geometry_), threads_(threads) {
    int64_t stride = sums_.lanes.size;
    for (size_t d = 3; d-- > 0;) {
      sums_.axes[d].input_stride = stride;
      stride *= sums_.axes[d].input;
    }
    elements_ = stride;
    scratch_bytes_ = ScratchElements() * static_cast<size_t>(threads) * sizeof(float);
  }

  absl::Status Run(const KernelArgs& args) override {
    const auto* grad_output = static_cast<const BFloat16*>(args.inputs[0]);
    const auto* index = static_cast<const int32_t*>(args.inputs[1]);
    auto* grad_input = static_cast<BFloat16*>(args.outputs[0]);
    std::atomic<int64_t> foreign{0};
    const int64_t outer = geometry_.OuterCount();
    const int64_t grain = PoolGrain(geometry_.Work() / static_cast<double>(outer));
    ParallelForWorker(threads_, outer, grain, [&](int worker, int64_t begin, int64_t end) {
      float* const sums = static_cast<float*>(args.scratch) + ScratchElements() * static_cast<size_t>(worker);
      for (int64_t i = begin; i < end; ++i) {
        const PoolOffsets at = geometry_.OuterOffsets(i);
        if (!Sum(grad_output + at.output, index + at.index, sums)) foreign.store(1, std::memory_order_relaxed);
        Round(sums, grad_input + at.input);
      }
    });
    return foreign.load() == 0 ? absl::OkStatus() : ForeignIndex(geometry_);
  }

 private:
  // Whole cache lines, so that threads share none.
  size_t ScratchElements() const { return static_cast<size_t>(RoundUp(elements_, kVectorSize<float>)); }

  // Returns false if an index is outside the plane.
  bool Sum(const BFloat16* grad_output, const int32_t* index, float* sums) const {
    std::fill_n(sums, elements_, 0.0f);
    bool inside = true;
    for (int64_t d = 0; d < sums_.axes[0].output; ++d) {
      for (int64_t h = 0; h < sums_.axes[1].output; ++h) {
        const PoolOffsets at = RowOffsets(sums_, {}, d, h);
        if (sums_.lanes.size > 1) {
          MaxRowBackward(sums_, /*assigns=*/false, d, h, grad_output + at.output, index + at.index, sums);
        } else {
          inside = Scatter(sums_, grad_output + at.output, index + at.index, sums) && inside;
        }
      }
    }
    return inside;
  }

  void Round(const float* sums, BFloat16* grad_input) const {
    const auto& axes = geometry_.axes;
    const int64_t row = axes[2].input * sums_.lanes.size;
    for (int64_t d = 0; d < axes[0].input; ++d) {
      for (int64_t h = 0; h < axes[1].input; ++h, sums += row) {
        RoundRow(sums, axes[2].input, sums_.lanes.size, axes[2].input_stride,
                 grad_input + d * axes[0].input_stride + h * axes[1].input_stride);
      }
    }
  }

  PoolGeometry geometry_;
  PoolGeometry sums_;  // of dense sums in place of the result
  int64_t elements_;   // of the sums
  int threads_;
};

}  // namespace

template <typename S>
std::unique_ptr<Kernel> MakeMaxPoolKernel(PoolGeometry geometry, bool has_index, int threads) {
  return std::make_unique<MaxPool<S>>(std::move(geometry), has_index, threads);
}

template <typename S>
std::unique_ptr<Kernel> MakeMaxPoolBackwardKernel(PoolGeometry geometry, std::unique_ptr<Kernel> zero, int threads) {
  if constexpr (std::is_same_v<S, BFloat16>) {
    const bool sums = geometry.OutputCount() != 0 && !AssignsGradients(geometry);
    if (sums) return std::make_unique<SummedMaxPoolBackward>(std::move(geometry), threads);
  }
  return std::make_unique<MaxPoolBackward<S>>(std::move(geometry), std::move(zero), threads);
}

template std::unique_ptr<Kernel> MakeMaxPoolKernel<float>(PoolGeometry geometry, bool has_index, int threads);
template std::unique_ptr<Kernel> MakeMaxPoolKernel<double>(PoolGeometry geometry, bool has_index, int threads);
template std::unique_ptr<Kernel> MakeMaxPoolKernel<BFloat16>(PoolGeometry geometry, bool has_index, int threads);
template std::unique_ptr<Kernel> MakeMaxPoolBackwardKernel<float>(PoolGeometry geometry, std::unique_ptr<Kernel> zero,
                                                                  int threads);
template std::unique_ptr<Kernel> MakeMaxPoolBackwardKernel<double>(PoolGeometry geometry, std::unique_ptr<Kernel> zero,
                                                                   int threads);
template std::unique_ptr<Kernel> MakeMaxPoolBackwardKernel<BFloat16>(PoolGeometry geometry,
                                                                     std::unique_ptr<Kernel> zero, int threads);

}  // namespace cotan::cpu
