// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/ptx/scalar_op.h"

#include <cmath>
#include <cstdint>
#include <optional>

#include "kernels/cuda/sim/ptx/warp_ops.h"

namespace cotan::cuda::ptx {
namespace {

// Returns the smallest normal number of `type`.
double SmallestNormal(ScalarType type) {
  if (type.bits == 64) return 0x1p-1022;
  return type.bits == 16 && type.type_class == TypeClass::kFloat ? 0x1p-14 : 0x1p-126;
}

double FlushSubnormal(double value, ScalarType type) {
  return std::fabs(value) < SmallestNormal(type) ? std::copysign(0.0, value) : value;
}

}  // namespace

ScalarOp MakeScalarOp(const OpcodeName& name, ScalarType type, int num_sources, ScalarFn fn) {
  ScalarOp op;
  op.fn = fn;
  op.num_sources = num_sources;
  op.type = op.result_type = type;
  op.each_half = type.packed;
  op.rounding = name.rounding;
  op.to_integer = name.to_integer;
  op.ftz = name.ftz;
  op.sat = name.sat;
  op.relu = name.relu;
  op.nan = name.nan;
  return op;
}

std::optional<ScalarOp> FindScalarOp(const OpcodeName& name) {
  for (const auto find : {FindIntegerOp, FindFloatOp, FindComparison, FindConversion}) {
    std::optional<ScalarOp> op = find(name);
    if (!op.has_value()) continue;
    op->warp_fn = FindWarpFn(name, *op);
    return op;
  }
  return std::nullopt;
}

double FloatSource(const ScalarOp& op, ScalarType type, uint64_t bits) {
  const double value = DecodeFloat(bits & LowBits(type.bits), type);
  return op.ftz ? FlushSubnormal(value, type) : value;
}

uint64_t FloatResult(const ScalarOp& op, double value) {
  if (op.sat) value = value > 0 ? std::fmin(value, 1.0) : 0.0;
  if (op.relu && value <= 0) value = 0.0;
  const uint64_t bits = EncodeFloat(value, op.result_type, op.rounding);
  if (!op.ftz) return bits;
  return EncodeFloat(FlushSubnormal(DecodeFloat(bits, op.result_type), op.result_type), op.result_type, op.rounding);
}

}  // namespace cotan::cuda::ptx
