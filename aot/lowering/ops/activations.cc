// SPDX-License-Identifier: Apache-2.0

// Rows of activation functions and their backward forms.
#include <cmath>

#include "aot/lowering/ops/lowering.h"
#include "aot/lowering/ops/op_table_rows.h"

namespace cotan::aot {
namespace {

// Coefficients of the tanh form of GELU and its derivative.
constexpr double kGeluCubic = 0.044715;

Tensor Zero(Lowering& l) { return l.b.Literal(0.0); }
Tensor One(Lowering& l) { return l.b.Literal(1.0); }
Tensor Number(Lowering& l, double value) { return l.b.Literal(value); }

// Returns grad * slope for halves whose slope was computed in f32. The slope is rounded first, so that it can be stored
// in the forward in the memory of the argument (aot/fusion/derivatives.h).
absl::Status ReturnScaled(Lowering& l, const Tensor& slope) {
  return l.Return(l.operand(0) * l.b.Cast(slope, l.result().dtype));
}

absl::Status LowerThresholdBackward(Lowering& l) {
  return l.Return(l.b.Select(l.b.Le(l.operand(1), l.literal(2)), Zero(l), l.operand(0)));
}

absl::Status LowerThreshold(Lowering& l) {
  const Tensor x = l.operand(0);
  return l.Return(l.b.Select(l.b.Le(x, l.literal(1)), l.literal(2), x));
}

// Returns the cumulative distribution function of the standard normal distribution at x.
Tensor NormalCdf(Lowering& l, const Tensor& x) {
  const Tensor erf = l.b.Unary(serialization::FN_ERF, x * Number(l, M_SQRT1_2));
  return Number(l, 0.5) * erf + Number(l, 0.5);
}

absl::Status LowerGelu(Lowering& l) {
  const Tensor x = l.wide(0);
  if (l.text(1) == "tanh") {
    const Tensor inner = Number(l, M_2_SQRTPI * M_SQRT1_2) * (x + Number(l, kGeluCubic) * (x * x * x));
    return l.ReturnCast({Number(l, 0.5) * x * (One(l) + l.b.Tanh(inner))});
  }
  return l.ReturnCast({x * NormalCdf(l, x)});
}

absl::Status LowerGeluBackward(Lowering& l) {
  const Tensor x = l.wide(1);
  if (l.text(2) == "tanh") {
    const double beta = M_2_SQRTPI * M_SQRT1_2;
    const Tensor square = x * x;
    const Tensor tanh = l.b.Tanh(Number(l, beta) * (x + Number(l, kGeluCubic) * (square * x)));
    const Tensor left = Number(l, 0.5) * (One(l) + tanh);
    const Tensor inner = Number(l, beta) * (One(l) + Number(l, 3 * kGeluCubic) * square);
    return ReturnScaled(l, left + Number(l, 0.5) * x * (One(l) - tanh * tanh) * inner);
  }
  const Tensor pdf = l.b.Exp(x * x * Number(l, -0.5)) * Number(l, M_2_SQRTPI * M_SQRT1_2 * 0.5);
  return ReturnScaled(l, x * pdf + NormalCdf(l, x));
}

absl::Status LowerSilu(Lowering& l) {
  const Tensor x = l.wide(0);
  return l.ReturnCast({x * l.b.Sigmoid(x)});
}

absl::Status LowerSiluBackward(Lowering& l) {
  const Tensor x = l.wide(1);
  const Tensor s = l.b.Sigmoid(x);
  return ReturnScaled(l, s * (One(l) + x * (One(l) - s)));
}

// max(x, 0) + log1p(exp(-|x|)): softplus without overflow.
Tensor StableSoftplus(Lowering& l, const Tensor& x) {
  return l.b.Unary(serialization::FN_RELU, x) + l.b.Unary(serialization::FN_LOG1P, l.b.Exp(-l.b.Abs(x)));
}

absl::Status LowerMish(Lowering& l) {
  const Tensor x = l.wide(0);
  return l.ReturnCast({x * l.b.Tanh(StableSoftplus(l, x))});
}

absl::Status LowerMishBackward(Lowering& l) {
  const Tensor x = l.wide(1);
  const Tensor t = l.b.Tanh(StableSoftplus(l, x));
  return ReturnScaled(l, t + x * l.b.Sigmoid(x) * (One(l) - t * t));
}

absl::Status LowerSoftplus(Lowering& l) {
  const Tensor x = l.wide(0);  // the exponential may be too large for a half
  const Tensor scaled = x * l.literal(1);
  const Tensor soft = l.b.Unary(serialization::FN_LOG1P, l.b.Exp(scaled)) / l.literal(1);
  return l.ReturnCast({l.b.Select(l.b.Gt(scaled, l.literal(2)), x, soft)});
}

absl::Status LowerSoftplusBackward(Lowering& l) {
  const Tensor grad = l.operand(0);
  const Tensor scaled = l.operand(1) * l.literal(2);
  return l.Return(l.b.Select(l.b.Gt(scaled, l.literal(3)), grad, grad * l.b.Sigmoid(scaled)));
}

absl::Status LowerLeakyReluBackward(Lowering& l) {
  const Tensor grad = l.operand(0);
  return l.Return(l.b.Select(l.b.Gt(l.operand(1), Zero(l)), grad, grad * l.literal(2)));
}

absl::Status LowerLeakyRelu(Lowering& l) {
  const Tensor x = l.operand(0);
  return l.Return(l.b.Select(l.b.Gt(x, Zero(l)), x, x * l.literal(1)));
}

absl::Status LowerElu(Lowering& l) {
  const Tensor x = l.operand(0);
  const Tensor negative = l.b.Unary(serialization::FN_EXPM1, x * l.literal(3)) * Number(l, l.number(1) * l.number(2));
  return l.Return(l.b.Select(l.b.Gt(x, Zero(l)), x * l.literal(2), negative));
}

// elu_backward(grad, alpha, scale, input_scale, is_result, self_or_result).
absl::Status LowerEluBackward(Lowering& l) {
  const Tensor grad = l.operand(0);
  const double alpha = l.number(1), scale = l.number(2), input_scale = l.number(3);
  const Tensor x = l.operand(5);
  const Tensor slope = l.flag(4) ? Number(l, input_scale) * (x + Number(l, alpha * scale))
                                 : Number(l, input_scale * alpha * scale) * l.b.Exp(x * Number(l, input_scale));
  return l.Return(l.b.Select(l.b.Le(x, Zero(l)), grad * slope, grad * Number(l, scale)));
}

absl::Status LowerHardtanhBackward(Lowering& l) {
  const Tensor x = l.operand(1);
  const Tensor inside = l.b.And(l.b.Gt(x, l.literal(2)), l.b.Lt(x, l.literal(3)));
  return l.Return(l.b.Select(inside, l.operand(0), Zero(l)));
}

absl::Status LowerHardtanh(Lowering& l) {
  return l.Return(l.b.Minimum(l.b.Maximum(l.operand(0), l.literal(1)), l.literal(2)));
}

Tensor Clamp06(Lowering& l, const Tensor& x) {
  return l.b.Minimum(l.b.Maximum(x + Number(l, 3.0), Zero(l)), Number(l, 6.0));
}

absl::Status LowerHardswish(Lowering& l) {
  const Tensor x = l.wide(0);  // the product may be too large for a half
  return l.ReturnCast({x * Clamp06(l, x) / Number(l, 6.0)});
}

absl::Status LowerHardswishBackward(Lowering& l) {
  const Tensor grad = l.operand(0);
  const Tensor x = l.operand(1);
  const Tensor middle = grad * (x / Number(l, 3.0) + Number(l, 0.5));
  const Tensor upper = l.b.Select(l.b.Lt(x, Number(l, 3.0)), middle, grad);
  return l.Return(l.b.Select(l.b.Le(x, Number(l, -3.0)), Zero(l), upper));
}

absl::Status LowerHardsigmoid(Lowering& l) { return l.ReturnCast({Clamp06(l, l.wide(0)) / Number(l, 6.0)}); }

absl::Status LowerHardsigmoidBackward(Lowering& l) {
  const Tensor grad = l.operand(0);
  const Tensor x = l.operand(1);
  const Tensor inside = l.b.And(l.b.Gt(x, Number(l, -3.0)), l.b.Lt(x, Number(l, 3.0)));
  return l.Return(l.b.Select(inside, grad / Number(l, 6.0), Zero(l)));
}

absl::Status LowerSigmoidBackward(Lowering& l) {
  const Tensor y = l.operand(1);
  return l.Return(l.operand(0) * (One(l) - y) * y);
}

absl::Status LowerTanhBackward(Lowering& l) {
  const Tensor y = l.operand(1);
  return l.Return(l.operand(0) * (One(l) - y * y));
}

absl::Status LowerLogSigmoid(Lowering& l) {
  const Tensor x = l.operand(0);
  const Tensor result = l.b.Minimum(x, Zero(l)) - l.b.Unary(serialization::FN_LOG1P, l.b.Exp(-l.b.Abs(x)));
  const Tensor buffer = l.has_result(1) ? l.b.Full(Zero(l), l.result(1).dtype, l.result(1).sizes) : Tensor();
  return l.ReturnAll({result, buffer});
}

absl::Status LowerLogSigmoidBackward(Lowering& l) { return l.Return(l.operand(0) * l.b.Sigmoid(-l.operand(1))); }

absl::Status LowerSoftshrink(Lowering& l) {
  const Tensor x = l.operand(0);
  const Tensor lambda = l.literal(1);
  const Tensor low = l.b.Select(l.b.Lt(x, -lambda), x + lambda, x * Zero(l));
  return l.Return(l.b.Select(l.b.Gt(x, lambda), x - lambda, low));
}

absl::Status LowerShrinkBackward(Lowering& l) {
  const Tensor outside = l.b.Gt(l.b.Abs(l.operand(1)), l.literal(2));
  return l.Return(l.b.Select(outside, l.operand(0), Zero(l)));
}

absl::Status LowerHardshrink(Lowering& l) {
  const Tensor x = l.operand(0);
  return l.Return(l.b.Select(l.b.Le(l.b.Abs(x), l.literal(1)), Zero(l), x));
}

absl::Status LowerPrelu(Lowering& l) {
  const Tensor x = l.operand(0);
  return l.Return(l.b.Select(l.b.Gt(x, Zero(l)), x, l.operand(1) * x));
}

// The weight already broadcasts with the input. Its gradient has the input's sizes here; autograd
// reduces it.
absl::Status LowerPreluBackward(Lowering& l) {
  const Tensor grad = l.operand(0);
  const Tensor x = l.operand(1);
  const Tensor positive = l.b.Gt(x, Zero(l));
  return l.ReturnAll({l.b.Select(positive, grad, l.operand(2) * grad), l.b.Select(positive, Zero(l), x * grad)});
}

absl::Status LowerGlu(Lowering& l) {
  const Tensor x = l.operand(0);
  const int64_t dim = l.b.WrapDim(l.integer(1), x.rank());
  const SymInt size = x.sizes()[static_cast<size_t>(dim)];
  const SymInt half = l.result().sizes[static_cast<size_t>(dim)];
  return l.Return(l.b.Slice(x, dim, 0, half, 1) * l.b.Sigmoid(l.b.Slice(x, dim, half, size, 1)));
}

absl::Status LowerGluBackward(Lowering& l) {
  const Tensor grad = l.operand(0);
  const Tensor x = l.operand(1);
  const int64_t dim = l.b.WrapDim(l.integer(2), x.rank());
  const SymInt half = grad.sizes()[static_cast<size_t>(dim)];
  const Tensor a = l.b.Slice(x, dim, 0, half, 1);
  const Tensor s = l.b.Sigmoid(l.b.Slice(x, dim, half, x.sizes()[static_cast<size_t>(dim)], 1));
  return l.Return(l.b.Concat({grad * s, grad * a * s * (One(l) - s)}, dim));
}

constexpr OpRow Row(absl::string_view op, LowerFunction lower) { return {op, OpFamily::kPointwise, lower}; }

constexpr OpRow kRows[] = {
    Row("aten._prelu_kernel.default", LowerPrelu),
    Row("aten._prelu_kernel_backward.default", LowerPreluBackward),
    Row("aten.elu.default", LowerElu),
    Row("aten.elu_backward.default", LowerEluBackward),
    Row("aten.gelu.default", LowerGelu),
    Row("aten.gelu_backward.default", LowerGeluBackward),
    Row("aten.glu.default", LowerGlu),
    Row("aten.glu_backward.default", LowerGluBackward),
    Row("aten.hardshrink.default", LowerHardshrink),
    Row("aten.hardshrink_backward.default", LowerShrinkBackward),
    Row("aten.hardsigmoid.default", LowerHardsigmoid),
    Row("aten.hardsigmoid_backward.default", LowerHardsigmoidBackward),
    Row("aten.hardswish.default", LowerHardswish),
    Row("aten.hardswish_backward.default", LowerHardswishBackward),
    Row("aten.hardtanh.default", LowerHardtanh),
    Row("aten.hardtanh_backward.default", LowerHardtanhBackward),
    Row("aten.leaky_relu.default", LowerLeakyRelu),
    Row("aten.leaky_relu_backward.default", LowerLeakyReluBackward),
    Row("aten.log_sigmoid_backward.default", LowerLogSigmoidBackward),
    Row("aten.log_sigmoid_forward.default", LowerLogSigmoid),
    Row("aten.mish.default", LowerMish),
    Row("aten.mish_backward.default", LowerMishBackward),
    Row("aten.relu.default", [](Lowering& l) { return l.Return(l.b.Unary(serialization::FN_RELU, l.operand(0))); }),
    Row("aten.sigmoid_backward.default", LowerSigmoidBackward),
    Row("aten.silu.default", LowerSilu),
    Row("aten.silu_backward.default", LowerSiluBackward),
    Row("aten.softplus.default", LowerSoftplus),
    Row("aten.softplus_backward.default", LowerSoftplusBackward),
    Row("aten.softshrink.default", LowerSoftshrink),
    Row("aten.softshrink_backward.default", LowerShrinkBackward),
    Row("aten.tanh_backward.default", LowerTanhBackward),
    Row("aten.threshold.default", LowerThreshold),
    Row("aten.threshold_backward.default", LowerThresholdBackward),
};

}  // namespace

absl::Span<const OpRow> ActivationRows() { return kRows; }

}  // namespace cotan::aot
