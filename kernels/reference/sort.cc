// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/reference/function_kernel.h"
#include "kernels/reference/ops.h"

namespace cotan::reference {
namespace {

using serialization::Op;

// NaN is greater than all other values, as in PyTorch.
bool IsLess(bool is_float, Scalar a, Scalar b) {
  if (!is_float) return a.i < b.i;
  if (std::isnan(a.f) || std::isnan(b.f)) return !std::isnan(a.f) && std::isnan(b.f);
  return a.f < b.f;
}

absl::Status RunSort(const Op& op, const Tensors& in, const Tensors& out) {
  const auto dim = static_cast<size_t>(op.sort().dim());
  const bool is_float = in[0].is_float();
  DimVector lines = out[0].sizes();
  lines[dim] = std::min<int64_t>(lines[dim], 1);
  ForEachIndex(lines, [&](absl::Span<const int64_t> line) {
    DimVector at(line.begin(), line.end());
    std::vector<Scalar> values;
    for (int64_t i = 0; i < in[0].sizes()[dim]; ++i) {
      at[dim] = i;
      values.push_back(in[0].Get(at));
    }
    std::vector<int64_t> order(values.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      const Scalar x = values[static_cast<size_t>(a)], y = values[static_cast<size_t>(b)];
      return op.sort().descending() ? IsLess(is_float, y, x) : IsLess(is_float, x, y);
    });
    for (int64_t i = 0; i < out[0].sizes()[dim]; ++i) {
      at[dim] = i;
      const int64_t from = order[static_cast<size_t>(i)];
      out[0].Set(at, values[static_cast<size_t>(from)]);
      out[1].Set(at, {0, from});
    }
  });
  return absl::OkStatus();
}

}  // namespace

KernelOr MakeSort(const KernelRequest& request) { return MakeFunctionKernel(request, RunSort); }

}  // namespace cotan::reference
