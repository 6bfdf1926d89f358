// SPDX-License-Identifier: Apache-2.0

#include "aot/decompositions/loss_ops.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/unbind.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "aot/capture/recorder.h"

namespace cotan::aot {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

at::Tensor Reduced(const at::Tensor& losses, int64_t reduction) {
  if (reduction == at::Reduction::None) return losses;
  return reduction == at::Reduction::Mean ? at::mean(losses) : at::sum(losses);
}

at::Tensor Range(int64_t count) { return at::arange(count, at::TensorOptions(at::kLong)); }

// Margins -----------------------------------------------------------------------

// `self` is [N, C] or [C], `target` is [N] or [].
at::Tensor MultiMarginLoss(const at::Tensor& self, const at::Tensor& target, const at::Scalar& p,
                           const at::Scalar& margin, const OptionalTensor& weight, int64_t reduction) {
  TORCH_CHECK(p.toDouble() == 1 || p.toDouble() == 2, "multi_margin_loss: 'p' is ", p.toDouble(),
              ", which is neither 1 nor 2");
  const at::Tensor x = self.dim() == 1 ? self.unsqueeze(0) : self;
  const at::Tensor y = target.dim() == 0 ? target.unsqueeze(0) : target;
  const at::Tensor column = y.unsqueeze(1);
  at::Tensor excess = at::relu(x - at::gather(x, 1, column) + margin);
  if (p.toDouble() != 1) excess = at::pow(excess, p);
  if (weight.has_value() && weight->defined()) excess = excess * at::index_select(*weight, 0, y).unsqueeze(1);
  const at::Tensor others = at::ne(Range(x.size(1)), column);
  const at::Tensor kept = at::where(others, excess, at::Scalar(0.0));
  const at::Tensor losses = at::sum(kept, at::IntArrayRef{1}) / static_cast<double>(x.size(1));
  return Reduced(self.dim() == 1 ? losses.squeeze(0) : losses, reduction);
}

// `self` and `target` are [N, C] or [C]; a row's targets end at the first negative one.
at::Tensor MultiLabelMarginLoss(const at::Tensor& self, const at::Tensor& target, int64_t reduction) {
  const at::Tensor x = self.dim() < 2 ? self.reshape({1, -1}) : self;
  const at::Tensor y = target.dim() < 2 ? target.reshape({1, -1}) : target;
  const int64_t classes = x.size(1);
  const at::Tensor valid = at::eq(at::cumsum(at::where(y < 0, at::Scalar(1), at::zeros_like(y)), 1), 0);
  const at::Tensor label = at::clamp(y, 0);
  const at::Tensor is_label =
      at::logical_and(valid.unsqueeze(2), at::eq(label.unsqueeze(2), Range(classes))).any(1);  // [N, C]
  const at::Tensor scores = at::gather(x, 1, label).unsqueeze(2);
  const at::Tensor excess = at::relu(1 - scores + x.unsqueeze(1));  // [N, label, class]
  const at::Tensor counts = at::logical_and(valid.unsqueeze(2), at::eq(is_label.unsqueeze(1), false));
  const at::Tensor sum = at::sum(at::where(counts, excess, at::Scalar(0.0)), at::IntArrayRef{1, 2});
  const at::Tensor losses = sum / static_cast<double>(classes);
  return Reduced(self.dim() < 2 ? losses.squeeze(0) : losses, reduction);
}

// Connectionist temporal classification ------------------------------------------

// Represents log 0 by a finite number, so that differences are defined.
constexpr double kLogZero = -1e30;

struct CtcProblem {
  at::Tensor log_probs;       // [T, N, C]
  at::Tensor targets;         // [N, S], i64; padding is ignored
  at::Tensor input_lengths;   // [N]
  at::Tensor target_lengths;  // [N]
  int64_t blank = 0;
};

// Splits concatenated targets into rows [N, S] of a padded tensor.
at::Tensor RowsOf(const at::Tensor& targets, const at::Tensor& lengths) {
  const at::Tensor ends = at::cumsum(lengths, 0);
  const at::Tensor place = (ends - lengths).unsqueeze(1) + Range(targets.size(0));
  const at::Tensor inside = at::clamp(place, 0, targets.size(0) - 1);
  return at::index_select(targets, 0, inside.reshape({-1})).view(inside.sizes());
}

// Shifts x by `count` to the right along its last dimension and fills with log 0.
at::Tensor Shifted(const at::Tensor& x, int64_t count) {
  const at::Tensor border = at::full({x.size(0), count}, kLogZero, x.options().requires_grad(false));
  return at::cat({border, x.slice(1, 0, x.size(1) - count)}, 1);
}

// Returns the negative log likelihood of each row of labels, by the forward algorithm of CTC.
at::Tensor CtcLosses(const CtcProblem& p) {
  const int64_t steps = p.log_probs.size(0), batch = p.log_probs.size(1);
  // Labels with blanks before, between and after them.
  const int64_t length = 2 * p.targets.size(1) + 1;
  const at::Tensor blanks = at::full({batch, p.targets.size(1)}, p.blank, at::TensorOptions(at::kLong));
  const at::Tensor labels = at::cat({at::stack({blanks, p.targets}, 2).view({batch, length - 1}),
                                     at::full({batch, 1}, p.blank, at::TensorOptions(at::kLong))},
                                    1);
  const at::Tensor emitted = at::gather(p.log_probs, 2, labels.unsqueeze(0).expand({steps, batch, length}));
  const std::vector<at::Tensor> emissions = at::unbind(emitted, 0);
  // A label may directly follow a different label without a blank.
  at::Tensor skips = at::ne(labels, p.blank);
  if (length > 2) {
    const at::Tensor differs = at::ne(labels.slice(1, 2), labels.slice(1, 0, length - 2));
    skips = at::logical_and(skips, at::cat({skips.slice(1, 0, 2), differs}, 1));
  }
  const at::Tensor place = Range(length);
  at::Tensor alpha = at::where(place < 2, emissions[0], at::Scalar(kLogZero));
  for (int64_t t = 1; t < steps; ++t) {
    at::Tensor sum = at::logaddexp(alpha, Shifted(alpha, 1));
    if (length > 2) sum = at::logaddexp(sum, at::where(skips, Shifted(alpha, 2), at::Scalar(kLogZero)));
    const at::Tensor next = sum + emissions[static_cast<size_t>(t)];
    alpha = at::where((p.input_lengths > t).unsqueeze(1), next, alpha);
  }
  const at::Tensor last = (p.target_lengths * 2).unsqueeze(1);
  const at::Tensor end = at::gather(alpha, 1, last).squeeze(1);
  const at::Tensor before = at::gather(alpha, 1, at::clamp(last - 1, 0)).squeeze(1);
  const at::Tensor losses = -at::where(p.target_lengths > 0, at::logaddexp(end, before), end);
  // A row without steps emits no labels.
  const at::Tensor without_steps = at::where(p.target_lengths > 0, at::Scalar(-kLogZero), at::Scalar(0.0));
  return at::where(p.input_lengths > 0, losses, without_steps);
}

// Returns zeros with the gradient exp(log_probs), which ATen's gradient contains in addition: that is the
// gradient with respect to the scores before log_softmax (ctc_loss_backward in
// aten/src/ATen/native/LossCTC.cpp).
at::Tensor SoftmaxGradient(const CtcProblem& p) {
  const at::Tensor sums = at::logsumexp(p.log_probs, at::IntArrayRef{2});  // [T, N]
  const at::Tensor step = Range(p.log_probs.size(0)).unsqueeze(1);
  const at::Tensor counted = at::where(step < p.input_lengths, sums - sums.detach(), at::Scalar(0.0));
  return at::sum(counted, at::IntArrayRef{0});
}

at::Tensor CtcLossOf(const at::Tensor& log_probs, const at::Tensor& targets, const at::Tensor& input_lengths,
                     const at::Tensor& target_lengths, int64_t blank, int64_t reduction, bool zero_infinity) {
  TORCH_CHECK(blank >= 0 && blank < log_probs.size(-1), "ctc_loss: 'blank' is ", blank, ", which is not one of the ",
              log_probs.size(-1), " labels of 'log_probs'");
  const bool unbatched = log_probs.dim() == 2;
  CtcProblem p;
  p.log_probs = unbatched ? log_probs.unsqueeze(1) : log_probs;
  p.input_lengths = input_lengths.to(at::kLong).reshape({-1});
  p.target_lengths = target_lengths.to(at::kLong).reshape({-1});
  p.blank = blank;
  const at::Tensor labels = targets.to(at::kLong);
  if (labels.dim() == 2) {
    p.targets = labels;
  } else {
    p.targets = unbatched ? labels.unsqueeze(0) : RowsOf(labels, p.target_lengths);
  }
  const at::Tensor likelihood = CtcLosses(p);
  const at::Tensor impossible = likelihood > -kLogZero / 2;
  const double infinity = zero_infinity ? 0 : std::numeric_limits<double>::infinity();
  at::Tensor losses = at::where(impossible, at::Scalar(infinity), likelihood + SoftmaxGradient(p));
  if (reduction == at::Reduction::Mean) {
    return at::mean(losses / at::clamp(p.target_lengths, 1).to(losses.scalar_type()));
  }
  if (reduction == at::Reduction::Sum) return at::sum(losses);
  return unbatched ? losses.squeeze(0) : losses;
}

at::Tensor LengthsOf(at::IntArrayRef lengths) {
  std::vector<at::Tensor> each;
  for (const int64_t length : lengths) each.push_back(at::full({1}, length, at::TensorOptions(at::kLong)));
  return at::cat(each, 0);
}

// Throws unless there is a length of input and of target for each sequence, none longer than what the tensors hold.
void CheckLengths(const at::Tensor& log_probs, const at::Tensor& targets, at::IntArrayRef input_lengths,
                  at::IntArrayRef target_lengths) {
  const int64_t steps = log_probs.size(0), batch = log_probs.dim() == 2 ? 1 : log_probs.size(1);
  TORCH_CHECK(static_cast<int64_t>(input_lengths.size()) == batch, "ctc_loss: 'input_lengths' has ",
              input_lengths.size(), " elements for ", batch, " sequences");
  TORCH_CHECK(static_cast<int64_t>(target_lengths.size()) == batch, "ctc_loss: 'target_lengths' has ",
              target_lengths.size(), " elements for ", batch, " sequences");
  for (const int64_t length : input_lengths) {
    TORCH_CHECK(length >= 0 && length <= steps, "ctc_loss: 'input_lengths' has the element ", length,
                ", which is not between 0 and ", steps, ", the number of steps of 'log_probs'");
  }
  int64_t sum = 0;
  for (const int64_t length : target_lengths) {
    sum += length;
    TORCH_CHECK(length >= 0 && (targets.dim() != 2 || length <= targets.size(1)),
                "ctc_loss: 'target_lengths' has the element ", length, " for 'targets' of sizes ", targets.sizes());
  }
  TORCH_CHECK(targets.dim() != 1 || targets.size(0) == sum, "ctc_loss: 'targets' has ", targets.numel(),
              " labels, but 'target_lengths' has the sum ", sum);
}

at::Tensor CtcLossIntList(const at::Tensor& log_probs, const at::Tensor& targets, at::IntArrayRef input_lengths,
                          at::IntArrayRef target_lengths, int64_t blank, int64_t reduction, bool zero_infinity) {
  CheckLengths(log_probs, targets, input_lengths, target_lengths);
  return CtcLossOf(log_probs, targets, LengthsOf(input_lengths), LengthsOf(target_lengths), blank, reduction,
                   zero_infinity);
}

}  // namespace

void CaptureClassWeights(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  Recorder* recorder = CurrentRecorder();
  if (recorder == nullptr || op.schema().name() != "aten::cross_entropy_loss") return;
  c10::IValue& weight = torch::jit::peek(stack, 2, op.schema().arguments().size());
  if (!weight.isTensor() || !weight.toTensor().defined()) return;
  const at::Tensor& tensor = weight.toTensor();
  if (tensor.requires_grad() || at::functionalization::impl::isFunctionalTensor(tensor)) return;
  weight = recorder->Constant(tensor);
}

void AddLossRewrites(torch::Library& library) {
  library.impl("ctc_loss.IntList", CtcLossIntList);
  library.impl("ctc_loss.Tensor", CtcLossOf);
  library.impl("multi_margin_loss", MultiMarginLoss);
  library.impl("multilabel_margin_loss", MultiLabelMarginLoss);
}

}  // namespace cotan::aot
