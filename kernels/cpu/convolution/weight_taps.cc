// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/convolution/weight_taps.h"

#include <algorithm>
#include <utility>

#include "kernels/cpu/threading/parallel.h"
#include "kernels/cpu/threading/tuning.h"

namespace cotan::cpu {
namespace {

// The weights of one output channel stay in cache while they are read or written once for each tap.
class TapCopy final : public Kernel {
 public:
  TapCopy(WeightTaps layout, bool gathers, int threads)
      : layout_(std::move(layout)),
        gathers_(gathers),
        threads_(threads),
        grain_(std::max<int64_t>(1, kElementsPerChunk / (layout_.in * layout_.num_taps))) {}

  absl::Status Run(const KernelArgs& args) override {
    ParallelFor(threads_, layout_.out, grain_, [&](int64_t begin, int64_t end) {
      for (int64_t out = begin; out < end; ++out) {
        const int64_t weights = out * layout_.in * layout_.num_taps;
        const int64_t matrix = out * layout_.out_stride;
        const auto* const from = static_cast<const float*>(args.inputs[0]) + (gathers_ ? weights : matrix);
        auto* const to = static_cast<float*>(args.outputs[0]) + (gathers_ ? matrix : weights);
        if (gathers_) {
          Gather(from, to);
        } else {
          Scatter(from, to);
        }
      }
    });
    return absl::OkStatus();
  }

 private:
  void Gather(const float* weights, float* matrix) const {
    for (const int64_t tap : layout_.taps) {
      for (int64_t i = 0; i < layout_.in; ++i) matrix[i] = weights[i * layout_.num_taps + tap];
      matrix += layout_.tap_stride;
    }
  }

  void Scatter(const float* matrix, float* weights) const {
    for (const int64_t tap : layout_.taps) {
      for (int64_t i = 0; i < layout_.in; ++i) weights[i * layout_.num_taps + tap] = matrix[i];
      matrix += layout_.tap_stride;
    }
  }

  const WeightTaps layout_;
  const bool gathers_;
  const int threads_;
  const int64_t grain_;  // output channels
};

}  // namespace

std::unique_ptr<Kernel> MakeTapGather(WeightTaps layout, int threads) {
  return std::make_unique<TapCopy>(std::move(layout), /*gathers=*/true, threads);
}

std::unique_ptr<Kernel> MakeTapScatter(WeightTaps layout, int threads) {
  return std::make_unique<TapCopy>(std::move(layout), /*gathers=*/false, threads);
}

}  // namespace cotan::cpu
