// SPDX-License-Identifier: Apache-2.0

#include "examples/digits/trainer.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/dtype.h"
#include "base/status_macros.h"
#include "runtime/training/shuffle.h"

namespace cotan::digits {

absl::StatusOr<Trainer> Trainer::Create(const std::string& artifact, const TrainerOptions& options) {
  Trainer trainer;
  trainer.options_ = options;
  COTAN_ASSIGN_OR_RETURN(const std::shared_ptr<const Program> program, Program::Load(artifact));
  SessionOptions session_options;
  session_options.kernels = options.kernels;
  session_options.device = options.device;
  session_options.threads = options.threads;
  COTAN_ASSIGN_OR_RETURN(trainer.session_, Session::Create(program, session_options));
  COTAN_ASSIGN_OR_RETURN(trainer.train_step_, trainer.session_->FindMethod("train_step"));
  COTAN_ASSIGN_OR_RETURN(trainer.eval_, trainer.session_->FindMethod("eval"));
  trainer.step_results_.resize(2);
  trainer.eval_results_.resize(1);
  trainer.pixels_.resize(kBatch * kPixels);
  trainer.labels_.resize(kBatch);
  return trainer;
}

absl::StatusOr<StepResult> Trainer::Train(const DigitImages& images, int64_t step) {
  const int64_t epoch = step / StepsPerEpoch(images);
  if (epoch != order_epoch_) {
    order_ = training::ShuffledOrder(images.count(), options_.data_seed, static_cast<uint64_t>(epoch));
    order_epoch_ = epoch;
  }
  const int64_t batch = step % StepsPerEpoch(images);
  // The last batch of an epoch has what is left; subspan() ends with the order.
  const auto order = absl::MakeConstSpan(order_).subspan(static_cast<size_t>(batch * kBatch), kBatch);
  COTAN_ASSIGN_OR_RETURN(const Batch loaded, Load(images, order));
  COTAN_RETURN_IF_ERROR(session_->Run(train_step_, {loaded.inputs, loaded.labels}, absl::MakeSpan(step_results_)));
  StepResult result;
  COTAN_ASSIGN_OR_RETURN(result.loss, step_results_[1].Item<float>());
  COTAN_ASSIGN_OR_RETURN(result.score, ScoreOf(step_results_[0], static_cast<int64_t>(order.size())));
  return result;
}

// Batch norm counts the batches that it was trained with.
absl::StatusOr<int64_t> Trainer::StepsDone() const {
  COTAN_ASSIGN_OR_RETURN(const Tensor batches, session_->State("norm1.num_batches_tracked"));
  return batches.Item<int64_t>();
}

absl::StatusOr<Score> Trainer::Evaluate(const DigitImages& images) {
  Score score;
  for (int64_t first = 0; first < images.count(); first += kBatch) {
    std::vector<int64_t> order(static_cast<size_t>(std::min(kBatch, images.count() - first)));
    std::iota(order.begin(), order.end(), first);
    COTAN_ASSIGN_OR_RETURN(const Batch loaded, Load(images, order));
    COTAN_RETURN_IF_ERROR(session_->Run(eval_, {loaded.inputs}, absl::MakeSpan(eval_results_)));
    COTAN_ASSIGN_OR_RETURN(const Score part, ScoreOf(eval_results_[0], static_cast<int64_t>(order.size())));
    score.Add(part);
  }
  return score;
}

absl::StatusOr<Trainer::Batch> Trainer::Load(const DigitImages& images, absl::Span<const int64_t> order) {
  const auto count = static_cast<int64_t>(order.size());
  const absl::Span<float> pixels = absl::MakeSpan(pixels_).first(order.size() * static_cast<size_t>(kPixels));
  const absl::Span<int64_t> labels = absl::MakeSpan(labels_).first(order.size());
  FillBatch(images, order, pixels, labels);
  Batch batch;
  COTAN_ASSIGN_OR_RETURN(batch.inputs, Tensor::Borrow(pixels, {count, 1, kSide, kSide}));
  COTAN_ASSIGN_OR_RETURN(batch.labels, Tensor::Borrow(labels, {count}));
  return batch;
}

absl::StatusOr<Score> Trainer::ScoreOf(const Tensor& result, int64_t count) const {
  const int64_t sizes[] = {count, kClasses};
  if (result.dtype() != DType::kFloat32 || result.sizes() != absl::MakeConstSpan(sizes)) {
    return absl::InvalidArgumentError(absl::StrCat("logits are ", result.ToString(), " instead of f32[", count, ",",
                                                   kClasses, "]; compile examples/digits without --precision"));
  }
  COTAN_ASSIGN_OR_RETURN(const Tensor logits, result.ToHost());
  const float* row = logits.data<float>();
  Score score{0, count};
  for (int64_t i = 0; i < score.images; ++i, row += kClasses) {
    score.right += std::max_element(row, row + kClasses) - row == labels_[static_cast<size_t>(i)];
  }
  return score;
}

}  // namespace cotan::digits
