// SPDX-License-Identifier: Apache-2.0

// Cases of ops that sort. Cotan keeps the order of equal elements; LibTorch does so only for stable sorts,
// so the indices of equal elements are compared for those alone.
#include <ATen/ATen.h>

#include <limits>

#include "testing/ops/op_case_groups.h"

namespace cotan::testing {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Returns elements of which every third is NaN.
Arg WithNans(Sizes sizes) {
  return [sizes](at::ScalarType dtype) {
    const at::Tensor third = at::remainder(at::arange(at::empty(sizes).numel(), at::kLong), 3).view(sizes).eq(0);
    return (at::rand(sizes, at::kDouble) * 2 - 1).masked_fill(third, kNan).to(dtype);
  };
}

Arg Bits(Sizes sizes) { return Mask(sizes); }

// Returns elements with few distinct values.
Arg Repeated(Sizes sizes) {
  return [sizes](at::ScalarType dtype) { return at::randint(-3, 4, sizes, at::kLong).to(dtype); };
}

Arg Sliced(Sizes sizes) {
  return [sizes](at::ScalarType dtype) {
    Sizes twice = sizes;
    for (int64_t& size : twice) size *= 2;
    at::Tensor x = (at::rand(twice, at::kDouble) * 2 - 1).to(dtype);
    for (int64_t d = 0; d < x.dim(); ++d) x = x.slice(d, 1, twice[static_cast<size_t>(d)], 2);
    return x;
  };
}

}  // namespace

std::vector<OpCase> SortingCases() {
  return {
      {"sort.default", {T({3, 40}), V(1), V(false)}},
      {"sort.default", {T({5, 4}), V(0), V(true)}},
      {"sort.default", {T({}), V(0), V(true)}},
      {"sort.default", {T({3, 0}), V(1), V(true)}},
      {"sort.stable", {T({20000}), V(true), V(0), V(false)}},
      {"sort.default", {Transposed({6, 7}), V(1), V(false)}},
      {"sort.default", {Sliced({6, 7, 3}), V(1), V(true)}},
      {"sort.default", {ChannelsLast({2, 3, 4, 5}), V(1), V(true)}},
      {"sort.stable", {Index({3, 40}, 7), V(true), V(-1), V(true)}},
      {"sort.stable", {Repeated({3, 40}), V(true), V(-1), V(false)}},
      {"sort.stable", {WithNans({4, 9}), V(true), V(0), V(false)}},
      {"sort.stable", {WithNans({4, 9}), V(true), V(1), V(true)}},
      {"sort.stable", {Bits({5, 30}), V(true), V(1), V(true)}},
      {"topk.default", {T({3, 40}), V(5), V(-1), V(true), V(true)}},
      {"topk.default", {T({7, 3}), V(2), V(0), V(false), V(true)}},
      {"topk.default", {T({2, 30000}), V(7), V(1), V(true), V(true)}},
      {"topk.default", {T({3, 5}), V(0), V(1), V(true), V(true)}},
      {"topk.default", {Sliced({3, 5, 4}), V(3), V(1), V(true), V(true)}},
      {"kthvalue.default", {T({5, 7}), V(3), V(1), V(false)}},
      {"kthvalue.default", {T({5, 7}), V(5), V(0), V(true)}},
      {"median.default", {T({5, 7})}},
      {"median.dim", {T({5, 8}), V(1), V(true)}},
      {"median.dim", {WithNans({5, 2}), V(1), V(false)}},
      {"mode.default", {Repeated({5, 12}), V(1), V(false)}},
      {"mode.default", {Repeated({12, 5}), V(0), V(true)}},
      {"mode.default", {Bits({5, 11}), V(1), V(false)}},
      {"mode.default", {T({4, 1}), V(1), V(false)}},
      {"nanmedian.default", {T({5, 7})}},
      {"nanmedian.default", {WithNans({5, 7})}},
      {"nanmedian.dim", {WithNans({6, 8}), V(1), V(false)}},
      {"nanmedian.dim", {WithNans({6, 8}), V(0), V(true)}},
      {"nanmedian.dim", {Index({3, 1}, 9), V(1), V(true)}},
  };
}

}  // namespace cotan::testing
