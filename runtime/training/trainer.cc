// SPDX-License-Identifier: Apache-2.0

#include "runtime/training/trainer.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "runtime/tensor/scalar.h"
#include "runtime/training/shuffle.h"

namespace cotan::training {
namespace {

using serialization::Method;
using serialization::State;

constexpr absl::string_view kTrainStep = "train_step";
constexpr absl::string_view kAccumulate = "accumulate";
constexpr absl::string_view kApply = "apply_optimizer";
constexpr absl::string_view kEval = "eval";

absl::Status CheckAtLeast(absl::string_view option, int64_t value, int64_t least) {
  if (value >= least) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(option, " = ", value, "; expected at least ", least));
}

absl::Status CheckOptions(const TrainerOptions& options) {
  COTAN_RETURN_IF_ERROR(CheckAtLeast("epochs", options.epochs, 1));
  COTAN_RETURN_IF_ERROR(CheckAtLeast("batch", options.batch, 0));
  COTAN_RETURN_IF_ERROR(CheckAtLeast("accumulate", options.accumulate, 1));
  COTAN_RETURN_IF_ERROR(CheckAtLeast("evaluate_every", options.evaluate_every, 0));
  COTAN_RETURN_IF_ERROR(CheckAtLeast("checkpoint_every", options.checkpoint_every, 0));
  if (!options.lr.has_value() || (std::isfinite(*options.lr) && *options.lr > 0)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("lr = ", *options.lr, "; expected a number above 0"));
}

// Returns the columns of the inputs, then those of the targets.
absl::StatusOr<Dataset> Arrange(const Dataset& data, const TrainerOptions& options) {
  std::vector<std::string> names = options.inputs;
  if (names.empty()) {
    for (const Column& column : data.columns()) {
      const auto& targets = options.targets;
      if (std::find(targets.begin(), targets.end(), column.name) == targets.end()) names.push_back(column.name);
    }
  }
  names.insert(names.end(), options.targets.begin(), options.targets.end());
  return data.Select(names);
}

// Returns the index of the loss among the results of a method.
size_t LossResult(const Program& program, const Method& method) {
  const std::string name = method.signature().loss_output().empty() ? "loss" : method.signature().loss_output();
  const int results = method.outputs_size() - static_cast<int>(method.num_saved());
  for (int i = 0; i < results; ++i) {
    if (program.OutputName(method, i) == name) return static_cast<size_t>(i);
  }
  return static_cast<size_t>(std::max(results - 1, 0));
}

absl::StatusOr<double> ScalarOf(const Tensor& tensor) {
  COTAN_ASSIGN_OR_RETURN(const Tensor host, tensor.ToHost());
  if (host.num_elements() != 1) {
    return absl::InvalidArgumentError(absl::StrCat("the loss is ", host.ToString(), "; expected one number"));
  }
  return DecodeScalar({static_cast<const char*>(host.address()), ByteSize(host.dtype())}, host.dtype());
}

// Returns the numbers of the parameter groups that have a learning rate, in ascending order. Some may be missing: a
// group without parameters has no rate.
std::vector<int> FindGroups(const Program& program) {
  std::vector<int> groups;
  for (const State& state : program.artifact().states()) {
    absl::string_view name = state.name();
    int group = 0;
    if (state.role() == State::HYPERPARAMETER && absl::ConsumePrefix(&name, "hyperparameter.lr.") &&
        absl::SimpleAtoi(name, &group)) {
      groups.push_back(group);
    }
  }
  std::sort(groups.begin(), groups.end());
  return groups;
}

template <typename T>
void Scale(const Tensor& tensor, double factor) {
  T* values = tensor.data<T>();
  for (int64_t i = 0; i < tensor.num_elements(); ++i) values[i] = static_cast<T>(values[i] * factor);
}

// Returns indexes [first, first + count), the last ones repeated beyond `end`.
std::vector<int64_t> PaddedRange(int64_t first, int64_t count, int64_t end) {
  std::vector<int64_t> rows;
  for (int64_t i = first; i < first + count; ++i) rows.push_back(std::min(i, end - 1));
  return rows;
}

}  // namespace

// --- creation ----------------------------------------------------------------

absl::StatusOr<Trainer> Trainer::Create(Session* session, const Dataset& train, const std::optional<Dataset>& held_out,
                                        const TrainerOptions& options) {
  COTAN_RETURN_IF_ERROR(CheckOptions(options));
  COTAN_ASSIGN_OR_RETURN(Dataset arranged, Arrange(train, options));
  const auto inputs = static_cast<int>(arranged.columns().size() - options.targets.size());
  const Program& program = session->program();
  if (!program.FindMethod(kTrainStep).ok()) {
    return absl::NotFoundError(
        "the program has no method 'train_step'; compile it with a loss and an optimizer "
        "(CompileOptions.loss, CompileOptions.optimizer)");
  }
  COTAN_ASSIGN_OR_RETURN(BatchFeed feed,
                         BatchFeed::Create(program, kTrainStep, std::move(arranged), options.normalization, inputs));
  EarlyStoppingOptions stopping = options.early_stopping;
  stopping.larger_is_better = LargerIsBetter(options.metric);
  COTAN_ASSIGN_OR_RETURN(const EarlyStopping early_stopping, EarlyStopping::Create(stopping));
  Trainer trainer(session, options, std::move(feed), early_stopping);
  COTAN_RETURN_IF_ERROR(trainer.FindMethods());
  COTAN_RETURN_IF_ERROR(trainer.SetSizes());
  COTAN_RETURN_IF_ERROR(trainer.SetHyperparameters());
  COTAN_RETURN_IF_ERROR(trainer.SetSeed());
  if (held_out.has_value()) COTAN_RETURN_IF_ERROR(trainer.SetHeldOut(*held_out));
  if (options.ema.has_value()) {
    COTAN_ASSIGN_OR_RETURN(trainer.average_, ExponentialAverage::Create(session, *options.ema));
  }
  trainer.RecordOptions(held_out);
  return trainer;
}

absl::Status Trainer::FindMethods() {
  COTAN_ASSIGN_OR_RETURN(train_step_, session_->FindMethod(kTrainStep));
  results_.resize(static_cast<size_t>(session_->NumResults(train_step_)));
  loss_result_ = LossResult(session_->program(), session_->program().method(train_step_.index));
  if (results_.empty()) return absl::InvalidArgumentError("the method 'train_step' returns no loss");
  if (options_.accumulate == 1) return absl::OkStatus();
  if (!session_->FindMethod(kAccumulate).ok() || !session_->FindMethod(kApply).ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("accumulate = ", options_.accumulate,
                     ", but the program has no methods 'accumulate' and 'apply_optimizer'; compile it with "
                     "CompileOptions.methods.accumulate"));
  }
  COTAN_ASSIGN_OR_RETURN(accumulate_, session_->FindMethod(kAccumulate));
  COTAN_ASSIGN_OR_RETURN(apply_, session_->FindMethod(kApply));
  return FindAccumulators();
}

absl::Status Trainer::FindAccumulators() {
  for (const State& state : session_->program().artifact().states()) {
    if (state.role() != State::GRADIENT_ACCUMULATOR) continue;
    COTAN_ASSIGN_OR_RETURN(const Tensor value, session_->State(state.name()));
    if (value.dtype() != DType::kFloat32 && value.dtype() != DType::kFloat64) {
      return absl::UnimplementedError(
          absl::StrCat("accumulated gradient '", state.name(), "' is ", value.ToString(), "; expected f32 or f64"));
    }
    accumulators_.push_back(state.name());
  }
  return absl::OkStatus();
}

absl::Status Trainer::SetSizes() {
  const int64_t examples = feed_.data().size();
  batch_ = options_.batch == 0 ? feed_.largest_batch() : options_.batch;
  if (batch_ < feed_.smallest_batch() || batch_ > feed_.largest_batch()) {
    return absl::InvalidArgumentError(absl::StrCat("batch = ", batch_, ", but the program takes ",
                                                   feed_.smallest_batch(), " to ", feed_.largest_batch(),
                                                   " examples; compile it for other sizes"));
  }
  batch_ = std::min(batch_, std::max(examples, feed_.smallest_batch()));
  // The rest of an epoch is a smaller batch if the program takes it, and skipped otherwise.
  const int64_t rest = examples % batch_;
  batches_per_epoch_ = examples / batch_ + (rest != 0 && rest >= feed_.smallest_batch() ? 1 : 0);
  if (batches_per_epoch_ == 0) {
    return absl::InvalidArgumentError(absl::StrCat("there are ", examples, " examples, fewer than a batch of ", batch_,
                                                   "; compile the program with a dynamic batch "
                                                   "(CompileOptions.dynamic_dims)"));
  }
  steps_per_epoch_ = batches_per_epoch_ / options_.accumulate + (batches_per_epoch_ % options_.accumulate != 0 ? 1 : 0);
  if (__builtin_mul_overflow(steps_per_epoch_, options_.epochs, &total_steps_)) {
    return absl::InvalidArgumentError(absl::StrCat("epochs = ", options_.epochs, " is too large"));
  }
  COTAN_ASSIGN_OR_RETURN(schedule_, Schedule::Create(options_.schedule, total_steps_, steps_per_epoch_));
  return absl::OkStatus();
}

absl::Status Trainer::SetHyperparameters() {
  groups_ = FindGroups(session_->program());
  for (const int group : groups_) {
    COTAN_ASSIGN_OR_RETURN(const double rate, session_->Hyperparameter("lr", group));
    base_rates_.push_back(rate);
  }
  rates_ = base_rates_;
  if (base_rates_.empty()) return absl::InvalidArgumentError("the program has no hyperparameter 'lr' to train with");
  if (options_.lr.has_value()) {
    const double first = base_rates_[0];
    for (double& rate : base_rates_) rate = first == 0 ? *options_.lr : rate / first * *options_.lr;
  }
  const std::pair<const char*, const std::optional<double>&> limits[] = {{"clip_norm", options_.clip_norm},
                                                                         {"clip_value", options_.clip_value}};
  for (const auto& [name, limit] : limits) {
    if (!limit.has_value()) continue;
    if (!(*limit > 0)) {
      return absl::InvalidArgumentError(absl::StrCat(name, " = ", *limit, "; expected a number above 0"));
    }
    const absl::Status status = session_->SetHyperparameter(name, *limit);
    if (absl::IsNotFound(status)) {
      return absl::InvalidArgumentError(absl::StrCat(name, " = ", *limit,
                                                     ", but the program does not clip gradients so; compile it with "
                                                     "OptimizerConfig.",
                                                     name));
    }
    COTAN_RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

absl::Status Trainer::SetSeed() {
  const absl::StatusOr<RngState> rng = session_->Rng();
  if (rng.ok()) seed_ = static_cast<uint64_t>(rng->seed);
  if (!options_.seed.has_value()) return absl::OkStatus();
  seed_ = *options_.seed;
  return rng.ok() ? session_->SetRng({static_cast<int64_t>(seed_), 0}) : absl::OkStatus();
}

absl::Status Trainer::SetHeldOut(const Dataset& held_out) {
  if (options_.targets.empty()) {
    return absl::InvalidArgumentError("held-out data need targets to compare with: set TrainerOptions.targets");
  }
  if (!session_->FindMethod(kEval).ok()) {
    return absl::NotFoundError(
        "the program has no method 'eval' for held-out data; compile it with CompileOptions.methods.eval");
  }
  COTAN_ASSIGN_OR_RETURN(eval_, session_->FindMethod(kEval));
  eval_results_.resize(static_cast<size_t>(session_->NumResults(eval_)));
  if (eval_results_.empty()) return absl::InvalidArgumentError("the method 'eval' returns nothing to score");
  COTAN_ASSIGN_OR_RETURN(const Dataset arranged, Arrange(held_out, options_));
  const size_t inputs = arranged.columns().size() - options_.targets.size();
  held_out_targets_ = arranged.columns()[inputs];
  std::vector<Column> columns(arranged.columns().begin(),
                              arranged.columns().begin() + static_cast<std::ptrdiff_t>(inputs));
  COTAN_ASSIGN_OR_RETURN(Dataset data, Dataset::Create(std::move(columns)));
  COTAN_ASSIGN_OR_RETURN(held_out_feed_, BatchFeed::Create(session_->program(), kEval, std::move(data),
                                                           options_.normalization, static_cast<int>(inputs)));
  return absl::OkStatus();
}

void Trainer::RecordOptions(const std::optional<Dataset>& held_out) {
  const auto add = [this](absl::string_view name, const std::string& value) {
    recorded_options_.emplace_back(name, value);
  };
  const auto number = [](double value) { return absl::StrFormat("%.17g", value); };
  const auto data = [](const Dataset& set) { return absl::StrFormat("%d examples, %08x", set.size(), set.Checksum()); };
  add("data", data(feed_.data()));
  add("normalization",
      absl::StrCat(number(options_.normalization.mean), ", ", number(options_.normalization.deviation)));
  add("batch", absl::StrCat(batch_));
  add("accumulate", absl::StrCat(options_.accumulate));
  add("seed", absl::StrCat(seed_));
  for (size_t i = 0; i < groups_.size(); ++i) {
    add(groups_[i] == 0 ? "lr" : absl::StrCat("lr of group ", groups_[i]), number(base_rates_[i]));
  }
  add("schedule", schedule_->ToString());
  add("clip_norm", options_.clip_norm.has_value() ? number(*options_.clip_norm) : "as compiled");
  add("clip_value", options_.clip_value.has_value() ? number(*options_.clip_value) : "as compiled");
  add("ema", options_.ema.has_value() ? number(*options_.ema) : "none");
  add("held_out", held_out.has_value() ? data(*held_out) : "none");
  if (!held_out.has_value()) return;
  add("metric", std::string(MetricName(options_.metric)));
  add("evaluate_every", absl::StrCat(options_.evaluate_every));
  add("early_stopping",
      absl::StrCat(options_.early_stopping.patience, ", ", number(options_.early_stopping.min_delta)));
}

// --- steps -------------------------------------------------------------------

absl::Status Trainer::SetRates() {
  for (size_t i = 0; i < groups_.size(); ++i) {
    const double rate = schedule_->Rate(base_rates_[i], step_);
    if (rate == rates_[i]) continue;
    COTAN_RETURN_IF_ERROR(session_->SetHyperparameter("lr", rate, groups_[i]));
    rates_[i] = rate;
  }
  return absl::OkStatus();
}

absl::Status Trainer::RunBatch(MethodHandle method, int64_t batch, LossSum& loss) {
  const absl::Span<const int64_t> order = order_;
  // The last batch of an epoch has what is left; subspan() ends with the order.
  const absl::Span<const int64_t> rows =
      order.subspan(static_cast<size_t>(batch * batch_), static_cast<size_t>(batch_));
  COTAN_ASSIGN_OR_RETURN(const absl::Span<const Tensor> arguments, feed_.Load(rows));
  COTAN_RETURN_IF_ERROR(session_->Run(method, arguments, absl::MakeSpan(results_)));
  COTAN_ASSIGN_OR_RETURN(const double value, ScalarOf(results_[loss_result_]));
  const auto examples = static_cast<int64_t>(rows.size());
  loss.sum += value * static_cast<double>(examples);
  loss.examples += examples;
  if (std::isfinite(value)) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat("the loss of step ", step_ + 1, " is ", value,
                                         "; lower the learning rate, clip gradients, or check the data"));
}

absl::Status Trainer::AverageGradients(int64_t batches) {
  if (batches == 1) return absl::OkStatus();
  const double factor = 1 / static_cast<double>(batches);
  for (const std::string& name : accumulators_) {
    COTAN_ASSIGN_OR_RETURN(const Tensor sum, session_->State(name));
    if (sum.dtype() == DType::kFloat32) {
      Scale<float>(sum, factor);
    } else {
      Scale<double>(sum, factor);
    }
    COTAN_RETURN_IF_ERROR(session_->SetState(name, sum));
  }
  return absl::OkStatus();
}

absl::StatusOr<StepReport> Trainer::Step() {
  const int64_t epoch = step_ / steps_per_epoch_;
  if (epoch != order_epoch_) {
    order_ = ShuffledOrder(feed_.data().size(), seed_, static_cast<uint64_t>(epoch));
    order_epoch_ = epoch;
  }
  COTAN_RETURN_IF_ERROR(SetRates());
  const int64_t first = step_ % steps_per_epoch_ * options_.accumulate;
  const int64_t end = std::min(first + options_.accumulate, batches_per_epoch_);
  LossSum loss;
  for (int64_t batch = first; batch < end; ++batch) {
    COTAN_RETURN_IF_ERROR(RunBatch(options_.accumulate == 1 ? train_step_ : accumulate_, batch, loss));
  }
  if (options_.accumulate != 1) {
    COTAN_RETURN_IF_ERROR(AverageGradients(end - first));
    COTAN_RETURN_IF_ERROR(session_->Run(apply_, {}, {}));
  }
  ++step_;
  if (average_.has_value()) COTAN_RETURN_IF_ERROR(average_->Update());
  const StepReport report = {step_, epoch + 1, loss.examples, loss.sum / static_cast<double>(loss.examples), rates_[0]};
  losses_.Add(step_, report.loss);
  return report;
}

// --- evaluation --------------------------------------------------------------

absl::StatusOr<Score> Trainer::ScoreHeldOut() {
  Score score(options_.metric);
  const int64_t size = held_out_feed_->data().size();
  const int64_t batch = std::min(std::max(batch_, held_out_feed_->smallest_batch()), held_out_feed_->largest_batch());
  for (int64_t first = 0; first < size; first += batch) {
    const int64_t count = std::min(batch, size - first);
    const int64_t loaded = std::max(count, held_out_feed_->smallest_batch());
    const std::vector<int64_t> rows = PaddedRange(first, loaded, size);
    COTAN_ASSIGN_OR_RETURN(const absl::Span<const Tensor> arguments, held_out_feed_->Load(rows));
    COTAN_RETURN_IF_ERROR(session_->Run(eval_, arguments, absl::MakeSpan(eval_results_)));
    COTAN_RETURN_IF_ERROR(score.Add(eval_results_[0], loaded, *held_out_targets_,
                                    absl::MakeConstSpan(rows).first(static_cast<size_t>(count))));
  }
  return score;
}

absl::StatusOr<EvaluationReport> Trainer::Evaluate() {
  if (!held_out_feed_.has_value()) return absl::FailedPreconditionError("there are no held-out data to evaluate");
  if (average_.has_value()) COTAN_RETURN_IF_ERROR(average_->Swap());
  const absl::StatusOr<Score> score = ScoreHeldOut();
  if (average_.has_value()) COTAN_RETURN_IF_ERROR(average_->Swap());
  COTAN_RETURN_IF_ERROR(score.status());
  scores_.Add(step_, score->value());
  EvaluationReport report = {step_, (step_ + steps_per_epoch_ - 1) / steps_per_epoch_, score->value(), false};
  report.improved = early_stopping_.Add(report.score, step_);
  return report;
}

// --- checkpoints -------------------------------------------------------------

absl::Status Trainer::Save(const std::string& path) const {
  TrainingCheckpoint checkpoint;
  checkpoint.step = step_;
  checkpoint.base_rates = base_rates_;
  checkpoint.early_stopping = early_stopping_.state();
  checkpoint.losses = losses_;
  checkpoint.scores = scores_;
  checkpoint.options = recorded_options_;
  if (average_.has_value()) checkpoint.averages.assign(average_->averages().begin(), average_->averages().end());
  return SaveTrainingCheckpoint(*session_, checkpoint, path);
}

absl::Status Trainer::SaveModel(const std::string& path) {
  if (!average_.has_value()) return session_->SaveCheckpoint(path);
  COTAN_RETURN_IF_ERROR(average_->Swap());
  const absl::Status saved = session_->SaveCheckpoint(path);
  COTAN_RETURN_IF_ERROR(average_->Swap());
  return saved;
}

absl::Status Trainer::CheckOptionsOf(const TrainingCheckpoint& checkpoint, const std::string& path) const {
  if (checkpoint.base_rates.size() != base_rates_.size()) {
    return absl::InvalidArgumentError(absl::StrCat("'", path, "' has ", checkpoint.base_rates.size(),
                                                   " parameter groups, the program ", base_rates_.size()));
  }
  const auto& found = checkpoint.options;
  for (size_t i = 0; i < std::max(found.size(), recorded_options_.size()); ++i) {
    const bool is_equal = i < found.size() && i < recorded_options_.size() && found[i] == recorded_options_[i];
    if (is_equal) continue;
    const auto value = [i](const auto& options) {
      return i < options.size() ? absl::StrCat(options[i].first, " = ", options[i].second) : std::string("nothing");
    };
    return absl::InvalidArgumentError(absl::StrCat("'", path, "' is of a run with ", value(found), "; this one has ",
                                                   value(recorded_options_),
                                                   "; resume with the options and data of the run"));
  }
  return absl::OkStatus();
}

absl::Status Trainer::Resume(const std::string& path) {
  if (step_ != 0) return absl::FailedPreconditionError("a run is resumed before its first step");
  COTAN_ASSIGN_OR_RETURN(const TrainingCheckpoint checkpoint, ReadTrainingCheckpoint(path));
  COTAN_RETURN_IF_ERROR(CheckOptionsOf(checkpoint, path));
  COTAN_RETURN_IF_ERROR(session_->LoadCheckpoint(path));
  if (average_.has_value()) {
    // Files list tensors in another order than programs.
    std::vector<std::pair<std::string, Tensor>> averages;
    for (const auto& [name, unused] : average_->averages()) {
      const auto is_named = [&name = name](const auto& pair) { return pair.first == name; };
      const auto found = std::find_if(checkpoint.averages.begin(), checkpoint.averages.end(), is_named);
      if (found != checkpoint.averages.end()) averages.push_back(*found);
    }
    COTAN_RETURN_IF_ERROR(average_->Set(averages));
  }
  for (size_t i = 0; i < groups_.size(); ++i) {
    COTAN_ASSIGN_OR_RETURN(rates_[i], session_->Hyperparameter("lr", groups_[i]));
  }
  step_ = saved_step_ = checkpoint.step;
  early_stopping_.set_state(checkpoint.early_stopping);
  losses_ = checkpoint.losses;
  scores_ = checkpoint.scores;
  return absl::OkStatus();
}

// --- the loop ----------------------------------------------------------------

absl::Status Trainer::WriteCheckpoint(const TrainerHooks& hooks) {
  if (options_.checkpoint.empty() || saved_step_ == step_) return absl::OkStatus();
  if (hooks.before_checkpoint) COTAN_RETURN_IF_ERROR(hooks.before_checkpoint());
  COTAN_RETURN_IF_ERROR(Save(options_.checkpoint));
  saved_step_ = step_;
  return absl::OkStatus();
}

// Does what is due after a step. A checkpoint follows the evaluation of its step, which a resumed run does not repeat.
absl::Status Trainer::Due(const TrainerHooks& hooks) {
  const auto is_due = [this](int64_t every) {
    return step_ == total_steps_ || step_ % (every == 0 ? steps_per_epoch_ : every) == 0;
  };
  if (held_out_feed_.has_value() && is_due(options_.evaluate_every)) {
    COTAN_ASSIGN_OR_RETURN(const EvaluationReport report, Evaluate());
    if (hooks.on_evaluation) COTAN_RETURN_IF_ERROR(hooks.on_evaluation(report));
  }
  return is_due(options_.checkpoint_every) ? WriteCheckpoint(hooks) : absl::OkStatus();
}

absl::Status Trainer::Run(const TrainerHooks& hooks) {
  while (!done() && !(hooks.should_stop && hooks.should_stop())) {
    COTAN_ASSIGN_OR_RETURN(const StepReport report, Step());
    if (hooks.on_step) COTAN_RETURN_IF_ERROR(hooks.on_step(report));
    COTAN_RETURN_IF_ERROR(Due(hooks));
  }
  return WriteCheckpoint(hooks);
}

}  // namespace cotan::training
