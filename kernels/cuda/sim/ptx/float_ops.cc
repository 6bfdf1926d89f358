// SPDX-License-Identifier: Apache-2.0

// Floating-point arithmetic. The approximations (ex2, lg2, sin, cos, tanh, rcp, rsqrt, sqrt and div
// with .approx or .full) are computed in double precision and rounded to nearest: the errors of the
// hardware, at most a few units in the last place, are not reproduced.
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "kernels/cuda/sim/ptx/float_rounding.h"
#include "kernels/cuda/sim/ptx/opcode_name.h"
#include "kernels/cuda/sim/ptx/scalar_op.h"
#include "kernels/cuda/sim/ptx/scalar_type.h"

namespace cotan::cuda::ptx {
namespace {

double Source(const ScalarOp& op, uint64_t bits) { return FloatSource(op, op.type, bits); }

bool IsF64(const ScalarOp& op) { return op.type.bits == 64; }

// Sums, quotients and roots of f32 may be rounded to nearest twice: a double has more than twice the bits.
bool IsNearestF32(const ScalarOp& op) { return op.type.bits == 32 && op.rounding == Rounding::kNearestEven; }

uint64_t Add(const ScalarOp& op, const uint64_t* v) {
  const double a = Source(op, v[0]), b = Source(op, v[1]);
  if (IsNearestF32(op)) return FloatResult(op, a + b);
  if (!IsF64(op)) return FloatResult(op, AddToOdd(a, b));
  const ScopedRounding rounding(op.rounding);
  const volatile double x = a, y = b;
  const volatile double sum = x + y;
  return FloatResult(op, sum);
}

uint64_t Subtract(const ScalarOp& op, const uint64_t* v) {
  const uint64_t sources[] = {v[0], v[1] ^ uint64_t{1} << (op.type.bits - 1)};
  return Add(op, sources);
}

uint64_t Multiply(const ScalarOp& op, const uint64_t* v) {
  const double a = Source(op, v[0]), b = Source(op, v[1]);
  if (!IsF64(op)) return FloatResult(op, a * b);  // The product is exact.
  const ScopedRounding rounding(op.rounding);
  const volatile double x = a, y = b;
  const volatile double product = x * y;
  return FloatResult(op, product);
}

uint64_t Fma(const ScalarOp& op, const uint64_t* v) {
  const double a = Source(op, v[0]), b = Source(op, v[1]), c = Source(op, v[2]);
  if (IsNearestF32(op)) {
    return FloatResult(op, std::fma(static_cast<float>(a), static_cast<float>(b), static_cast<float>(c)));
  }
  if (!IsF64(op)) return FloatResult(op, FmaToOdd(a, b, c));
  const ScopedRounding rounding(op.rounding);
  const volatile double x = a, y = b, z = c;
  const volatile double sum = std::fma(x, y, z);
  return FloatResult(op, sum);
}

uint64_t Divide(const ScalarOp& op, const uint64_t* v) {
  const double a = Source(op, v[0]), b = Source(op, v[1]);
  if (IsNearestF32(op)) return FloatResult(op, a / b);
  if (!IsF64(op)) return FloatResult(op, DivideToOdd(a, b));
  const ScopedRounding rounding(op.rounding);
  const volatile double x = a, y = b;
  const volatile double quotient = x / y;
  return FloatResult(op, quotient);
}

uint64_t Reciprocal(const ScalarOp& op, const uint64_t* v) {
  const uint64_t sources[] = {EncodeFloat(1.0, op.type, Rounding::kNearestEven), v[0]};
  return Divide(op, sources);
}

uint64_t Sqrt(const ScalarOp& op, const uint64_t* v) {
  const double a = Source(op, v[0]);
  if (!IsF64(op)) return FloatResult(op, SqrtToOdd(a));
  const ScopedRounding rounding(op.rounding);
  const volatile double x = a;
  const volatile double root = std::sqrt(x);
  return FloatResult(op, root);
}

// The approximations of f64 compute the upper 32 bits only.
uint64_t Upper(const ScalarOp& op, double value) {
  const uint64_t bits = FloatResult(op, value);
  return IsF64(op) ? bits & ~LowBits(32) : bits;
}

uint64_t ApproximateReciprocal(const ScalarOp& op, const uint64_t* v) { return Upper(op, 1.0 / Source(op, v[0])); }
uint64_t ReciprocalSqrt(const ScalarOp& op, const uint64_t* v) {
  const double a = Source(op, v[0]);
  return Upper(op, a == 0 ? std::copysign(std::numeric_limits<double>::infinity(), a) : 1.0 / std::sqrt(a));
}

uint64_t Exp2(const ScalarOp& op, const uint64_t* v) { return FloatResult(op, std::exp2(Source(op, v[0]))); }
uint64_t Log2(const ScalarOp& op, const uint64_t* v) {
  const double a = Source(op, v[0]);
  return FloatResult(op, a == 0 ? -std::numeric_limits<double>::infinity() : std::log2(a));
}
uint64_t Sin(const ScalarOp& op, const uint64_t* v) { return FloatResult(op, std::sin(Source(op, v[0]))); }
uint64_t Cos(const ScalarOp& op, const uint64_t* v) { return FloatResult(op, std::cos(Source(op, v[0]))); }
uint64_t Tanh(const ScalarOp& op, const uint64_t* v) { return FloatResult(op, std::tanh(Source(op, v[0]))); }

// neg and abs change the sign bit only, unless they flush subnormals.
uint64_t Negate(const ScalarOp& op, const uint64_t* v) {
  const uint64_t bits = (v[0] & LowBits(op.type.bits)) ^ uint64_t { 1 } << (op.type.bits - 1);
  return op.ftz ? FloatResult(op, Source(op, bits)) : bits;
}

uint64_t Absolute(const ScalarOp& op, const uint64_t* v) {
  const uint64_t bits = v[0] & LowBits(op.type.bits - 1);
  return op.ftz ? FloatResult(op, Source(op, bits)) : bits;
}

// copysign(a, b) has the sign of a and the magnitude of b.
uint64_t CopySign(const ScalarOp& op, const uint64_t* v) {
  const uint64_t magnitude = LowBits(op.type.bits - 1);
  return (v[1] & magnitude) | (v[0] & LowBits(op.type.bits) & ~magnitude);
}

// A NaN is ignored unless both are, or with .NaN either is; -0 is less than +0.
uint64_t Extremum(const ScalarOp& op, const uint64_t* v, bool maximum) {
  const double a = Source(op, v[0]), b = Source(op, v[1]);
  if (std::isnan(a) || std::isnan(b)) {
    if (op.nan || (std::isnan(a) && std::isnan(b))) {
      return FloatResult(op, std::numeric_limits<double>::quiet_NaN());
    }
    return FloatResult(op, std::isnan(a) ? b : a);
  }
  const bool a_less = a < b || (a == b && std::signbit(a));
  return FloatResult(op, a_less != maximum ? a : b);
}

uint64_t Minimum(const ScalarOp& op, const uint64_t* v) { return Extremum(op, v, false); }
uint64_t Maximum(const ScalarOp& op, const uint64_t* v) { return Extremum(op, v, true); }

uint64_t IsFinite(const ScalarOp& op, const uint64_t* v) { return std::isfinite(Source(op, v[0])); }
uint64_t IsInfinite(const ScalarOp& op, const uint64_t* v) { return std::isinf(Source(op, v[0])); }
uint64_t IsNumber(const ScalarOp& op, const uint64_t* v) { return !std::isnan(Source(op, v[0])); }
uint64_t IsNotANumber(const ScalarOp& op, const uint64_t* v) { return std::isnan(Source(op, v[0])); }

std::optional<ScalarOp> FindTest(const OpcodeName& name) {
  static const auto& tests = *new absl::flat_hash_map<absl::string_view, ScalarFn>(
      {{"finite", IsFinite}, {"infinite", IsInfinite}, {"number", IsNumber}, {"notanumber", IsNotANumber}});
  if (name.words.size() != 1) return std::nullopt;
  const auto found = tests.find(name.words[0]);
  if (found == tests.end()) return std::nullopt;
  ScalarOp op = MakeScalarOp(name, name.types[0], 1, found->second);
  op.result_type = {TypeClass::kPredicate, 1};
  return op;
}

struct Entry {
  ScalarFn fn;
  int num_sources;
};

}  // namespace

std::optional<ScalarOp> FindFloatOp(const OpcodeName& name) {
  static const auto& exact = *new absl::flat_hash_map<absl::string_view, Entry>({
      {"add", {Add, 2}},
      {"sub", {Subtract, 2}},
      {"mul", {Multiply, 2}},
      {"fma", {Fma, 3}},
      {"mad", {Fma, 3}},
      {"div", {Divide, 2}},
      {"rcp", {Reciprocal, 1}},
      {"sqrt", {Sqrt, 1}},
      {"neg", {Negate, 1}},
      {"abs", {Absolute, 1}},
      {"copysign", {CopySign, 2}},
      {"min", {Minimum, 2}},
      {"max", {Maximum, 2}},
  });
  static const auto& approximate = *new absl::flat_hash_map<absl::string_view, Entry>({
      {"div", {Divide, 2}},
      {"rcp", {ApproximateReciprocal, 1}},
      {"sqrt", {Sqrt, 1}},
      {"rsqrt", {ReciprocalSqrt, 1}},
      {"ex2", {Exp2, 1}},
      {"lg2", {Log2, 1}},
      {"sin", {Sin, 1}},
      {"cos", {Cos, 1}},
      {"tanh", {Tanh, 1}},
  });
  if (name.types.size() != 1 || !name.types[0].IsFloat()) return std::nullopt;
  if (name.opcode == "testp") return FindTest(name);
  if (!name.words.empty()) return std::nullopt;
  const auto& table = name.approx ? approximate : exact;
  const auto found = table.find(name.opcode);
  if (found == table.end()) return std::nullopt;
  return MakeScalarOp(name, name.types[0], found->second.num_sources, found->second.fn);
}

}  // namespace cotan::cuda::ptx
