// SPDX-License-Identifier: Apache-2.0

#include "kernels/reference/function_kernel.h"
#include "kernels/reference/ops.h"

namespace cotan::reference {
namespace {

using serialization::Convolution;
using serialization::Op;

// Calls fn(input index, weight index, output index) for every product that a
// convolution sums. A transposed convolution is the gradient of one that runs
// from its output to its input.
template <typename Fn>
void ForEachProduct(const Convolution& op, absl::Span<const int64_t> input, absl::Span<const int64_t> weight,
                    absl::Span<const int64_t> output, Fn fn) {
  const absl::Span<const int64_t> wide = op.transposed() ? output : input;    // what windows slide over
  const absl::Span<const int64_t> narrow = op.transposed() ? input : output;  // one element per window
  const int64_t groups = op.groups();
  DimVector wide_index(wide.size());
  DimVector narrow_index(narrow.size());
  ForEachIndex(weight, [&](absl::Span<const int64_t> w) {
    // weight: [channels of narrow, channels of wide / groups, kernel...]
    const int64_t group = w[0] / (weight[0] / groups);
    DimVector windows(narrow.begin() + 2, narrow.end());
    windows.insert(windows.begin(), narrow[0]);
    ForEachIndex(windows, [&](absl::Span<const int64_t> at) {
      wide_index[0] = narrow_index[0] = at[0];
      narrow_index[1] = w[0];
      wide_index[1] = group * weight[1] + w[1];
      for (size_t d = 2; d < wide.size(); ++d) {
        const int dim = static_cast<int>(d) - 2;
        narrow_index[d] = at[d - 1];
        wide_index[d] = at[d - 1] * op.stride(dim) - op.padding(dim) + w[d] * op.dilation(dim);
        if (wide_index[d] < 0 || wide_index[d] >= wide[d]) return;
      }
      op.transposed() ? fn(narrow_index, w, wide_index) : fn(wide_index, w, narrow_index);
    });
  });
}

absl::Status RunForward(const Op& op, const Tensors& in, const Tensors& out) {
  Accumulator result(out[0]);
  ForEachProduct(op.convolution(), in[0].sizes(), in[1].sizes(), out[0].sizes(),
                 [&](const DimVector& x, absl::Span<const int64_t> w, const DimVector& y) {
                   result.AddFloat(y, in[0].GetFloat(x) * in[1].GetFloat(w));
                 });
  if (in.size() > 2) {
    ForEachIndex(out[0].sizes(), [&](absl::Span<const int64_t> y) { result.AddFloat(y, in[2].GetFloat({y[1]})); });
  }
  result.Write();
  return absl::OkStatus();
}

absl::Status RunBackwardInput(const Op& op, const Tensors& in, const Tensors& out) {
  Accumulator result(out[0]);
  ForEachProduct(op.convolution_backward_input().forward(), out[0].sizes(), in[1].sizes(), in[0].sizes(),
                 [&](const DimVector& x, absl::Span<const int64_t> w, const DimVector& y) {
                   result.AddFloat(x, in[0].GetFloat(y) * in[1].GetFloat(w));
                 });
  result.Write();
  return absl::OkStatus();
}

absl::Status RunBackwardWeight(const Op& op, const Tensors& in, const Tensors& out) {
  Accumulator result(out[0]);
  ForEachProduct(op.convolution_backward_weight().forward(), in[1].sizes(), out[0].sizes(), in[0].sizes(),
                 [&](const DimVector& x, absl::Span<const int64_t> w, const DimVector& y) {
                   result.AddFloat(w, in[0].GetFloat(y) * in[1].GetFloat(x));
                 });
  result.Write();
  return absl::OkStatus();
}

}  // namespace

KernelOr MakeConvolution(const KernelRequest& request) { return MakeFunctionKernel(request, RunForward); }
KernelOr MakeConvolutionBackwardInput(const KernelRequest& request) {
  return MakeFunctionKernel(request, RunBackwardInput);
}
KernelOr MakeConvolutionBackwardWeight(const KernelRequest& request) {
  return MakeFunctionKernel(request, RunBackwardWeight);
}

}  // namespace cotan::reference
