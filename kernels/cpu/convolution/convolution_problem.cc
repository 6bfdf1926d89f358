// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/convolution/convolution_problem.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "kernels/api/op_check.h"
#include "kernels/cpu/threading/parallel.h"

namespace cotan::cpu {
namespace {

using serialization::Op;

ConvolutionProblem Describe(const serialization::Convolution& op, DType dtype, ConvolutionOperand input,
                            ConvolutionOperand weight, ConvolutionOperand output) {
  ConvolutionProblem problem;
  problem.dtype = dtype;
  problem.source = op.transposed() ? output : input;
  problem.weights = std::move(weight);
  problem.destination = op.transposed() ? input : output;
  problem.groups = op.groups();
  for (int d = 0; d < op.stride_size(); ++d) {
    const auto axis = static_cast<size_t>(d) + 2;
    const int64_t extent = op.dilation(d) * (problem.weights.layout.sizes[axis] - 1) + 1;
    const int64_t needed = (problem.destination.layout.sizes[axis] - 1) * op.stride(d) + extent;
    problem.stride.push_back(op.stride(d));
    problem.dilation.push_back(op.dilation(d) - 1);
    problem.padding_before.push_back(op.padding(d));
    problem.padding_after.push_back(needed - problem.source.layout.sizes[axis] - op.padding(d));
  }
  return problem;
}

// Adds input 0, one element per channel, to output 0, by rows: all positions of the last dimension with all channels.
template <typename T>
class BiasKernel final : public Kernel {
 public:
  BiasKernel(StridedLayout layout, int64_t bias_stride, int threads)
      : outer_(std::move(layout)), bias_stride_(bias_stride), threads_(threads) {
    channels_ = Take(1, channel_stride_);
    if (outer_.sizes.size() > 2) positions_ = Take(outer_.sizes.size() - 1, position_stride_);
  }

  absl::Status Run(const KernelArgs& args) override {
    const auto* bias = static_cast<const T*>(args.inputs[0]);
    auto* result = static_cast<T*>(args.outputs[0]);
    const int64_t grain = std::max<int64_t>(1, 16 * 1024 / std::max<int64_t>(1, channels_ * positions_));
    ParallelFor(threads_, NumElements(outer_.sizes), grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) AddToRow(bias, result + Offset(i));
    });
    return absl::OkStatus();
  }

 private:
  // Removes dimension `d` from the outer ones. Returns its size.
  int64_t Take(size_t d, int64_t& stride) {
    stride = outer_.strides[d];
    return std::exchange(outer_.sizes[d], 1);
  }

  void AddToRow(const T* bias, T* row) const {
    if (channel_stride_ == 1 && channels_ > 1) {
      for (int64_t i = 0; i < positions_; ++i) {
        T* const to = row + i * position_stride_;
        for (int64_t c = 0; c < channels_; ++c) to[c] += bias[c * bias_stride_];
      }
      return;
    }
    for (int64_t c = 0; c < channels_; ++c) {
      T* const to = row + c * channel_stride_;
      const T addend = bias[c * bias_stride_];
      for (int64_t i = 0; i < positions_; ++i) to[i * position_stride_] += addend;
    }
  }

  int64_t Offset(int64_t position) const {
    int64_t offset = 0;
    for (size_t d = outer_.sizes.size(); d-- > 0;) {
      if (outer_.sizes[d] == 1) continue;
      offset += position % outer_.sizes[d] * outer_.strides[d];
      position /= outer_.sizes[d];
    }
    return offset;
  }

  StridedLayout outer_;  // with one channel and one position
  int64_t bias_stride_;
  int64_t channels_;
  int64_t channel_stride_ = 1;
  int64_t positions_ = 1;  // of the last dimension
  int64_t position_stride_ = 1;
  int threads_;
};

}  // namespace

bool ConvolutionProblem::IsSumEmpty() const {
  return NumElements(source.layout.sizes) == 0 || NumElements(weights.layout.sizes) == 0 ||
         NumElements(destination.layout.sizes) == 0;
}

double ConvolutionProblem::Flops() const {
  const double per_output = 2.0 * static_cast<double>(NumElements(weights.layout.sizes)) /
                            static_cast<double>(std::max<int64_t>(1, weights.layout.sizes[0]));
  return per_output * static_cast<double>(NumElements(destination.layout.sizes));
}

absl::StatusOr<ConvolutionProblem> DescribeConvolution(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(CheckOp(request));
  const auto input = [&](size_t i) { return ConvolutionOperand{request.inputs[i].layout, Slot::Input(i)}; };
  const ConvolutionOperand output{request.outputs[0].layout, Slot::Output(0)};
  const DType dtype = request.outputs[0].dtype;
  if (request.op.kind_case() == Op::kConvolutionBackwardInput) {
    const serialization::Convolution& op = request.op.convolution_backward_input().forward();
    ConvolutionProblem problem = Describe(op, dtype, output, input(1), input(0));
    problem.product = op.transposed() ? ConvolutionProduct::kForward : ConvolutionProduct::kBackwardData;
    return problem;
  }
  if (request.op.kind_case() == Op::kConvolutionBackwardWeight) {
    const serialization::Convolution& op = request.op.convolution_backward_weight().forward();
    ConvolutionProblem problem = Describe(op, dtype, input(1), output, input(0));
    problem.product = ConvolutionProduct::kBackwardWeights;
    return problem;
  }
  const serialization::Convolution& op = request.op.convolution();
  ConvolutionProblem problem = Describe(op, dtype, input(0), input(1), output);
  problem.product = op.transposed() ? ConvolutionProduct::kBackwardData : ConvolutionProduct::kForward;
  if (request.inputs.size() == 3) problem.bias = input(2);
  return problem;
}

bool CropUnmetPixels(ConvolutionProblem& problem) {
  bool crops = false;
  for (size_t d = 0; d < problem.stride.size(); ++d) {
    int64_t& size = problem.source.layout.sizes[d + 2];
    int64_t& after = problem.padding_after[d];
    if (problem.stride[d] != 1 || after >= 0 || size + after <= 0) continue;
    size += std::exchange(after, 0);
    crops = true;
  }
  return crops;
}

bool AllAre(const DimVector& values, int64_t value) {
  return std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == value; });
}

StridedLayout OwnWeights(const ConvolutionProblem& problem) {
  const DimVector& sizes = problem.weights.layout.sizes;
  return {sizes, ContiguousStrides(sizes), 0};
}

std::unique_ptr<Kernel> MakeBiasKernel(DType dtype, StridedLayout layout, int64_t bias_stride, int threads) {
  if (dtype == DType::kFloat64) return std::make_unique<BiasKernel<double>>(std::move(layout), bias_stride, threads);
  return std::make_unique<BiasKernel<float>>(std::move(layout), bias_stride, threads);
}

}  // namespace cotan::cpu
