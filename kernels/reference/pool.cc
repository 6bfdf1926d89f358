// SPDX-License-Identifier: Apache-2.0

#include <limits>

#include "absl/strings/str_cat.h"
#include "kernels/reference/function_kernel.h"
#include "kernels/reference/ops.h"

namespace cotan::reference {
namespace {

using serialization::Op;
using serialization::Pool;

int64_t Dilation(const Pool& op, int dim) { return op.dilation_size() == 0 ? 1 : op.dilation(dim); }

// Calls fn(index) for each element of the input in the window of the output element `at`, row-major.
template <typename Fn>
void ForEachInWindow(const Pool& op, absl::Span<const int64_t> input, absl::Span<const int64_t> at, Fn fn) {
  const DimVector kernel(op.kernel().begin(), op.kernel().end());
  const size_t first = at.size() - kernel.size();
  DimVector index(at.begin(), at.end());
  ForEachIndex(kernel, [&](absl::Span<const int64_t> k) {
    for (size_t d = 0; d < k.size(); ++d) {
      const int dim = static_cast<int>(d);
      index[first + d] = at[first + d] * op.stride(dim) - op.padding(dim) + k[d] * Dilation(op, dim);
      if (index[first + d] < 0 || index[first + d] >= input[first + d]) return;
    }
    fn(absl::MakeConstSpan(index));
  });
}

// Returns the position in the flattened spatial dimensions.
int64_t Flat(const Pool& op, absl::Span<const int64_t> sizes, absl::Span<const int64_t> index) {
  int64_t flat = 0;
  for (size_t d = index.size() - static_cast<size_t>(op.kernel_size()); d < index.size(); ++d) {
    flat = flat * sizes[d] + index[d];
  }
  return flat;
}

absl::Status RunMax(const Op& op, const Tensors& in, const Tensors& out) {
  const Pool& pool = op.max_pool();
  const bool is_float = in[0].is_float();
  ForEachIndex(out[0].sizes(), [&](absl::Span<const int64_t> at) {
    Scalar best = {-std::numeric_limits<double>::infinity(), std::numeric_limits<int64_t>::min()};
    int64_t position = -1;
    ForEachInWindow(pool, in[0].sizes(), at, [&](absl::Span<const int64_t> index) {
      const Scalar value = in[0].Get(index);
      const bool better = is_float ? value.f > best.f || value.f != value.f : value.i > best.i;
      if (position >= 0 && !better) return;
      best = value;
      position = Flat(pool, in[0].sizes(), index);
    });
    out[0].Set(at, best);
    if (out.size() > 1) out[1].Set(at, {0, std::max<int64_t>(position, 0)});
  });
  return absl::OkStatus();
}

absl::Status RunMaxBackward(const Op& op, const Tensors& in, const Tensors& out) {
  const auto spatial = static_cast<size_t>(op.max_pool_backward().kernel_size());
  const DimVector& sizes = out[0].sizes();
  const DimVector plane(sizes.end() - static_cast<int64_t>(spatial), sizes.end());
  Accumulator result(out[0]);
  absl::Status status;
  ForEachIndex(in[0].sizes(), [&](absl::Span<const int64_t> at) {
    int64_t flat = in[1].Get(at).i;
    if (flat < 0 || flat >= NumElements(plane)) {
      status = absl::InvalidArgumentError(
          absl::StrCat("max_pool_backward: index ", flat, " in a plane of ", NumElements(plane), " elements"));
      return;
    }
    DimVector index(at.begin(), at.end());
    for (size_t d = index.size(); d-- > index.size() - spatial;) {
      index[d] = flat % sizes[d];
      flat /= sizes[d];
    }
    result.Add(index, in[0].Get(at));
  });
  result.Write();
  return status;
}

// Returns the divisor of the sum over the window of `at`.
double Divisor(const Pool& op, absl::Span<const int64_t> input, absl::Span<const int64_t> at) {
  if (op.divisor_override() > 0) return static_cast<double>(op.divisor_override());
  double divisor = 1;
  const size_t first = at.size() - static_cast<size_t>(op.kernel_size());
  for (int d = 0; d < op.kernel_size(); ++d) {
    const size_t axis = first + static_cast<size_t>(d);
    const int64_t begin = at[axis] * op.stride(d) - op.padding(d);
    // Windows do not extend beyond the padding.
    const int64_t end = std::min(begin + op.kernel(d), input[axis] + op.padding(d));
    const int64_t inside = std::min(end, input[axis]) - std::max<int64_t>(begin, 0);
    divisor *= static_cast<double>(op.count_include_pad() ? end - begin : inside);
  }
  return divisor;
}

absl::Status RunAvg(const Op& op, const Tensors& in, const Tensors& out) {
  const Pool& pool = op.avg_pool();
  ForEachIndex(out[0].sizes(), [&](absl::Span<const int64_t> at) {
    double sum = 0;
    ForEachInWindow(pool, in[0].sizes(), at, [&](absl::Span<const int64_t> index) { sum += in[0].GetFloat(index); });
    out[0].SetFloat(at, sum / Divisor(pool, in[0].sizes(), at));
  });
  return absl::OkStatus();
}

absl::Status RunAvgBackward(const Op& op, const Tensors& in, const Tensors& out) {
  const Pool& pool = op.avg_pool_backward();
  Accumulator result(out[0]);
  ForEachIndex(in[0].sizes(), [&](absl::Span<const int64_t> at) {
    const double share = in[0].GetFloat(at) / Divisor(pool, out[0].sizes(), at);
    ForEachInWindow(pool, out[0].sizes(), at, [&](absl::Span<const int64_t> index) { result.AddFloat(index, share); });
  });
  result.Write();
  return absl::OkStatus();
}

}  // namespace

KernelOr MakeMaxPool(const KernelRequest& request) { return MakeFunctionKernel(request, RunMax); }
KernelOr MakeMaxPoolBackward(const KernelRequest& request) { return MakeFunctionKernel(request, RunMaxBackward); }
KernelOr MakeAvgPool(const KernelRequest& request) { return MakeFunctionKernel(request, RunAvg); }
KernelOr MakeAvgPoolBackward(const KernelRequest& request) { return MakeFunctionKernel(request, RunAvgBackward); }

}  // namespace cotan::reference
