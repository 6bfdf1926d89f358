// SPDX-License-Identifier: Apache-2.0

// Rows of losses, forward and backward.
#include <numeric>

#include "aot/lowering/ops/lowering.h"
#include "aot/lowering/ops/op_table_rows.h"

namespace cotan::aot {
namespace {

enum Reduction : int64_t { kNone = 0, kMean = 1, kSum = 2 };

std::vector<int64_t> AllDims(const Tensor& x) {
  std::vector<int64_t> dims(static_cast<size_t>(x.rank()));
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

Tensor SumAll(Lowering& l, const Tensor& x) { return l.b.View(l.b.ReduceSum(x, AllDims(x)), {}); }

// Returns `values` reduced by the reduction mode in argument `i`.
Tensor Reduced(Lowering& l, const Tensor& values, int i) {
  const int64_t reduction = l.integer(i);
  if (reduction == kNone) return values;
  if (reduction == kSum) return SumAll(l, values);
  // The sum may be too large for a half that the mean fits in.
  return l.b.Cast(SumAll(l, l.widened(values)) / l.b.Literal(NumElementsOf(values.sizes())), values.dtype());
}

// Returns the gradient of each element before the reduction of argument `i`, given the gradient of
// the result.
Tensor Unreduced(Lowering& l, const Tensor& grad, const Tensor& like, int i) {
  if (l.integer(i) != kMean) return grad;
  return grad / l.b.Literal(NumElementsOf(like.sizes()));
}

// Negative log likelihood ----------------------------------------------------

// Terms that forward and backward share. Scores are [C], [N, C] or [N, C, d...].
struct NllTerms {
  Tensor hit;    // bool, sizes of the scores: true if the class is the target
  Tensor valid;  // bool, scores with class dimension 1: false if the row is ignored
  // The weight of a row that is not ignored, sizes of `valid`. Undefined: 1.
  Tensor weight;
  int64_t class_dim = 0;
};

NllTerms NllTermsOf(Lowering& l, const Tensor& scores, Tensor target, const Tensor& weight, int64_t ignore_index) {
  NllTerms terms;
  terms.class_dim = scores.rank() == 1 ? 0 : 1;
  const SymInt& num_classes = scores.sizes()[static_cast<size_t>(terms.class_dim)];
  target = l.b.CheckedIndex(target, num_classes, /*from_end=*/false, ignore_index);
  target = l.b.Unsqueeze(target, target.rank() == 0 ? 0 : 1);
  const Tensor narrow = l.b.Cast(target, DType::kInt32);
  const Tensor classes = l.b.Iota(static_cast<int>(terms.class_dim), DType::kInt32, scores.sizes());
  terms.hit = l.b.Eq(classes, narrow);
  terms.valid = l.b.Ne(narrow, l.b.Literal(SymInt(ignore_index)));
  if (!weight.defined()) return terms;
  SymIntVector sizes(scores.sizes().size(), SymInt(1));
  sizes[static_cast<size_t>(terms.class_dim)] = scores.sizes()[static_cast<size_t>(terms.class_dim)];
  terms.weight = l.b.ReduceSum(l.b.Select(terms.hit, l.b.View(weight, sizes), l.b.Literal(0.0)), {terms.class_dim});
  return terms;
}

// Returns the negative product of `values` and the weights of the rows, and 0 for rows that are ignored, whatever their
// values are.
Tensor MinusWeighted(Lowering& l, const NllTerms& terms, const Tensor& values) {
  const Tensor weighted = terms.weight.defined() ? values * terms.weight : values;
  return l.b.Select(terms.valid, -weighted, l.b.Literal(0.0));
}

// (self, target, weight, reduction, ignore_index) -> loss, total_weight
absl::Status LowerNllLoss(Lowering& l) {
  const Tensor scores = l.tensor(0);
  const NllTerms terms = NllTermsOf(l, scores, l.tensor(1), l.optional_tensor(2), l.integer(4));
  const Tensor picked = l.b.ReduceSum(l.b.Select(terms.hit, scores, l.b.Literal(0.0)), {terms.class_dim});
  const Tensor losses = MinusWeighted(l, terms, picked);
  if (l.integer(3) == kNone) {
    return l.ReturnAll({l.b.View(losses, l.result().sizes), l.b.Full(l.b.Literal(0.0), scores.dtype(), {})});
  }
  const Tensor weights = terms.weight.defined() ? l.b.Select(terms.valid, terms.weight, l.b.Literal(0.0))
                                                : l.b.Cast(terms.valid, scores.dtype());
  const Tensor total = SumAll(l, weights);
  const Tensor sum = SumAll(l, losses);
  return l.ReturnAll({l.integer(3) == kMean ? sum / total : sum, total});
}

// (grad, self, target, weight, reduction, ignore_index, total_weight)
absl::Status LowerNllLossBackward(Lowering& l) {
  Tensor grad = l.tensor(0);
  const Tensor scores = l.tensor(1);
  const NllTerms terms = NllTermsOf(l, scores, l.tensor(2), l.optional_tensor(3), l.integer(5));
  if (l.integer(4) == kMean) grad = grad / l.tensor(6);
  if (l.integer(4) == kNone) grad = l.b.Unsqueeze(grad, grad.rank() == 0 ? 0 : 1);
  return l.Return(l.b.Select(terms.hit, MinusWeighted(l, terms, grad), l.b.Literal(0.0)));
}

// Element-wise losses ---------------------------------------------------------

absl::Status LowerMse(Lowering& l) {
  const Tensor difference = l.operand(0) - l.operand(1);
  return l.Return(Reduced(l, difference * difference, 2));
}

// (grad, self, target, reduction)
absl::Status LowerMseBackward(Lowering& l) {
  const Tensor difference = l.operand(1) - l.operand(2);
  const Tensor grad = Unreduced(l, l.operand(0), difference, 3);
  return l.Return(l.b.Literal(2.0) * difference * grad);
}

absl::Status LowerL1(Lowering& l) { return l.Return(Reduced(l, l.b.Abs(l.operand(0) - l.operand(1)), 2)); }

// (self, target, reduction, beta)
absl::Status LowerSmoothL1(Lowering& l) {
  const Tensor distance = l.b.Abs(l.operand(0) - l.operand(1));
  const double beta = l.number(3);
  if (beta == 0) return l.Return(Reduced(l, distance, 2));
  const Tensor near = l.b.Literal(0.5) * distance * distance / l.b.Literal(beta);
  const Tensor far = distance - l.b.Literal(0.5 * beta);
  return l.Return(Reduced(l, l.b.Select(l.b.Lt(distance, l.b.Literal(beta)), near, far), 2));
}

// (grad, self, target, reduction, beta)
absl::Status LowerSmoothL1Backward(Lowering& l) {
  const Tensor difference = l.operand(1) - l.operand(2);
  const double beta = l.number(4);
  const Tensor grad = Unreduced(l, l.operand(0), difference, 3);
  const Tensor above = l.b.Ge(difference, l.b.Literal(beta));
  const Tensor below = l.b.Le(difference, l.b.Literal(-beta));
  const Tensor slope = l.b.Select(above, l.b.Literal(1.0), difference / l.b.Literal(beta));  // NaN stays NaN
  return l.Return(l.b.Select(below, l.b.Literal(-1.0), slope) * grad);
}

// (self, target, reduction, delta)
absl::Status LowerHuber(Lowering& l) {
  const Tensor distance = l.b.Abs(l.operand(0) - l.operand(1));
  const Tensor delta = l.b.Literal(l.number(3));
  const Tensor near = l.b.Literal(0.5) * distance * distance;
  const Tensor far = delta * (distance - l.b.Literal(0.5 * l.number(3)));
  return l.Return(Reduced(l, l.b.Select(l.b.Le(distance, delta), near, far), 2));
}

// (grad, self, target, reduction, delta)
absl::Status LowerHuberBackward(Lowering& l) {
  const Tensor difference = l.operand(1) - l.operand(2);
  const Tensor delta = l.b.Literal(l.number(4));
  const Tensor slope = l.b.Minimum(l.b.Maximum(difference, -delta), delta);
  return l.Return(slope * Unreduced(l, l.operand(0), difference, 3));
}

// Logarithms are bounded below by -100, as in ATen.
Tensor BoundedLog(Lowering& l, const Tensor& x) { return l.b.Maximum(l.b.Log(x), l.b.Literal(-100.0)); }

// (self, target, weight, reduction)
absl::Status LowerBce(Lowering& l) {
  const Tensor p = l.operand(0);
  const Tensor y = l.operand(1);
  const Tensor one = l.b.Literal(1.0);
  const Tensor log_q = l.b.Maximum(l.b.Unary(serialization::FN_LOG1P, -p), l.b.Literal(-100.0));
  Tensor loss = (y - one) * log_q - y * BoundedLog(l, p);
  if (const Tensor weight = l.optional_tensor(2); weight.defined()) loss = loss * weight;
  return l.Return(Reduced(l, loss, 3));
}

// (grad, self, target, weight, reduction)
absl::Status LowerBceBackward(Lowering& l) {
  const Tensor p = l.operand(1);
  const Tensor variance = l.b.Maximum((l.b.Literal(1.0) - p) * p, l.b.Literal(1e-12));
  Tensor result = Unreduced(l, l.operand(0), p, 4) * (p - l.operand(2)) / variance;
  if (const Tensor weight = l.optional_tensor(3); weight.defined()) result = result * weight;
  return l.Return(result);
}

// (self, target, weight, pos_weight, reduction)
absl::Status LowerBceWithLogits(Lowering& l) {
  const Tensor x = l.operand(0);
  const Tensor y = l.operand(1);
  const Tensor one = l.b.Literal(1.0);
  const Tensor pos_weight = l.optional_tensor(3);
  const Tensor log_sigmoid =
      l.b.Minimum(x, l.b.Literal(0.0)) - l.b.Unary(serialization::FN_LOG1P, l.b.Exp(-l.b.Abs(x)));
  Tensor loss;
  if (pos_weight.defined()) {
    const Tensor log_weight = (pos_weight - one) * y + one;
    loss = (one - y) * x - log_weight * log_sigmoid;
  } else {
    loss = (one - y) * x - log_sigmoid;
  }
  if (const Tensor weight = l.optional_tensor(2); weight.defined()) loss = loss * weight;
  return l.Return(Reduced(l, loss, 4));
}

// (self, target, reduction)
absl::Status LowerSoftMargin(Lowering& l) {
  const Tensor exponent = -(l.operand(1) * l.operand(0));
  return l.Return(Reduced(l, l.b.Unary(serialization::FN_LOG1P, l.b.Exp(exponent)), 2));
}

// (grad, self, target, reduction)
absl::Status LowerSoftMarginBackward(Lowering& l) {
  const Tensor x = l.operand(1);
  const Tensor y = l.operand(2);
  const Tensor slope = -(y * l.b.Sigmoid(-(y * x)));
  return l.Return(slope * Unreduced(l, l.operand(0), slope, 3));
}

constexpr OpRow Row(absl::string_view op, LowerFunction lower) { return {op, OpFamily::kComposite, lower}; }

constexpr OpRow kRows[] = {
    Row("aten.binary_cross_entropy.default", LowerBce),
    Row("aten.binary_cross_entropy_backward.default", LowerBceBackward),
    Row("aten.binary_cross_entropy_with_logits.default", LowerBceWithLogits),
    Row("aten.huber_loss.default", LowerHuber),
    Row("aten.huber_loss_backward.default", LowerHuberBackward),
    Row("aten.l1_loss.default", LowerL1),
    Row("aten.mse_loss.default", LowerMse),
    Row("aten.mse_loss_backward.default", LowerMseBackward),
    Row("aten.nll_loss2d_backward.default", LowerNllLossBackward),
    Row("aten.nll_loss2d_forward.default", LowerNllLoss),
    Row("aten.nll_loss_backward.default", LowerNllLossBackward),
    Row("aten.nll_loss_forward.default", LowerNllLoss),
    Row("aten.smooth_l1_loss.default", LowerSmoothL1),
    Row("aten.smooth_l1_loss_backward.default", LowerSmoothL1Backward),
    Row("aten.soft_margin_loss.default", LowerSoftMargin),
    Row("aten.soft_margin_loss_backward.default", LowerSoftMarginBackward),
};

}  // namespace

absl::Span<const OpRow> LossRows() { return kRows; }

}  // namespace cotan::aot
