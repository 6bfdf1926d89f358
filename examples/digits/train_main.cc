// SPDX-License-Identifier: Apache-2.0

// Trains a convolutional network on digits. See --help.
#include <cinttypes>
#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "examples/common/backend.h"
#include "examples/common/paths.h"
#include "examples/digits/idx.h"
#include "examples/digits/train_options.h"
#include "examples/digits/trainer.h"
#include "runtime/training/interrupt.h"
#include "runtime/training/progress.h"

namespace cotan::digits {
namespace {

using training::Interrupted;

absl::StatusOr<Mnist> LoadData(const TrainOptions& options) {
  if (!options.data.empty()) return ReadMnist(examples::UserPath(options.data));
  constexpr uint64_t kTrainSeed = 1, kHeldOutSeed = 2;
  Mnist data;
  data.train = DrawDigits(options.train_images, kTrainSeed);
  data.held_out = DrawDigits(options.held_out_images, kHeldOutSeed);
  return data;
}

absl::Status Save(Trainer& trainer, const std::string& checkpoint) {
  if (checkpoint.empty()) return absl::OkStatus();
  return trainer.session().SaveCheckpoint(checkpoint);
}

// Mean loss and accuracy of an epoch so far.
class Progress {
 public:
  void Add(const StepResult& step) {
    loss_sum_ += step.loss;
    ++steps_;
    score_.Add(step.score);
  }
  std::string ToString() const {
    if (steps_ == 0) return "interrupted";
    char text[64];
    std::snprintf(text, sizeof(text), "loss %.4f  accuracy %5.1f %%", loss_sum_ / steps_, score_.accuracy_percent());
    return text;
  }

 private:
  double loss_sum_ = 0;
  int steps_ = 0;
  Score score_;
};

// Trains from step `step` to the end of its epoch or an interrupt. Returns the
// next step.
absl::StatusOr<int64_t> TrainEpoch(Trainer& trainer, const DigitImages& images, int64_t step) {
  const int64_t steps = Trainer::StepsPerEpoch(images);
  const int64_t epoch = step / steps;
  training::ProgressBar bar(stdout, absl::StrCat("epoch ", epoch + 1), steps, /*done=*/step - epoch * steps);
  Progress progress;
  while (step < (epoch + 1) * steps && !Interrupted()) {
    COTAN_ASSIGN_OR_RETURN(const StepResult result, trainer.Train(images, step++));
    progress.Add(result);
    bar.Update(step - epoch * steps, progress.ToString());
  }
  bar.Finish(progress.ToString());
  return step;
}

absl::Status TrainEpochs(Trainer& trainer, const DigitImages& images, int64_t epochs, int64_t step,
                         const std::string& checkpoint) {
  const int64_t end = epochs * Trainer::StepsPerEpoch(images);
  while (step < end && !Interrupted()) {
    COTAN_ASSIGN_OR_RETURN(step, TrainEpoch(trainer, images, step));
    COTAN_RETURN_IF_ERROR(Save(trainer, checkpoint));
  }
  if (Interrupted()) {
    const std::string saved = checkpoint.empty() ? "; nothing is saved without --checkpoint"
                                                 : absl::StrCat("; saved to ", checkpoint, ", --resume continues");
    std::printf("interrupted at step %" PRId64 " of %" PRId64 "%s\n", step, end, saved.c_str());
  }
  return absl::OkStatus();
}

absl::Status Run(const char* argv0, const TrainOptions& flags) {
  std::string artifact = examples::UserPath(flags.artifact);
  if (artifact.empty()) {
    COTAN_ASSIGN_OR_RETURN(artifact, examples::FindDataFile(argv0, "examples/digits/digits.cotan"));
  }
  COTAN_ASSIGN_OR_RETURN(const examples::Backend backend, examples::OpenBackend(flags.device));
  TrainerOptions options;
  options.kernels = backend.kernels;
  options.device = backend.device;
  options.threads = static_cast<int>(flags.threads);
  COTAN_ASSIGN_OR_RETURN(Trainer trainer, Trainer::Create(artifact, options));
  COTAN_ASSIGN_OR_RETURN(const Mnist data, LoadData(flags));
  const std::string checkpoint = examples::UserPath(flags.checkpoint);
  if (flags.resume) COTAN_RETURN_IF_ERROR(trainer.session().LoadCheckpoint(checkpoint));
  COTAN_ASSIGN_OR_RETURN(const int64_t step, trainer.StepsDone());
  std::printf("%" PRId64 " images to train on in batches of %" PRId64 ", %" PRId64
              " held out, starting at step %" PRId64 "\n",
              data.train.count(), int64_t{kBatch}, data.held_out.count(), step);
  training::CatchInterrupts();
  COTAN_RETURN_IF_ERROR(TrainEpochs(trainer, data.train, flags.epochs, step, checkpoint));
  if (Interrupted()) return absl::CancelledError("interrupted");
  COTAN_ASSIGN_OR_RETURN(const Score score, trainer.Evaluate(data.held_out));
  std::printf("held-out accuracy: %.1f %%\n", score.accuracy_percent());
  return absl::OkStatus();
}

}  // namespace
}  // namespace cotan::digits

int main(int argc, char** argv) {
  const absl::StatusOr<cotan::digits::TrainOptions> options = cotan::digits::ParseTrainOptions(argc, argv);
  if (options.ok() && options->help) {
    std::fputs(cotan::digits::TrainUsage(), stdout);
    return 0;
  }
  const absl::Status status = options.ok() ? cotan::digits::Run(argv[0], *options) : options.status();
  if (absl::IsCancelled(status)) return 130;  // as a shell reports SIGINT
  if (status.ok()) return 0;
  std::fprintf(stderr, "train: %s\n", status.ToString().c_str());
  return 1;
}
