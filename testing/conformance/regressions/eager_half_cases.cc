// SPDX-License-Identifier: Apache-2.0

// Ops of f16 and bf16 whose intermediate results are too large for a half, or lose digits in it.
#include <functional>
#include <tuple>
#include <utility>
#include <vector>

#include "testing/conformance/regressions/eager_cases.h"

namespace cotan::conformance {
namespace {

at::Tensor Halves(at::ArrayRef<double> values) { return at::tensor(values, at::kDouble).to(at::kHalf); }

// Returns a case of a thousand elements of 100 in f16.
ConfCase OfManyHundreds(const char* name, std::function<Tensors(Tensors)> f) {
  return Case(
      name,
      [] {
        return Tensors{at::full({10, 100}, 100, at::kHalf)};
      },
      std::move(f));
}

std::vector<ConfCase> ReductionCases() {
  return {
      OfManyHundreds("mean_of_large_halves",
                     [](Tensors in) -> Tensors {
                       return {in[0].mean(), in[0].mean(at::IntArrayRef({0, 1}), /*keepdim=*/true)};
                     }),
      OfManyHundreds("average_of_a_plane_of_large_halves",
                     [](Tensors in) -> Tensors {
                       return {at::adaptive_avg_pool2d(in[0].view({1, 1, 10, 100}), {1, 1})};
                     }),
      OfManyHundreds("mean_loss_of_large_halves",
                     [](Tensors in) -> Tensors {
                       const at::Tensor zeros = at::zeros_like(in[0]);
                       return {at::l1_loss(in[0], zeros), at::mse_loss(in[0], zeros)};
                     }),
      Case(
          "norm_of_large_halves",
          [] {
            return Tensors{Halves({300, -400})};
          },
          [](Tensors in) -> Tensors {
            return {at::linalg_vector_norm(in[0], 2), at::dist(in[0], at::zeros_like(in[0]))};
          }),
      Case(
          "variance_of_halves_of_similar_size",
          [] {
            return Tensors{at::tensor({100.0, 100.5, 101.0, 101.5}).to(at::kBFloat16)};
          },
          [](Tensors in) -> Tensors {
            const auto [variance, mean] = at::var_mean(in[0], at::IntArrayRef{0}, at::Scalar(1));
            return {variance, mean, at::std(in[0], at::IntArrayRef{0}, at::Scalar(0))};
          }),
  };
}

std::vector<ConfCase> PointwiseCases() {
  return {
      Case(
          "softplus_of_halves",
          [] {
            return Tensors{Halves({-3, 0, 5, 12, 15, 19, 25})};
          },
          [](Tensors in) -> Tensors { return {at::softplus(in[0])}; }),
      Case(
          "hard_activations_of_halves",
          [] {
            return Tensors{Halves({20000, -1, 2, 0.01})};
          },
          [](Tensors in) -> Tensors {
            return {at::hardswish(in[0]), at::hardsigmoid(in[0])};
          }),
      Case(
          "products_of_large_halves_are_added",
          [] {
            return Tensors{Halves({1, 2}), Halves({300, -300}), Halves({0.5, 0.25})};
          },
          [](Tensors in) -> Tensors {
            return {at::addcmul(in[0], in[1], in[1], 0.0009765625),
                    at::addcdiv(in[0], in[1] * 200, in[2], 0.0009765625)};
          }),
      Case(
          "interpolation_between_halves_far_apart",
          [] {
            return Tensors{Halves({-60000, 60000}), Halves({60000, -60000}), Halves({0.25, 0.75})};
          },
          [](Tensors in) -> Tensors {
            return {at::lerp(in[0], in[1], 0.25), at::lerp(in[0], in[1], in[2])};
          }),
      Case(
          "ranges_of_halves", [] { return Tensors{at::ones({}, at::kHalf)}; },
          [](Tensors in) -> Tensors {
            return {at::arange(-2048, 2048, at::kHalf).slice(0, 2040, 2060) * in[0],
                    at::arange(-300, 300, at::kBFloat16) * in[0]};
          }),
  };
}

}  // namespace

std::vector<ConfCase> HalfCases() {
  std::vector<ConfCase> cases = ReductionCases();
  for (ConfCase& c : PointwiseCases()) cases.push_back(std::move(c));
  return cases;
}

}  // namespace cotan::conformance
