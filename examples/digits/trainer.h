// SPDX-License-Identifier: Apache-2.0

// The training loop of examples/digits, on the runtime alone.
#ifndef COTAN_EXAMPLES_DIGITS_TRAINER_H_
#define COTAN_EXAMPLES_DIGITS_TRAINER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "examples/digits/digit_images.h"
#include "runtime/session.h"

namespace cotan::digits {

struct TrainerOptions {
  // As in SessionOptions.
  const KernelRegistry* kernels = nullptr;
  Device* device = nullptr;
  int threads = 0;         // 0: the runtime's choice
  uint64_t data_seed = 1;  // of the order in which images are seen
};

// Loss and accuracy over a number of images.
struct Score {
  int64_t right = 0;  // images whose digit had the largest logit
  int64_t images = 0;

  double accuracy_percent() const { return 100.0 * static_cast<double>(right) / static_cast<double>(images); }
  void Add(const Score& other) {
    right += other.right;
    images += other.images;
  }
};

// Result of a training step.
struct StepResult {
  float loss = 0;  // mean over the batch
  Score score;     // of the batch, before the update
};

// A session of the digits artifact with its batch. Movable, not thread-safe.
class Trainer {
 public:
  // Loads the artifact. Errors are the runtime's.
  static absl::StatusOr<Trainer> Create(const std::string& artifact, const TrainerOptions& options);

  // Returns the number of batches in an epoch; the last batch may have fewer than kBatch images.
  static int64_t StepsPerEpoch(const DigitImages& images) { return (images.count() + kBatch - 1) / kBatch; }

  // Runs one step on batch `step` % StepsPerEpoch() of epoch `step` / StepsPerEpoch(). The images
  // depend only on the step and the seed, so that a resumed run continues exactly.
  absl::StatusOr<StepResult> Train(const DigitImages& images, int64_t step);
  // Returns the number of steps in the session's state, those before a checkpoint included.
  absl::StatusOr<int64_t> StepsDone() const;

  // Evaluates all images with the network in evaluation mode.
  absl::StatusOr<Score> Evaluate(const DigitImages& images);

  Session& session() { return *session_; }

 private:
  Trainer() = default;
  // Tensors in pixels_ and labels_, until the next one.
  struct Batch {
    Tensor inputs, labels;
  };
  absl::StatusOr<Batch> Load(const DigitImages& images, absl::Span<const int64_t> order);
  // Returns the score of the `count` images that were loaded last. InvalidArgument: `result` is not logits of them.
  absl::StatusOr<Score> ScoreOf(const Tensor& result, int64_t count) const;

  std::optional<Session> session_;  // always set after Create()
  MethodHandle train_step_, eval_;
  std::vector<float> pixels_;  // of kBatch images
  std::vector<int64_t> labels_;
  std::vector<Tensor> step_results_;  // logits, loss
  std::vector<Tensor> eval_results_;  // logits
  TrainerOptions options_;
  std::vector<int64_t> order_;  // of epoch order_epoch_
  int64_t order_epoch_ = -1;
};

}  // namespace cotan::digits

#endif  // COTAN_EXAMPLES_DIGITS_TRAINER_H_
