// SPDX-License-Identifier: Apache-2.0

// A training loop over a dataset: steps, learning rates, evaluations, early stopping and checkpoints.
#ifndef COTAN_RUNTIME_TRAINING_TRAINER_H_
#define COTAN_RUNTIME_TRAINING_TRAINER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/session/session.h"
#include "runtime/tensor/tensor.h"
#include "runtime/training/batch_feed.h"
#include "runtime/training/dataset.h"
#include "runtime/training/early_stopping.h"
#include "runtime/training/exponential_average.h"
#include "runtime/training/loss_curve.h"
#include "runtime/training/schedule.h"
#include "runtime/training/score.h"
#include "runtime/training/training_checkpoint.h"

namespace cotan::training {

struct TrainerOptions {
  // Columns of the dataset for the inputs of the model, which come first, and for the targets of the loss, in order.
  // Empty `inputs`: all columns that are not targets.
  std::vector<std::string> inputs = {};
  std::vector<std::string> targets = {};
  Normalization normalization = {};  // of inputs, not of targets

  int64_t epochs = 1;
  int64_t batch = 0;       // examples; 0: the largest size of the program
  int64_t accumulate = 1;  // batches in a step, whose gradients are averaged; needs the method "accumulate"
  // Seed of the orders of examples, and of the session's generator, which starts at block 0. Unset: the seed that the
  // session's generator has, 0 if the program draws no random numbers.
  std::optional<uint64_t> seed = {};

  std::optional<double> lr = {};  // of the first group; other groups change in proportion. Unset: the program's
  ScheduleOptions schedule = {};
  // Limits of gradients; need hyperparameters of these names. Unset: the program's.
  std::optional<double> clip_norm = {};
  std::optional<double> clip_value = {};
  // Decay of exponential averages of the parameters, which then replace them in evaluations and SaveModel().
  std::optional<double> ema = {};

  Metric metric = Metric::kAccuracy;
  EarlyStoppingOptions early_stopping = {};  // larger_is_better is that of the metric
  int64_t evaluate_every = 0;                // steps; 0: after each epoch
  int64_t checkpoint_every = 0;              // steps; 0: after each epoch
  std::string checkpoint = {};               // path; empty: none
};

// One step: an update of the parameters.
struct StepReport {
  int64_t step = 0;      // from 1, those before a resume included
  int64_t epoch = 0;     // from 1
  int64_t examples = 0;  // of its batches
  double loss = 0;       // mean over its examples, before the update
  double lr = 0;         // of the first group
};

struct EvaluationReport {
  int64_t step = 0;
  int64_t epoch = 0;
  double score = 0;
  bool improved = false;  // the best score so far
};

// Calls of Trainer::Run() to its caller; each may be null. An error ends the run.
struct TrainerHooks {
  std::function<absl::Status(const StepReport&)> on_step = nullptr;
  std::function<absl::Status(const EvaluationReport&)> on_evaluation = nullptr;
  std::function<absl::Status()> before_checkpoint = nullptr;
  std::function<bool()> should_stop = nullptr;  // asked before each step
};

// Trains the states of a session, which outlives it. Every number that it computes depends only on the program, the
// states, the data and the options: a run that continues from a checkpoint has the bits of one that was not
// interrupted. Movable; not thread-safe, and used like a call of the session. After an error of Step() or Run() the
// last checkpoint is as it was; states are those that the failed call left.
class Trainer {
 public:
  // `held_out` may be absent; then there are no evaluations.
  // InvalidArgument: an option is out of range; the program lacks what an option needs, such as the method "accumulate"
  // or the hyperparameter "clip_norm"; or data do not fit the program. The message names the option and the compile
  // option, or the column.
  // NotFound: there is no such column, or the program has no "train_step", or, with `held_out`, no "eval".
  // Unimplemented: accumulated gradients are neither f32 nor f64.
  // Errors of BatchFeed::Create(), ExponentialAverage::Create() and Session.
  static absl::StatusOr<Trainer> Create(Session* session, const Dataset& train, const std::optional<Dataset>& held_out,
                                        const TrainerOptions& options);

  // Continues from a file of Save(). Call it before the first step. The number of epochs may differ from that of the
  // interrupted run, unless the schedule depends on it.
  // InvalidArgument: the file is not a training checkpoint, or has other data or options, which the message names.
  // Errors of Session::LoadCheckpoint().
  absl::Status Resume(const std::string& path);

  // Runs steps until done(), with evaluations and checkpoints when they are due, and writes a last checkpoint. A run
  // that `should_stop` ends continues from that checkpoint with the same bits.
  absl::Status Run(const TrainerHooks& hooks);

  // Returns true after the last step or if early stopping ended the run.
  bool done() const { return step_ >= total_steps_ || early_stopping_.should_stop(); }
  // Runs one step. Aborted: the loss is not finite. Errors of Session::Run().
  absl::StatusOr<StepReport> Step();
  // Scores the held-out data, with the averages of the parameters if there are some.
  // FailedPrecondition: there are no held-out data.
  // Errors of Session::Run() and Score::Add().
  absl::StatusOr<EvaluationReport> Evaluate();

  // Writes a checkpoint for Resume(). Errors of SaveTrainingCheckpoint().
  absl::Status Save(const std::string& path) const;
  // Writes the states for use without this trainer, with averages in place of the parameters if there are some. Errors
  // of Session::SaveCheckpoint() and SetState().
  absl::Status SaveModel(const std::string& path);

  int64_t step() const { return step_; }  // steps done
  int64_t total_steps() const { return total_steps_; }
  int64_t steps_per_epoch() const { return steps_per_epoch_; }
  int64_t batch() const { return batch_; }
  const EarlyStopping::State& best() const { return early_stopping_.state(); }
  const CurvePoints& losses() const { return losses_; }
  const CurvePoints& scores() const { return scores_; }

 private:
  // A loss of batches.
  struct LossSum {
    double sum = 0;  // of losses times examples
    int64_t examples = 0;
  };

  Trainer(Session* session, const TrainerOptions& options, BatchFeed feed, EarlyStopping early_stopping)
      : session_(session), options_(options), feed_(std::move(feed)), early_stopping_(early_stopping) {}
  absl::Status FindMethods();
  absl::Status FindAccumulators();
  absl::Status SetSizes();
  absl::Status SetHyperparameters();
  absl::Status SetSeed();
  absl::Status SetHeldOut(const Dataset& held_out);
  void RecordOptions(const std::optional<Dataset>& held_out);
  absl::Status CheckOptionsOf(const TrainingCheckpoint& checkpoint, const std::string& path) const;

  absl::Status SetRates();
  absl::Status RunBatch(MethodHandle method, int64_t batch, LossSum& loss);
  absl::Status AverageGradients(int64_t batches);
  absl::StatusOr<Score> ScoreHeldOut();
  absl::Status Due(const TrainerHooks& hooks);
  absl::Status WriteCheckpoint(const TrainerHooks& hooks);

  Session* session_;
  TrainerOptions options_;
  BatchFeed feed_;
  EarlyStopping early_stopping_;
  std::optional<BatchFeed> held_out_feed_;
  std::optional<Column> held_out_targets_;
  std::optional<Schedule> schedule_;  // set by Create()
  std::optional<ExponentialAverage> average_;
  MethodHandle train_step_, accumulate_, apply_, eval_;
  std::vector<std::string> accumulators_;  // names of states
  std::vector<Tensor> results_, eval_results_;
  size_t loss_result_ = 0;          // index into results_
  std::vector<int> groups_;         // numbers of the parameter groups
  std::vector<double> base_rates_;  // by group
  std::vector<double> rates_;       // that the session has
  uint64_t seed_ = 0;
  int64_t batch_ = 0;
  int64_t batches_per_epoch_ = 0;
  int64_t steps_per_epoch_ = 0;
  int64_t total_steps_ = 0;
  int64_t step_ = 0;
  int64_t saved_step_ = -1;     // of the last checkpoint
  std::vector<int64_t> order_;  // of epoch order_epoch_
  int64_t order_epoch_ = -1;
  CurvePoints losses_, scores_;
  std::vector<std::pair<std::string, std::string>> recorded_options_;
};

}  // namespace cotan::training

#endif  // COTAN_RUNTIME_TRAINING_TRAINER_H_
