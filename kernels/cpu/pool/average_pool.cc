// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/pool/average_pool.h"

#include <cstring>
#include <type_traits>
#include <utility>

#include "base/status_macros.h"
#include "kernels/cpu/pool/average_rows.h"
#include "kernels/cpu/pool/pool_rows.h"
#include "kernels/cpu/pool/pool_windows.h"
#include "kernels/cpu/simd/gemm_core.h"
#include "kernels/cpu/simd/simd.h"

namespace cotan::cpu {
namespace {

// Vectors whose sums are in registers while the taps of a window are visited.
constexpr int kBlockVectors = 4;

// Calls fn(first lane, std::integral_constant of a count, and of a number of vectors of as many lanes) for all lanes.
template <typename T, typename Fn>
[[gnu::always_inline]] inline void ForEachLaneGroup(int64_t lanes, Fn fn) {
  constexpr int64_t kLanes = kVectorSize<T>;
  int64_t lane = 0;
  for (; lane + kBlockVectors * kLanes <= lanes; lane += kBlockVectors * kLanes) {
    fn(lane, std::integral_constant<int64_t, kLanes>(), std::integral_constant<int, kBlockVectors>());
  }
  for (; lane + kLanes <= lanes; lane += kLanes) {
    fn(lane, std::integral_constant<int64_t, kLanes>(), std::integral_constant<int, 1>());
  }
  ForEachFewLanes<T>(
      lane, lanes, [&](int64_t first, auto count) __attribute__((always_inline)) {
        fn(first, count, std::integral_constant<int, 1>());
      });
}

template <typename T>
COTAN_SIMD_VERSIONS void AverageRow(const PoolGeometry& g, const AverageDivisor& divisor, int64_t d, int64_t h,
                                    const T* input, T* output) {
  for (int64_t w = 0; w < g.axes[2].output; ++w) {
    const T size = static_cast<T>(divisor.Of(g.axes, d, h, w));
    T* const to = output + w * g.axes[2].output_stride;
    ForEachLaneGroup<T>(
        g.lanes.size, [&](int64_t lane, auto count, auto vectors) __attribute__((always_inline)) {
          using Values = typename LaneVectors<T, count()>::Values;
          constexpr int kVectors = vectors();
          Values sum[kVectors] = {};
          ForEachTap(
              g.axes, d, h, w, [&](int64_t offset, int64_t) __attribute__((always_inline)) {
                const T* const from = input + offset + lane;
#pragma GCC unroll 4
                for (int v = 0; v < kVectors; ++v) {
                  Values value;
                  std::memcpy(&value, from + v * count(), sizeof(value));
                  sum[v] += value;
                }
              });
#pragma GCC unroll 4
          for (int v = 0; v < kVectors; ++v) {
            sum[v] /= size;
            std::memcpy(to + lane + v * count(), &sum[v], sizeof(sum[v]));
          }
        });
  }
}

template <typename T>
COTAN_SIMD_VERSIONS void AverageRowBackward(const PoolGeometry& g, const AverageDivisor& divisor, int64_t d, int64_t h,
                                            const T* grad_output, T* grad_input) {
  for (int64_t w = 0; w < g.axes[2].output; ++w) {
    const T scale = T{1} / static_cast<T>(divisor.Of(g.axes, d, h, w));
    const T* const from = grad_output + w * g.axes[2].output_stride;
    ForEachLaneGroup<T>(
        g.lanes.size, [&](int64_t lane, auto count, auto vectors) __attribute__((always_inline)) {
          using Values = typename LaneVectors<T, count()>::Values;
          constexpr int kVectors = vectors();
          Values gradient[kVectors];
#pragma GCC unroll 4
          for (int v = 0; v < kVectors; ++v) {
            std::memcpy(&gradient[v], from + lane + v * count(), sizeof(gradient[v]));
            gradient[v] *= scale;
          }
          ForEachTap(
              g.axes, d, h, w, [&](int64_t offset, int64_t) __attribute__((always_inline)) {
                T* const to = grad_input + offset + lane;
#pragma GCC unroll 4
                for (int v = 0; v < kVectors; ++v) {
                  Values sum;
                  std::memcpy(&sum, to + v * count(), sizeof(sum));
                  sum += gradient[v];
                  std::memcpy(to + v * count(), &sum, sizeof(sum));
                }
              });
        });
  }
}

template <typename T>
class Average final : public Kernel {
 public:
  Average(PoolGeometry geometry, AverageDivisor divisor, int threads)
      : geometry_(std::move(geometry)), divisor_(divisor), threads_(threads) {}

  absl::Status Run(const KernelArgs& args) override {
    const auto* input = static_cast<const T*>(args.inputs[0]);
    auto* output = static_cast<T*>(args.outputs[0]);
    ForEachOutputRow(
        geometry_, threads_, [](int) {},
        [&](int, int64_t d, int64_t h, const PoolOffsets& at) {
          AverageRow(geometry_, divisor_, d, h, input + at.input, output + at.output);
        });
    return absl::OkStatus();
  }

 private:
  PoolGeometry geometry_;
  AverageDivisor divisor_;
  int threads_;
};

template <typename T>
class AverageBackward final : public Kernel {
 public:
  AverageBackward(PoolGeometry geometry, AverageDivisor divisor, std::unique_ptr<Kernel> zero, int threads)
      : geometry_(std::move(geometry)), divisor_(divisor), zero_(std::move(zero)), threads_(threads) {}

  absl::Status Run(const KernelArgs& args) override {
    const auto* grad_output = static_cast<const T*>(args.inputs[0]);
    auto* grad_input = static_cast<T*>(args.outputs[0]);
    COTAN_RETURN_IF_ERROR(zero_->Run(args));
    ForEachOutputRowByOuter(geometry_, threads_, [&](int64_t d, int64_t h, const PoolOffsets& at) {
      AverageRowBackward(geometry_, divisor_, d, h, grad_output + at.output, grad_input + at.input);
    });
    return absl::OkStatus();
  }

 private:
  PoolGeometry geometry_;
  AverageDivisor divisor_;
  std::unique_ptr<Kernel> zero_;
  int threads_;
};

// A pool by AverageRows, forward or backward.
template <typename T>
class AverageOfRows final : public Kernel {
 public:
  AverageOfRows(PoolGeometry geometry, const AverageDivisor& divisor, bool is_backward, int threads)
      : geometry_(std::move(geometry)), rows_(geometry_, divisor), is_backward_(is_backward), threads_(threads) {
    scratch_bytes_ = static_cast<size_t>(rows_.ScratchElements() * threads) * sizeof(T);
  }

  absl::Status Run(const KernelArgs& args) override {
    const auto* from = static_cast<const T*>(args.inputs[0]);
    auto* to = static_cast<T*>(args.outputs[0]);
    const auto scratch = [&](int worker) { return static_cast<T*>(args.scratch) + rows_.ScratchElements() * worker; };
    if (!is_backward_) {
      ForEachOutputRow(
          geometry_, threads_, [&](int worker) { rows_.BeginForward(scratch(worker)); },
          [&](int worker, int64_t d, int64_t h, const PoolOffsets& at) {
            rows_.Forward(d, h, from + at.input, scratch(worker), to + at.output);
          });
      return absl::OkStatus();
    }
    const int64_t outer = geometry_.OuterCount();
    const int64_t grain = PoolGrain(geometry_.Work() / static_cast<double>(outer));
    ParallelForWorker(threads_, outer, grain, [&](int worker, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const PoolOffsets at = geometry_.OuterOffsets(i);
        rows_.Backward(from + at.output, scratch(worker), to + at.input);
      }
    });
    return absl::OkStatus();
  }

 private:
  PoolGeometry geometry_;
  AverageRows<T> rows_;  // of geometry_
  bool is_backward_;
  int threads_;
};

}  // namespace

template <typename T>
std::unique_ptr<Kernel> MakeAverageKernel(PoolGeometry geometry, const AverageDivisor& divisor, int threads) {
  if (AverageRows<T>::Takes(geometry)) {
    return std::make_unique<AverageOfRows<T>>(std::move(geometry), divisor, /*is_backward=*/false, threads);
  }
  return std::make_unique<Average<T>>(std::move(geometry), divisor, threads);
}

template <typename T>
std::unique_ptr<Kernel> MakeAverageBackwardKernel(PoolGeometry geometry, const AverageDivisor& divisor,
                                                  std::unique_ptr<Kernel> zero, int threads) {
  // An empty output leaves the gradient zero.
  if (geometry.OutputCount() != 0 && AverageRows<T>::Takes(geometry)) {
    return std::make_unique<AverageOfRows<T>>(std::move(geometry), divisor, /*is_backward=*/true, threads);
  }
  return std::make_unique<AverageBackward<T>>(std::move(geometry), divisor, std::move(zero), threads);
}

template std::unique_ptr<Kernel> MakeAverageKernel<float>(PoolGeometry geometry, const AverageDivisor& divisor,
                                                          int threads);
template std::unique_ptr<Kernel> MakeAverageKernel<double>(PoolGeometry geometry, const AverageDivisor& divisor,
                                                           int threads);
template std::unique_ptr<Kernel> MakeAverageBackwardKernel<float>(PoolGeometry geometry, const AverageDivisor& divisor,
                                                                  std::unique_ptr<Kernel> zero, int threads);
template std::unique_ptr<Kernel> MakeAverageBackwardKernel<double>(PoolGeometry geometry, const AverageDivisor& divisor,
                                                                   std::unique_ptr<Kernel> zero, int threads);

}  // namespace cotan::cpu
