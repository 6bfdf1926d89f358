// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>

#include "kernels/reference/function_kernel.h"
#include "kernels/reference/ops.h"

namespace cotan::reference {
namespace {

using serialization::Op;
using serialization::Scan;

double LogAddExp(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return a + b;
  const double high = std::max(a, b);
  return std::isinf(high) ? high : high + std::log1p(std::exp(std::min(a, b) - high));
}

Scalar Accumulated(Scan::Function function, bool is_float, Scalar a, Scalar b) {
  if (function == Scan::LOGSUMEXP) return {LogAddExp(a.f, b.f), 0};
  if (is_float) return {function == Scan::SUM ? a.f + b.f : a.f * b.f, 0};
  const auto x = static_cast<uint64_t>(a.i), y = static_cast<uint64_t>(b.i);  // wraps around
  return {0, static_cast<int64_t>(function == Scan::SUM ? x + y : x * y)};
}

// Returns true if the later value `b` replaces `a`.
bool Replaces(bool max, bool is_float, Scalar a, Scalar b) {
  if (!is_float) return max ? b.i >= a.i : b.i <= a.i;
  if (std::isnan(a.f) || std::isnan(b.f)) return std::isnan(b.f);
  return max ? b.f >= a.f : b.f <= a.f;
}

absl::Status RunScan(const Op& op, const Tensors& in, const Tensors& out) {
  const Scan& scan = op.scan();
  const auto dim = static_cast<size_t>(scan.dim());
  const bool extreme = scan.function() == Scan::MAX || scan.function() == Scan::MIN;
  const int64_t length = in[0].sizes()[dim];
  DimVector lines = in[0].sizes();
  lines[dim] = std::min<int64_t>(length, 1);
  ForEachIndex(lines, [&](absl::Span<const int64_t> line) {
    DimVector at(line.begin(), line.end());
    Scalar result;
    int64_t where = 0;
    for (int64_t i = 0; i < length; ++i) {
      at[dim] = scan.reverse() ? length - 1 - i : i;
      const Scalar next = in[0].Get(at);
      if (i == 0) {
        result = next;
        where = at[dim];
      } else if (!extreme) {
        result = Accumulated(scan.function(), in[0].is_float(), result, next);
      } else if (Replaces(scan.function() == Scan::MAX, in[0].is_float(), result, next)) {
        result = next;
        where = at[dim];
      }
      out[0].Set(at, result);
      if (extreme) out[1].Set(at, {0, where});
    }
  });
  return absl::OkStatus();
}

}  // namespace

KernelOr MakeScan(const KernelRequest& request) { return MakeFunctionKernel(request, RunScan); }

}  // namespace cotan::reference
