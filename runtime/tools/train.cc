// SPDX-License-Identifier: Apache-2.0

#include "runtime/tools/train.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "runtime/execution/program.h"
#include "runtime/tools/one_rank.h"
#include "runtime/tools/train_options.h"
#include "runtime/training/interrupt.h"
#include "runtime/training/loss_curve.h"
#include "runtime/training/metrics_log.h"
#include "runtime/training/progress.h"
#include "runtime/training/trainer.h"

namespace cotan::tools {
namespace {

using training::EvaluationReport;
using training::MetricsLog;
using training::ProgressBar;
using training::StepReport;
using training::Trainer;
using Clock = std::chrono::steady_clock;

// Writes what a run reports: lines, progress bar, log, curve and the best model.
class Reporter {
 public:
  Reporter(std::string title, const TrainOptions& options, Trainer* trainer, std::ostream& out)
      : title_(std::move(title)), options_(options), trainer_(trainer), out_(out), started_(Clock::now()) {}

  // Call it after Trainer::Resume().
  absl::Status Begin() {
    const int64_t step = trainer_->step();
    if (!options_.log.empty()) {
      COTAN_ASSIGN_OR_RETURN(
          log_, options_.resume ? MetricsLog::Resume(options_.log, step) : MetricsLog::Create(options_.log));
    }
    if (::isatty(STDERR_FILENO) == 1) bar_.emplace(stderr, "training", trainer_->total_steps(), step);
    return absl::OkStatus();
  }

  absl::Status OnStep(const StepReport& report) {
    loss_sum_ += report.loss * static_cast<double>(report.examples);
    examples_ += report.examples;
    if (log_.has_value()) {
      COTAN_RETURN_IF_ERROR(log_->Write(report.step, {{"event", "step"},
                                                      {"epoch", report.epoch},
                                                      {"loss", report.loss},
                                                      {"lr", report.lr},
                                                      {"examples", report.examples},
                                                      {"seconds", Seconds()}}));
    }
    const std::string note = absl::StrFormat("epoch %d  loss %.4f", report.epoch, loss_sum_ / examples_);
    if (bar_.has_value()) bar_->Update(report.step, note);
    if (report.step % trainer_->steps_per_epoch() != 0) return absl::OkStatus();
    PrintLine(absl::StrFormat("epoch %d: loss %.4f", report.epoch, loss_sum_ / examples_));
    loss_sum_ = 0;
    examples_ = 0;
    return absl::OkStatus();
  }

  absl::Status OnEvaluation(const EvaluationReport& report) {
    const absl::string_view metric = training::MetricName(options_.trainer.metric);
    PrintLine(absl::StrFormat("step %d: held-out %s %.4f%s", report.step, metric, report.score,
                              report.improved ? ", the best so far" : ""));
    if (log_.has_value()) {
      COTAN_RETURN_IF_ERROR(log_->Write(report.step, {{"event", "evaluation"},
                                                      {"epoch", report.epoch},
                                                      {"metric", metric},
                                                      {"score", report.score},
                                                      {"best", trainer_->best().best},
                                                      {"seconds", Seconds()}}));
    }
    if (!report.improved || options_.best.empty()) return absl::OkStatus();
    return trainer_->SaveModel(options_.best);
  }

  absl::Status BeforeCheckpoint() {
    if (log_.has_value()) COTAN_RETURN_IF_ERROR(log_->Sync());
    return WriteCurve();
  }

  absl::Status Finish() {
    if (bar_.has_value()) bar_->Clear();
    return WriteCurve();
  }

 private:
  double Seconds() const { return std::chrono::duration<double>(Clock::now() - started_).count(); }

  void PrintLine(const std::string& text) {
    if (bar_.has_value()) bar_->Clear();
    out_ << text << std::endl;  // visible at once, also in a pipe
  }

  absl::Status WriteCurve() const {
    if (options_.curve.empty()) return absl::OkStatus();
    const std::string metric = absl::StrCat("held-out ", training::MetricName(options_.trainer.metric));
    const std::string svg = training::LossCurveSvg(title_, trainer_->losses(), metric, trainer_->scores());
    return WriteFileAtomically(options_.curve, {svg});
  }

  const std::string title_;
  const TrainOptions& options_;
  Trainer* const trainer_;
  std::ostream& out_;
  const Clock::time_point started_;
  std::optional<MetricsLog> log_;
  std::optional<ProgressBar> bar_;
  double loss_sum_ = 0;  // of the epoch so far, by example
  int64_t examples_ = 0;
};

absl::Status RunTrainer(Trainer& trainer, Reporter& reporter) {
  training::TrainerHooks hooks;
  hooks.on_step = [&reporter](const StepReport& report) { return reporter.OnStep(report); };
  hooks.on_evaluation = [&reporter](const EvaluationReport& report) { return reporter.OnEvaluation(report); };
  hooks.before_checkpoint = [&reporter] { return reporter.BeforeCheckpoint(); };
  hooks.should_stop = training::Interrupted;
  COTAN_RETURN_IF_ERROR(reporter.Begin());
  const absl::Status status = trainer.Run(hooks);
  const absl::Status finished = reporter.Finish();
  return status.ok() ? finished : status;
}

// Writes the lines after the last step.
absl::Status Conclude(Trainer& trainer, const TrainOptions& options, std::ostream& out) {
  const std::string& checkpoint = options.trainer.checkpoint;
  if (!trainer.done()) {
    return absl::CancelledError(absl::StrCat("interrupted at step ", trainer.step(), " of ", trainer.total_steps(),
                                             checkpoint.empty()
                                                 ? "; nothing is saved without --checkpoint"
                                                 : absl::StrCat("; saved to ", checkpoint, ", --resume continues")));
  }
  if (trainer.step() < trainer.total_steps()) {
    out << "stopped early at step " << trainer.step() << " of " << trainer.total_steps() << "\n";
  }
  if (trainer.best().best_step >= 0) {
    out << absl::StrFormat("best held-out %s %.4f at step %d\n", training::MetricName(options.trainer.metric),
                           trainer.best().best, trainer.best().best_step);
  }
  if (options.save.empty()) return absl::OkStatus();
  COTAN_RETURN_IF_ERROR(trainer.SaveModel(options.save));
  out << "saved to " << options.save << "\n";
  return absl::OkStatus();
}

}  // namespace

absl::Status Train(const CommandLine& line, const std::string& path, const SessionOptions& session_options,
                   std::ostream& out) {
  COTAN_ASSIGN_OR_RETURN(const std::shared_ptr<const Program> program, Program::Load(path));
  COTAN_ASSIGN_OR_RETURN(TrainOptions options, ParseTrainOptions(line, *program));
  COTAN_ASSIGN_OR_RETURN(TrainData data, ReadTrainData(line));
  options.trainer.inputs = data.inputs;
  options.trainer.targets = data.targets;
  SingleRank rank;
  COTAN_ASSIGN_OR_RETURN(Session session, Session::Create(program, WithOneRank(*program, session_options, rank)));
  COTAN_ASSIGN_OR_RETURN(Trainer trainer, Trainer::Create(&session, data.train, data.held_out, options.trainer));
  if (options.resume) COTAN_RETURN_IF_ERROR(trainer.Resume(options.trainer.checkpoint));
  for (const std::string& text : data.classes) out << text << "\n";
  out << data.train.size() << " examples in batches of " << trainer.batch() << ", "
      << (data.held_out.has_value() ? data.held_out->size() : 0) << " held out; step " << trainer.step() << " of "
      << trainer.total_steps() << std::endl;
  training::CatchInterrupts();
  Reporter reporter(path.substr(path.rfind('/') + 1), options, &trainer, out);
  COTAN_RETURN_IF_ERROR(RunTrainer(trainer, reporter));
  return Conclude(trainer, options, out);
}

}  // namespace cotan::tools
