// SPDX-License-Identifier: Apache-2.0

// Cases of special functions whose arguments cannot be guessed from the schema, or that change their
// formula outside [-3, 3].
#include <ATen/ATen.h>

#include "testing/ops/op_case_groups.h"

namespace cotan::testing {
namespace {

// Returns evenly spaced elements from `low` to `high`.
Arg Range(double low, double high) {
  return [=](at::ScalarType dtype) { return at::linspace(low, high, 401, at::kDouble).to(dtype); };
}

// Returns f32, the only dtype that LibTorch accepts here.
Arg Scales(int64_t count) {
  return [=](at::ScalarType) { return at::linspace(0.1, 0.4, count, at::kFloat); };
}

Arg ZeroPoints(int64_t count) {
  return [=](at::ScalarType) { return at::remainder(at::arange(count, at::kInt), 3); };
}

void AddRange(std::vector<OpCase>& cases, std::vector<const char*> ops, double low, double high) {
  for (const char* op : ops) cases.push_back({std::string(op) + ".default", {Range(low, high)}});
}

}  // namespace

std::vector<OpCase> SpecialCases() {
  std::vector<OpCase> cases = {
      {"fake_quantize_per_channel_affine_cachemask.default", {T({3, 4}), Scales(4), ZeroPoints(4), V(1), V(-3), V(3)}},
      {"fake_quantize_per_tensor_affine_cachemask.default", {T({3, 40}), V(0.01), V(5), V(-40), V(60)}},
      {"_fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default",
       {T({3, 40}), V(at::full({1}, 0.01F)), V(at::full({1}, 5, at::kInt)), Longs({1}), V(-40), V(60)}},
      {"_fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default",
       {T({3, 40}), V(at::full({1}, 0.01F)), V(at::full({1}, 5, at::kInt)), Longs({0}), V(-40), V(60)}},
      {"mvlgamma.default", {Range(2.1, 9), V(3)}},
      // Omits order 1, where LibTorch is accurate to half the digits of f64 (special_functions_test).
      {"polygamma.default", {V(2), Range(0.1, 30)}},
      {"polygamma.default", {V(3), Range(0.5, 30)}},
      {"polygamma.default", {V(5), Range(0.5, 3)}},
      {"special_ndtri.default", {Range(0.001, 0.999)}},
      {"special_ndtri.default", {Range(0, 1e-6)}},
      {"special_zeta.default", {Range(1.01, 20), Range(0.1, 30)}},
      {"special_zeta.other_scalar", {Range(1.5, 4), Num(2.5)}},
  };
  AddRange(cases, {"i0", "special_i1"}, -9, 9);
  AddRange(cases, {"i0", "special_i1"}, -40, 40);
  AddRange(cases, {"special_i0e", "special_i1e", "special_spherical_bessel_j0"}, -30, 30);
  AddRange(cases, {"special_erfcx"}, -3, 30);
  AddRange(cases, {"special_log_ndtr"}, -30, 5);
  // Omits the ranges in between, where LibTorch is accurate to half the digits of f64 (special_functions_test).
  const std::vector<const char*> oscillating = {"special_bessel_j0", "special_bessel_j1", "special_bessel_y0",
                                                "special_bessel_y1"};
  AddRange(cases, oscillating, 0.1, 1);
  AddRange(cases, oscillating, 29, 40);
  AddRange(cases,
           {"special_modified_bessel_k0", "special_modified_bessel_k1", "special_scaled_modified_bessel_k0",
            "special_scaled_modified_bessel_k1"},
           0.3, 30);
  return cases;
}

}  // namespace cotan::testing
