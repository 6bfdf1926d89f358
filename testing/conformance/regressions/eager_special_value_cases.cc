// SPDX-License-Identifier: Apache-2.0

// NaN, infinities, zeros, very large and very small numbers as elements, and losses of rows with such.
#include <ATen/core/Reduction.h>

#include <deque>
#include <functional>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "testing/conformance/regressions/eager_cases.h"

namespace cotan::conformance {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

using T = const at::Tensor&;

struct Unary {
  const char* name;
  at::Tensor (*of)(T);
};
struct Binary {
  const char* name;
  at::Tensor (*of)(T, T);
};

at::Tensor Root(const at::Tensor& values) {
  g_roots.push_back(values.requires_grad_());
  return values;
}

at::Tensor Elements() {
  return at::tensor({kNan, kInf, -kInf, 0.0F, -0.0F, 1.0F, -1.0F, 0.5F, -0.5F, 3.0F, -3.0F, 2.0F, 100.0F, -100.0F, 1e4F,
                     -1e4F, 1e-40F, -1e-40F});
}

std::vector<Unary> Unaries() {
  return {
      {"sign", [](T x) { return at::sign(x); }},
      {"exp", [](T x) { return at::exp(x); }},
      {"exp2", [](T x) { return at::exp2(x); }},
      {"expm1", [](T x) { return at::expm1(x); }},
      {"log", [](T x) { return at::log(x); }},
      {"log2", [](T x) { return at::log2(x); }},
      {"log10", [](T x) { return at::log10(x); }},
      {"log1p", [](T x) { return at::log1p(x); }},
      {"sqrt", [](T x) { return at::sqrt(x); }},
      {"rsqrt", [](T x) { return at::rsqrt(x); }},
      {"reciprocal", [](T x) { return at::reciprocal(x); }},
      {"sin", [](T x) { return at::sin(x); }},
      {"cos", [](T x) { return at::cos(x); }},
      {"tan", [](T x) { return at::tan(x); }},
      {"asin", [](T x) { return at::asin(x); }},
      {"acos", [](T x) { return at::acos(x); }},
      {"atan", [](T x) { return at::atan(x); }},
      {"sinh", [](T x) { return at::sinh(x); }},
      {"cosh", [](T x) { return at::cosh(x); }},
      {"tanh", [](T x) { return at::tanh(x); }},
      {"asinh", [](T x) { return at::asinh(x); }},
      {"acosh", [](T x) { return at::acosh(x); }},
      {"atanh", [](T x) { return at::atanh(x); }},
      {"sigmoid", [](T x) { return at::sigmoid(x); }},
      {"logit", [](T x) { return at::logit(x); }},
      {"erf", [](T x) { return at::erf(x); }},
      {"erfc", [](T x) { return at::erfc(x); }},
      {"erfinv", [](T x) { return at::erfinv(x); }},
      {"lgamma", [](T x) { return at::lgamma(x); }},
      // Without -1, -3 and other negative integers, where eager computes finite gradients in place of -inf.
      {"digamma",
       [](T x) {
         return at::digamma(at::cat({x.slice(0, 0, 6), x.slice(0, 7, 10), x.slice(0, 11, 13)}));
       }},
      {"relu", [](T x) { return at::relu(x); }},
      {"relu6", [](T x) { return at::relu6(x); }},
      {"hardtanh", [](T x) { return at::hardtanh(x); }},
      {"hardsigmoid", [](T x) { return at::hardsigmoid(x); }},
      {"hardswish", [](T x) { return at::hardswish(x); }},
      {"hardshrink", [](T x) { return at::hardshrink(x); }},
      {"softshrink", [](T x) { return at::softshrink(x); }},
      {"leaky_relu", [](T x) { return at::leaky_relu(x); }},
      {"elu", [](T x) { return at::elu(x); }},
      {"celu", [](T x) { return at::celu(x, 2.0); }},
      // Finite elements: eager's vectorized kernel returns NaN at inf, where the limit is inf.
      {"gelu", [](T x) { return at::gelu(x.slice(0, 3)); }},
      {"gelu_tanh", [](T x) { return at::gelu(x, "tanh"); }},
      {"silu", [](T x) { return at::silu(x); }},
      {"mish", [](T x) { return at::mish(x); }},
      {"softplus", [](T x) { return at::softplus(x); }},
      {"log_sigmoid", [](T x) { return at::log_sigmoid(x); }},
      {"threshold", [](T x) { return at::threshold(x, 0.5, 7); }},
      {"frac", [](T x) { return at::frac(x); }},
      {"round", [](T x) { return at::round(x); }},
      {"nan_to_num", [](T x) { return at::nan_to_num(x); }},
      {"clamp", [](T x) { return at::clamp(x, -1, 1); }},
      {"clamp_to_nothing", [](T x) { return at::clamp(x, 1, -1); }},
      {"sinc", [](T x) { return at::sinc(x); }},
      {"signbit", [](T x) { return at::signbit(x); }},
      {"pow_half", [](T x) { return at::pow(x, 0.5); }},
      {"pow_three", [](T x) { return at::pow(x, 3); }},
      {"pow_minus_two", [](T x) { return at::pow(x, -2); }},
      {"pow_zero", [](T x) { return at::pow(x, 0); }},
      {"pow_of_two", [](T x) { return at::pow(2, x); }},
      {"xlogy_of_zero", [](T x) { return at::xlogy(0, x); }},
      {"xlogy_by_zero", [](T x) { return at::xlogy(x, 0); }},
      {"softmax", [](T x) { return at::softmax(x.slice(0, 2, 9), 0); }},
      {"log_softmax", [](T x) { return at::log_softmax(x.slice(0, 2, 9), 0); }},
      {"logsumexp", [](T x) { return at::logsumexp(x.slice(0, 1, 9), at::IntArrayRef({0})); }},
      {"cumsum", [](T x) { return at::cumsum(x.slice(0, 3), 0); }},
      {"cummax", [](T x) { return std::get<0>(at::cummax(x.flip(0), 0)); }},
      {"logcumsumexp", [](T x) { return at::logcumsumexp(x.slice(0, 2, 14), 0); }},
      {"amax", [](T x) { return at::amax(x); }},
      {"argmax", [](T x) { return at::argmax(x); }},
      {"sorted", [](T x) { return std::get<0>(at::sort(x, true, 0, /*descending=*/true)); }},
      {"topk", [](T x) { return std::get<0>(at::topk(x, 4)); }},
      {"median", [](T x) { return at::median(x); }},
      {"nanmedian", [](T x) { return at::nanmedian(x); }},
      {"nansum", [](T x) { return at::nansum(x.slice(0, 3)); }},
      {"norm", [](T x) { return at::linalg_vector_norm(x.slice(0, 1), kInf); }},
      {"norm_of_zeros", [](T x) { return at::linalg_vector_norm(x.slice(0, 3, 5), 2); }},
      {"averages_of_unequal_windows",
       [](T x) {
         return at::adaptive_avg_pool1d(x.slice(0, 1, 6).view({1, 1, 5}), 3);
       }},
      {"averages_of_unequal_windows_scaled",
       [](T x) {
         return at::adaptive_avg_pool1d(x.slice(0, 5, 10).view({1, 1, 5}), 3) * x.slice(0, 0, 3);
       }},
      {"largest_of_unequal_windows",
       [](T x) {
         return std::get<0>(at::adaptive_max_pool1d(x.slice(0, 0, 5).view({1, 1, 5}), 3));
       }},
      {"bucketized", [](T x) { return at::bucketize(x, at::arange(-1, 2, at::kFloat)); }},
      {"bucketized_right",
       [](T x) { return at::bucketize(x, at::arange(-1, 2, at::kFloat), /*out_int32=*/false, /*right=*/true); }},
      {"var_of_one", [](T x) { return at::var(x.slice(0, 5, 6), /*unbiased=*/true); }},
  };
}

std::vector<Binary> Binaries() {
  return {
      {"add", [](T x, T y) { return x + y; }},
      {"mul", [](T x, T y) { return x * y; }},
      {"div", [](T x, T y) { return x / y; }},
      {"pow", [](T x, T y) { return at::pow(x, y); }},
      {"fmod", [](T x, T y) { return at::fmod(x, y); }},
      {"remainder", [](T x, T y) { return at::remainder(x, y); }},
      {"div_floor", [](T x, T y) { return at::div(x, y, "floor"); }},
      {"div_trunc", [](T x, T y) { return at::div(x, y, "trunc"); }},
      {"atan2", [](T x, T y) { return at::atan2(x, y); }},
      {"maximum", [](T x, T y) { return at::maximum(x, y); }},
      {"minimum", [](T x, T y) { return at::minimum(x, y); }},
      {"fmax", [](T x, T y) { return at::fmax(x, y); }},
      {"fmin", [](T x, T y) { return at::fmin(x, y); }},
      {"hypot", [](T x, T y) { return at::hypot(x, y); }},
      {"copysign", [](T x, T y) { return at::copysign(x, y); }},
      {"xlogy", [](T x, T y) { return at::xlogy(x, y); }},
      {"logaddexp", [](T x, T y) { return at::logaddexp(x, y); }},
      {"logaddexp2", [](T x, T y) { return at::logaddexp2(x, y); }},
      {"heaviside", [](T x, T y) { return at::heaviside(x, y.expand_as(x)); }},
      {"lerp", [](T x, T y) { return at::lerp(x, y, 0.3); }},
      {"clamp_min", [](T x, T y) { return at::clamp_min(x, y); }},
      {"where_positive", [](T x, T y) { return at::where(x > 0, x.sqrt(), y); }},
      {"smooth_l1", [](T x, T y) { return at::smooth_l1_loss(x, y.expand_as(x), at::Reduction::None); }},
      {"smooth_l1_with_a_beta_of_zero",
       [](T x, T y) { return at::smooth_l1_loss(x, y.expand_as(x), at::Reduction::None, /*beta=*/0); }},
      {"huber", [](T x, T y) { return at::huber_loss(x, y.expand_as(x), at::Reduction::None); }},
      {"soft_margin", [](T x, T y) { return at::soft_margin_loss(x, y.expand_as(x), at::Reduction::None); }},
  };
}

// Returns log probabilities of which those of class 1 are -inf.
at::Tensor WithoutClassOne(T scores) {
  const at::Tensor mask = at::arange(scores.size(1)) == 1;
  return at::log_softmax(scores.masked_fill(mask, -kInf), 1);
}

std::vector<ConfCase> LossCases() {
  const auto scores = [] { return Tensors{leaf(0, {4, 3}), ints({2, 1, 0, 1}), buf(3, {3}).abs()}; };
  return {
      Case("ignored_class_has_no_probability", scores,
           [](Tensors in) -> Tensors {
             return {at::nll_loss(WithoutClassOne(in[0]), in[1], {}, at::Reduction::Mean, /*ignore_index=*/1)};
           }),
      Case("ignored_class_has_no_probability_in_rows", scores,
           [](Tensors in) -> Tensors {
             return {at::nll_loss(WithoutClassOne(in[0]), in[1], in[2], at::Reduction::None, /*ignore_index=*/1)};
           }),
      Case(
          "all_classes_are_ignored",
          [] {
            return Tensors{leaf(0, {2, 3}), ints({1, 1})};
          },
          [](Tensors in) -> Tensors {
            return {at::nll_loss(at::log_softmax(in[0], 1), in[1], {}, at::Reduction::Mean, /*ignore_index=*/1)};
          }),
      Case("cross_entropy_weighted_smoothed_and_ignored", scores,
           [](Tensors in) -> Tensors {
             return {at::cross_entropy_loss(in[0], in[1], in[2], at::Reduction::Mean, /*ignore_index=*/1,
                                            /*label_smoothing=*/0.1)};
           }),
      Case("nan_to_num_of_halves", Leaf,
           [](Tensors in) -> Tensors { return {(in[0].to(at::kBFloat16) / 0).nan_to_num(1, 2, 3)}; }),
      Case("variance_with_a_fractional_correction", Leaf,
           [](Tensors in) -> Tensors { return {at::var(in[0], at::IntArrayRef{1}, at::Scalar(0.5))}; }),
  };
}

std::vector<ConfCase> BagCases() {
  std::vector<ConfCase> cases;
  for (const bool is_mean : {false, true}) {
    cases.push_back(Case(
        is_mean ? "mean_of_a_bag_with_padding_that_is_not_a_number" : "sum_of_a_bag_with_padding_that_is_not_a_number",
        [] {
          at::Tensor table = buf(0, {4, 3});
          table.select(0, 2).fill_(kNan);
          return Tensors{Root(table), ints({0, 2, 1, 2, 3}), ints({0, 3})};
        },
        [mode = is_mean ? 1 : 0](Tensors in) -> Tensors {
          return {std::get<0>(at::embedding_bag(in[0], in[1], in[2], /*scale_grad_by_freq=*/false, mode,
                                                /*sparse=*/false, /*per_sample_weights=*/{},
                                                /*include_last_offset=*/false, /*padding_idx=*/2))};
        }));
  }
  return cases;
}

const char* Named(const std::string& name) {
  static auto* const names = new std::deque<std::string>();
  return names->emplace_back(name).c_str();
}

}  // namespace

std::vector<ConfCase> SpecialValueCases() {
  std::vector<ConfCase> cases = LossCases();
  for (ConfCase& c : BagCases()) cases.push_back(std::move(c));
  for (const Unary& op : Unaries()) {
    const auto f = [of = op.of](Tensors in) -> Tensors { return {of(in[0])}; };
    cases.push_back(Case(
        Named(absl::StrCat(op.name, "_of_elements")), [] { return Tensors{Elements()}; }, f));
    cases.push_back(Case(
        Named(absl::StrCat(op.name, "_of_a_leaf")), [] { return Tensors{Root(Elements())}; }, f));
  }
  for (const Binary& op : Binaries()) {
    const auto f = [of = op.of](Tensors in) -> Tensors { return {of(in[0].unsqueeze(1).expand({-1, 18}), in[1])}; };
    const auto elements = [] { return Tensors{Elements(), Elements()}; };
    const auto leaves = [] { return Tensors{Root(Elements()), Elements()}; };
    cases.push_back(Case(Named(absl::StrCat(op.name, "_of_pairs")), elements, f));
    cases.push_back(Case(Named(absl::StrCat(op.name, "_of_a_leaf_and_elements")), leaves, f));
  }
  return cases;
}

}  // namespace cotan::conformance
