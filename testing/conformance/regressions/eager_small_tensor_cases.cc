// SPDX-License-Identifier: Apache-2.0

// Tensors without dimensions, tensors without elements, and empty lists of dimensions.
#include <limits>
#include <utility>
#include <vector>

#include "testing/conformance/regressions/eager_cases.h"

namespace cotan::conformance {
namespace {

Tensors ComplexNumber() { return {leaf(0, {}, at::kComplexFloat)}; }

std::vector<ConfCase> ReductionCases() {
  return {
      Case("all_and_any_of_no_dimensions", Buffer,
           [](Tensors in) -> Tensors {
             const at::OptionalIntArrayRef none = at::IntArrayRef();
             const at::Tensor bytes = in[0].abs().to(at::kByte);
             return {at::all(in[0] > 0, none, /*keepdim=*/false), at::any(in[0], none, /*keepdim=*/true),
                     at::any(bytes, none, /*keepdim=*/false)};
           }),
      Case(
          "softmax_of_one_number",
          [] {
            return Tensors{at::scalar_tensor(std::numeric_limits<double>::quiet_NaN()),
                           at::scalar_tensor(std::numeric_limits<double>::infinity()), at::scalar_tensor(2)};
          },
          [](Tensors in) -> Tensors {
            Tensors results;
            for (const at::Tensor& x : in) {
              results.push_back(at::softmax(x, 0));
              results.push_back(at::log_softmax(x, -1));
            }
            return results;
          }),
      Case(
          "softmax_of_one_number_of_a_leaf", [] { return Tensors{leaf(0, {})}; },
          [](Tensors in) -> Tensors {
            return {at::softmax(in[0], 0), at::log_softmax(in[0], 0)};
          }),
      Case("sum_of_a_complex_number_along_its_dimension", ComplexNumber,
           [](Tensors in) -> Tensors {
             return {in[0].sum(0), in[0].sum({-1}, /*keepdim=*/true), in[0].sum()};
           }),
      Case("sum_of_complex_numbers_over_no_dimensions", Complex,
           [](Tensors in) -> Tensors { return {at::sum(in[0], at::IntArrayRef(), /*keepdim=*/false)}; }),
      Case(
          "median_of_nothing",
          [] {
            return Tensors{at::zeros({0}), at::zeros({2, 0}, at::kDouble)};
          },
          [](Tensors in) -> Tensors {
            return {at::median(in[0]), at::nanmedian(in[0]), at::median(in[1])};
          }),
  };
}

std::vector<ConfCase> OtherCases() {
  return {
      Case(
          "windows_of_one_number", [] { return Tensors{leaf(0, {})}; },
          [](Tensors in) -> Tensors {
            return {in[0].unfold(0, 1, 1) * 2, in[0].unfold(0, 1, 1)};
          }),
      Case(
          "window_of_one_number_is_written", [] { return Tensors{leaf(0, {}).clone()}; },
          [](Tensors in) -> Tensors {
            in[0].unfold(0, 1, 1).mul_(3);
            return {in[0] * in[0]};
          }),
      Case(
          "complex_numbers_equal_to_doubles",
          [] {
            return Tensors{at::complex(at::full({3}, 0.1F), at::zeros({3})), at::full({3}, 0.1, at::kDouble),
                           at::full({}, 0.1, at::kDouble)};
          },
          [](Tensors in) -> Tensors {
            return {at::eq(in[0], in[1]), at::ne(in[1], in[0]), at::eq(in[0], in[2])};
          }),
      Case(
          "bools_are_added_with_a_factor",
          [] {
            return Tensors{buf(0, {6}, at::kBool), buf(1, {6}, at::kBool)};
          },
          [](Tensors in) -> Tensors {
            return {at::add(in[0], in[1], 0), at::add(in[0], in[1], true), at::add(in[0], in[1])};
          }),
  };
}

}  // namespace

std::vector<ConfCase> SmallTensorCases() {
  std::vector<ConfCase> cases = ReductionCases();
  for (ConfCase& c : OtherCases()) cases.push_back(std::move(c));
  return cases;
}

}  // namespace cotan::conformance
