#include "examples/digits/trainer.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "kernels/cpu/register_cpu.h"

namespace cotan::digits {
namespace {

constexpr size_t kBatchImages = static_cast<size_t>(kBatch);

}  // namespace

absl::StatusOr<Trainer> Trainer::Create(const std::string& artifact, const TrainerOptions& options) {
  Trainer trainer;
  trainer.options_ = options;
  COTAN_ASSIGN_OR_RETURN(const std::shared_ptr<const Program> program, Program::Load(artifact));
  SessionOptions session_options;
  session_options.kernels = &CpuKernels();
  session_options.threads = options.threads;
  COTAN_ASSIGN_OR_RETURN(trainer.session_, Session::Create(program, session_options));
  COTAN_ASSIGN_OR_RETURN(trainer.train_step_, trainer.session_->FindMethod("train_step"));
  COTAN_ASSIGN_OR_RETURN(trainer.eval_, trainer.session_->FindMethod("eval"));
  trainer.step_results_.resize(2);
  trainer.eval_results_.resize(1);
  COTAN_ASSIGN_OR_RETURN(trainer.inputs_,
                         Tensor::Empty(DType::kFloat32, {kBatch, 1, kSide, kSide}));
  COTAN_ASSIGN_OR_RETURN(trainer.labels_, Tensor::Empty(DType::kInt64, {kBatch}));
  return trainer;
}

absl::StatusOr<StepResult> Trainer::Train(const DigitImages& images, int64_t step) {
  const int64_t epoch = step / StepsPerEpoch(images);
  if (epoch != order_epoch_) {
    order_ = ShuffledOrder(images.count(), options_.data_seed, static_cast<uint64_t>(epoch));
    order_epoch_ = epoch;
  }
  const int64_t batch = step % StepsPerEpoch(images);
  Load(images, absl::MakeConstSpan(order_).subspan(static_cast<size_t>(batch) * kBatchImages, kBatchImages));
  COTAN_RETURN_IF_ERROR(
      session_->Run(train_step_, {inputs_, labels_}, absl::MakeSpan(step_results_)));
  StepResult result;
  COTAN_ASSIGN_OR_RETURN(result.loss, step_results_[1].Item<float>());
  result.score = ScoreOf(step_results_[0], kBatch);
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
    const int64_t counted = std::min(kBatch, images.count() - first);
    std::vector<int64_t> order(kBatchImages, first);
    std::iota(order.begin(), order.begin() + counted, first);
    Load(images, order);
    COTAN_RETURN_IF_ERROR(session_->Run(eval_, {inputs_}, absl::MakeSpan(eval_results_)));
    score.Add(ScoreOf(eval_results_[0], counted));
  }
  return score;
}

void Trainer::Load(const DigitImages& images, absl::Span<const int64_t> order) {
  FillBatch(images, order, absl::MakeSpan(inputs_.data<float>(), kBatchImages * kPixels),
            absl::MakeSpan(labels_.data<int64_t>(), kBatchImages));
}

Score Trainer::ScoreOf(const Tensor& logits, int64_t counted) const {
  const int64_t* labels = labels_.data<int64_t>();
  const float* row = logits.data<float>();
  Score score{0, counted};
  for (int64_t i = 0; i < counted; ++i, row += kClasses) {
    score.right += std::max_element(row, row + kClasses) - row == labels[i];
  }
  return score;
}

}  // namespace cotan::digits
