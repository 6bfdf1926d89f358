// SPDX-License-Identifier: Apache-2.0

// Rows of functions related to the gamma function and the normal distribution.
#include <array>
#include <cmath>
#include <limits>

#include "aot/lowering/ops/chebyshev.h"
#include "aot/lowering/ops/lowering.h"
#include "aot/lowering/ops/op_table_rows.h"

namespace cotan::aot {
namespace {

using serialization::FN_DIGAMMA;
using serialization::FN_ERFC;
using serialization::FN_ERFINV;
using serialization::FN_FLOOR;
using serialization::FN_LGAMMA;
using serialization::FN_LOG1P;
using serialization::FN_REMAINDER;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// log(exp(x^2) erfc(x) / u) for u = 2 / (2 + x) and x >= 0, in 2u - 1.
constexpr double kLogErfcx[] = {
    -6.513268598908547171e-1,  6.419697923564902603e-1,   1.947647320418583631e-2,   -9.561514786808631642e-3,
    -9.465953444820368663e-4,  3.668394978527614519e-4,   4.252332480690777164e-5,   -2.027857811253424315e-5,
    -1.624290004647025513e-6,  1.303655835580523202e-6,   1.562644172206614318e-8,   -8.523809591492654253e-8,
    6.529054439098851496e-9,   5.059343495551468942e-9,   -9.913641564930330867e-10, -2.273651222931835856e-10,
    9.646791102015526802e-11,  2.394038083039114745e-12,  -6.886027526497553398e-12, 8.944879273090725717e-13,
    3.130921399342958078e-13,  -1.127082236136725237e-13, 3.810905255189232055e-16,  7.106097613609236988e-15,
    -1.523028201457104304e-15, -9.457494571291234e-17,    1.210237189224278992e-16,  -2.816663087747176972e-17};

// -x / w where x is the normal distribution's quantile of exp(-w^2 / 2), for w in
// [2, 40], in (80 / w - 21) / 19.
constexpr double kNormalQuantile[] = {
    8.066046352538334024e-1,   -2.270083083993486239e-1, -3.197127124661828841e-2,  3.657537631717787851e-3,
    -6.416751645387698082e-4,  1.531230109934572486e-4,  -4.574939197201101316e-5,  1.581498736823511274e-5,
    -6.01046532487245749e-6,   2.445226167217443827e-6,  -1.049280904750958882e-6,  4.701415877759587476e-7,
    -2.18215646806905526e-7,   1.042630312749103751e-7,  -5.103139584680843683e-8,  2.548996309547874246e-8,
    -1.295536540120366679e-8,  6.684439134312992586e-9,  -3.494566472368342612e-9,  1.848237401779123104e-9,
    -9.876291830829160854e-10, 5.326310798319242351e-10, -2.896354983736976602e-10, 1.586806729551979296e-10,
    -8.752758687450390035e-11, 4.857976745372068002e-11, -2.711620704125235635e-11, 1.521480260731432708e-11,
    -8.578108709305151646e-12, 4.857896688347428062e-12, -2.76246662479089039e-12,  1.576931771763013287e-12,
    -9.034071271081075202e-13, 5.192870201736158788e-13, -2.994283697130400693e-13, 1.731635720625454738e-13,
    -1.004204683205794723e-13, 5.838760124967919694e-14, -3.403204979453878713e-14, 1.98822835063448142e-14,
    -1.16412961829738162e-14,  6.830362426046588365e-15, -4.01557414774727889e-15,  2.365214767102275292e-15,
    -1.395639142584181533e-15, 8.249330338427549913e-16, -4.88397156756854543e-16,  2.89604038630796203e-16,
    -1.719821698700178381e-16, 1.022778848841895506e-16, -6.090788085151002889e-17, 3.631902820148730147e-17,
    -2.168407738610995975e-17, 1.296200125847305028e-17, -7.757239337726825784e-18};

Tensor Number(Lowering& l, double value) { return l.b.Literal(value); }

// Returns operand i, at least in f32.
Tensor Float(Lowering& l, int i) {
  const DType dtype = l.result().dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  const Tensor x = l.tensor(i);
  return x.is_literal() ? l.b.Full(x, dtype, {}) : l.b.Cast(x, dtype);
}

// exp(x^2) erfc(x)
Tensor ScaledErfc(Lowering& l, const Tensor& x) {
  const Tensor u = Number(l, 2) / (Number(l, 2) + l.b.Abs(x));
  const Tensor positive = u * l.b.Exp(ChebyshevSum(l.b, u + u - Number(l, 1), kLogErfcx));
  return l.b.Select(l.b.Lt(x, Number(l, 0)), Number(l, 2) * l.b.Exp(x * x) - positive, positive);
}

absl::Status LowerErfcx(Lowering& l) { return l.ReturnCast({ScaledErfc(l, Float(l, 0))}); }

// The logarithm of the normal distribution's cumulative distribution function.
absl::Status LowerLogNdtr(Lowering& l) {
  const Tensor x = Float(l, 0);
  const Tensor t = x * Number(l, M_SQRT1_2);
  const Tensor tail = l.b.Log(ScaledErfc(l, -t) * Number(l, 0.5)) - t * t;
  const Tensor other = l.b.Unary(FN_LOG1P, l.b.Unary(FN_ERFC, t) * Number(l, -0.5));
  return l.ReturnCast({l.b.Select(l.b.Lt(x, Number(l, -1)), tail, other)});
}

// The quantiles of the normal distribution.
absl::Status LowerNdtri(Lowering& l) {
  const Tensor p = Float(l, 0);
  const Tensor smaller = l.b.Minimum(p, Number(l, 1) - p);
  const Tensor w = l.b.Sqrt(Number(l, -2) * l.b.Log(smaller));
  const Tensor t = (Number(l, 80) / w - Number(l, 21)) * Number(l, 1.0 / 19);
  const Tensor size = w * ChebyshevSum(l.b, t, kNormalQuantile);
  const Tensor tail = l.b.Select(l.b.Lt(p, Number(l, 0.5)), -size, size);
  const Tensor middle = l.b.Unary(FN_ERFINV, p + p - Number(l, 1)) * Number(l, M_SQRT2);
  const Tensor result = l.b.Select(l.b.Gt(smaller, Number(l, std::exp(-2.0))), middle, tail);
  const Tensor limit = l.b.Select(l.b.Lt(p, Number(l, 0.5)), l.b.Full(Number(l, -kInfinity), p.dtype(), {}),
                                  l.b.Full(Number(l, kInfinity), p.dtype(), {}));
  return l.ReturnCast({l.b.Select(l.b.Eq(smaller, Number(l, 0)), limit, result)});
}

// Returns the sum of (q + k)^-s over k >= 0 for q > 0: the first terms, then the Euler-Maclaurin
// formula.
Tensor PositiveZeta(Lowering& l, const Tensor& s, const Tensor& q) {
  // Bernoulli numbers B(2j) / (2j)!.
  constexpr std::array<double, 10> kBernoulli = {1.0 / 12,
                                                 -1.0 / 720,
                                                 1.0 / 30240,
                                                 -1.0 / 1209600,
                                                 1.0 / 47900160,
                                                 -691 / 1307674368e3,
                                                 1.0 / 74724249600.0,
                                                 -3617 / 10670622842880e3,
                                                 43867 / 5109094217170944e3,
                                                 -174611 / 802857662698291200e3};
  constexpr int kFirst = 10;
  Tensor sum = l.b.Pow(q, -s);
  for (int k = 1; k < kFirst; ++k) sum = sum + l.b.Pow(q + Number(l, k), -s);
  const Tensor a = q + Number(l, kFirst);
  const Tensor power = l.b.Pow(a, -s);
  sum = sum + power * a / (s - Number(l, 1)) + power * Number(l, 0.5);
  const Tensor inverse = Number(l, 1) / a;
  Tensor factor = s * power * inverse;
  for (size_t j = 0; j < kBernoulli.size(); ++j) {
    sum = sum + factor * Number(l, kBernoulli[j]);
    const double n = 2 * static_cast<double>(j) + 1;
    factor = factor * (s + Number(l, n)) * (s + Number(l, n + 1)) * inverse * inverse;
  }
  return sum;
}

// Also for q < 0, where s must be an integer: with q = f - m and f in (0, 1), the first m terms
// have negative bases; they are the terms of 1 - f, ..., m - f times (-1)^s.
Tensor Zeta(Lowering& l, const Tensor& s, const Tensor& q) {
  const Tensor zero = Number(l, 0), one = Number(l, 1);
  const Tensor floor = l.b.Unary(FN_FLOOR, q);
  const Tensor fraction = q - floor;
  const Tensor is_positive = l.b.Gt(q, zero);
  const Tensor positive = PositiveZeta(l, s, l.b.Select(is_positive, q, fraction));
  const Tensor rest = one - fraction;
  const Tensor negative = PositiveZeta(l, s, rest) - PositiveZeta(l, s, l.b.Select(is_positive, rest, rest - floor));
  const Tensor odd = l.b.Binary(FN_REMAINDER, s, Number(l, 2));
  const Tensor with_negative = positive + (one - odd - odd) * negative;
  const Tensor is_integer = l.b.Eq(s, l.b.Unary(FN_FLOOR, s));
  const Tensor below =
      l.b.Select(l.b.Eq(q, floor), Number(l, kInfinity), l.b.Select(is_integer, with_negative, Number(l, kNan)));
  const Tensor result = l.b.Select(is_positive, positive, below);
  return l.b.Select(l.b.Eq(s, one), Number(l, kInfinity), l.b.Select(l.b.Lt(s, one), Number(l, kNan), result));
}

absl::Status LowerZeta(Lowering& l) { return l.ReturnCast({Zeta(l, Float(l, 0), Float(l, 1))}); }

// (n, self): the n-th derivative of digamma.
absl::Status LowerPolygamma(Lowering& l) {
  const int64_t n = l.integer(0);
  const Tensor x = Float(l, 1);
  if (n == 0) return l.ReturnCast({l.b.Unary(FN_DIGAMMA, x)});
  const double factor = std::tgamma(static_cast<double>(n) + 1) * (n % 2 == 0 ? -1 : 1);
  const Tensor s = l.b.Full(Number(l, static_cast<double>(n) + 1), x.dtype(), {});
  const Tensor result = Zeta(l, s, x) * Number(l, factor);
  if (n > 1) return l.ReturnCast({result});
  // As in LibTorch, only the first derivative is 0 at inf; zeta and the others are NaN.
  return l.ReturnCast({l.b.Select(l.b.Eq(x, Number(l, kInfinity)), Number(l, 0), result)});
}

// (self, p)
absl::Status LowerMvlgamma(Lowering& l) {
  const auto p = static_cast<double>(l.integer(1));
  const Tensor x = Float(l, 0);
  Tensor sum = l.b.Unary(FN_LGAMMA, x) + Number(l, p * (p - 1) / 4 * std::log(M_PI));
  for (int64_t j = 1; j < l.integer(1); ++j) {
    sum = sum + l.b.Unary(FN_LGAMMA, x - Number(l, 0.5 * static_cast<double>(j)));
  }
  return l.ReturnCast({sum});
}

constexpr OpRow Row(absl::string_view op, LowerFunction lower) { return {op, OpFamily::kPointwise, lower}; }

constexpr OpRow kRows[] = {
    Row("aten.mvlgamma.default", LowerMvlgamma),      Row("aten.polygamma.default", LowerPolygamma),
    Row("aten.special_erfcx.default", LowerErfcx),    Row("aten.special_log_ndtr.default", LowerLogNdtr),
    Row("aten.special_ndtri.default", LowerNdtri),    Row("aten.special_zeta.default", LowerZeta),
    Row("aten.special_zeta.other_scalar", LowerZeta), Row("aten.special_zeta.self_scalar", LowerZeta),
};

}  // namespace

absl::Span<const OpRow> GammaRows() { return kRows; }

}  // namespace cotan::aot
