// SPDX-License-Identifier: Apache-2.0

// cvt.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "kernels/cuda/sim/ptx/float_rounding.h"
#include "kernels/cuda/sim/ptx/opcode_name.h"
#include "kernels/cuda/sim/ptx/scalar_op.h"
#include "kernels/cuda/sim/ptx/scalar_type.h"

namespace cotan::cuda::ptx {
namespace {

double RoundToInteger(double value, Rounding rounding) {
  switch (rounding) {
    case Rounding::kNearestEven:
      return std::nearbyint(value);
    case Rounding::kZero:
      return std::trunc(value);
    case Rounding::kDown:
      return std::floor(value);
    case Rounding::kUp:
      return std::ceil(value);
  }
  return value;
}

uint64_t IntegerToInteger(const ScalarOp& op, const uint64_t* v) {
  const ScalarType from = op.type, to = op.result_type;
  const __int128 value = from.IsSigned() ? static_cast<__int128>(SignExtend(v[0], from.bits))
                                         : static_cast<__int128>(v[0] & LowBits(from.bits));
  if (!op.sat) return static_cast<uint64_t>(value);
  const __int128 least = to.IsSigned() ? -(static_cast<__int128>(1) << (to.bits - 1)) : 0;
  const __int128 greatest = LowBits(to.IsSigned() ? to.bits - 1 : to.bits);
  return static_cast<uint64_t>(std::clamp(value, least, greatest));
}

// Saturates. A NaN becomes 0, or 2^(width - 1) from f64 or to 64 bits.
uint64_t FloatToInteger(const ScalarOp& op, const uint64_t* v) {
  const ScalarType to = op.result_type;
  const double value = FloatSource(op, op.type, v[0]);
  if (std::isnan(value)) return op.type.bits == 64 || to.bits == 64 ? uint64_t{1} << (to.bits - 1) : 0;
  const double rounded = RoundToInteger(value, op.rounding);
  const double limit = std::ldexp(1.0, to.IsSigned() ? to.bits - 1 : to.bits);
  if (rounded >= limit) return LowBits(to.IsSigned() ? to.bits - 1 : to.bits);
  if (to.IsSigned()) return rounded < -limit ? uint64_t{1} << (to.bits - 1) : static_cast<int64_t>(rounded);
  return rounded <= 0 ? 0 : static_cast<uint64_t>(rounded);
}

uint64_t IntegerToFloat(const ScalarOp& op, const uint64_t* v) {
  const bool is_signed = op.type.IsSigned();
  const uint64_t value = is_signed ? SignExtend(v[0], op.type.bits) : v[0] & LowBits(op.type.bits);
  if (op.result_type.bits != 64) return FloatResult(op, IntegerToOdd(value, is_signed));
  const ScopedRounding rounding(op.rounding);
  const volatile uint64_t exact = value;
  const volatile double converted =
      is_signed ? static_cast<double>(static_cast<int64_t>(exact)) : static_cast<double>(exact);
  return FloatResult(op, converted);
}

uint64_t FloatToFloat(const ScalarOp& op, const uint64_t* v) {
  const double value = FloatSource(op, op.type, v[0]);
  return FloatResult(op, op.to_integer ? RoundToInteger(value, op.rounding) : value);
}

// cvt.rn.f16x2.f32 d, a, b: `a` becomes the upper half.
uint64_t PackHalves(const ScalarOp& op, const uint64_t* v) {
  ScalarOp half = op;
  half.result_type.packed = false;
  return FloatResult(half, FloatSource(op, op.type, v[1])) | FloatResult(half, FloatSource(op, op.type, v[0])) << 16;
}

}  // namespace

std::optional<ScalarOp> FindConversion(const OpcodeName& name) {
  if (name.opcode != "cvt" || name.types.size() != 2 || !name.words.empty()) return std::nullopt;
  const ScalarType to = name.types[0], from = name.types[1];
  ScalarFn fn = nullptr;
  if (to.packed) {
    if (from.packed || !from.IsFloat()) return std::nullopt;
    fn = PackHalves;
  } else if (from.IsFloat()) {
    fn = to.IsFloat() ? FloatToFloat : FloatToInteger;
  } else {
    fn = to.IsFloat() ? IntegerToFloat : IntegerToInteger;
  }
  ScalarOp op = MakeScalarOp(name, from, to.packed ? 2 : 1, fn);
  op.result_type = to;
  return op;
}

}  // namespace cotan::cuda::ptx
