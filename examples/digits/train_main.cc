// SPDX-License-Identifier: Apache-2.0

// Trains a convolutional network on digits. See --help.
#include <cstdio>
#include <string>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "examples/common/backend.h"
#include "examples/common/paths.h"
#include "examples/digits/idx.h"
#include "examples/digits/trainer.h"
#include "runtime/training/interrupt.h"
#include "runtime/training/progress.h"

ABSL_FLAG(std::string, data, "",
          "folder with the four MNIST files, unpacked; without it the program draws digits itself");
ABSL_FLAG(int64_t, epochs, 3, "how many times to go through the training images");
ABSL_FLAG(int, threads, 0, "threads to compute with; 0 = one per core");
ABSL_FLAG(std::string, device, "cpu", "cpu or cuda");
ABSL_FLAG(std::string, checkpoint, "", "file to save to after each epoch and on control-C (safetensors)");
ABSL_FLAG(bool, resume, false, "continue from --checkpoint, exactly as if never interrupted");
ABSL_FLAG(int64_t, train_images, 12800, "images to draw for training, if no --data");
ABSL_FLAG(int64_t, held_out_images, 2048, "images to draw for the final test, if no --data");
ABSL_FLAG(std::string, artifact, "", "compiled model; the one built with this program if empty");

namespace cotan::digits {
namespace {

using training::Interrupted;

absl::StatusOr<Mnist> LoadData() {
  if (const std::string folder = absl::GetFlag(FLAGS_data); !folder.empty()) {
    return ReadMnist(examples::UserPath(folder));
  }
  constexpr uint64_t kTrainSeed = 1, kHeldOutSeed = 2;
  Mnist data;
  data.train = DrawDigits(absl::GetFlag(FLAGS_train_images), kTrainSeed);
  data.held_out = DrawDigits(absl::GetFlag(FLAGS_held_out_images), kHeldOutSeed);
  return data;
}

absl::Status CheckFlags() {
  if (absl::GetFlag(FLAGS_resume) && absl::GetFlag(FLAGS_checkpoint).empty()) {
    return absl::InvalidArgumentError("--resume needs --checkpoint=FILE");
  }
  if (absl::GetFlag(FLAGS_epochs) < 0) return absl::InvalidArgumentError("--epochs is negative");
  if (absl::GetFlag(FLAGS_threads) < 0) return absl::InvalidArgumentError("--threads is negative");
  if (absl::GetFlag(FLAGS_train_images) < 1 || absl::GetFlag(FLAGS_held_out_images) < 1) {
    return absl::InvalidArgumentError("--train_images and --held_out_images have to be at least 1");
  }
  return absl::OkStatus();
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
    return absl::StrFormat("loss %.4f  accuracy %5.1f %%", loss_sum_ / steps_, score_.accuracy_percent());
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
  training::ProgressBar bar(stdout, absl::StrCat("epoch ", epoch + 1), steps);
  Progress progress;
  while (step < (epoch + 1) * steps && !Interrupted()) {
    COTAN_ASSIGN_OR_RETURN(const StepResult result, trainer.Train(images, step++));
    progress.Add(result);
    bar.Update(step - epoch * steps, progress.ToString());
  }
  bar.Finish(progress.ToString());
  return step;
}

absl::Status TrainEpochs(Trainer& trainer, const DigitImages& images, int64_t step, const std::string& checkpoint) {
  const int64_t end = absl::GetFlag(FLAGS_epochs) * Trainer::StepsPerEpoch(images);
  while (step < end && !Interrupted()) {
    COTAN_ASSIGN_OR_RETURN(step, TrainEpoch(trainer, images, step));
    COTAN_RETURN_IF_ERROR(Save(trainer, checkpoint));
  }
  if (Interrupted()) {
    absl::PrintF("interrupted at step %d of %d%s\n", step, end,
                 checkpoint.empty() ? "; nothing is saved without --checkpoint"
                                    : absl::StrCat("; saved to ", checkpoint, ", --resume continues"));
  }
  return absl::OkStatus();
}

absl::Status Run(const char* argv0) {
  COTAN_RETURN_IF_ERROR(CheckFlags());
  std::string artifact = examples::UserPath(absl::GetFlag(FLAGS_artifact));
  if (artifact.empty()) {
    COTAN_ASSIGN_OR_RETURN(artifact, examples::FindDataFile(argv0, "examples/digits/digits.cotan"));
  }
  COTAN_ASSIGN_OR_RETURN(const examples::Backend backend, examples::OpenBackend(absl::GetFlag(FLAGS_device)));
  TrainerOptions options;
  options.kernels = backend.kernels;
  options.device = backend.device;
  options.threads = absl::GetFlag(FLAGS_threads);
  COTAN_ASSIGN_OR_RETURN(Trainer trainer, Trainer::Create(artifact, options));
  COTAN_ASSIGN_OR_RETURN(const Mnist data, LoadData());
  const std::string checkpoint = examples::UserPath(absl::GetFlag(FLAGS_checkpoint));
  if (absl::GetFlag(FLAGS_resume)) {
    COTAN_RETURN_IF_ERROR(trainer.session().LoadCheckpoint(checkpoint));
  }
  COTAN_ASSIGN_OR_RETURN(const int64_t step, trainer.StepsDone());
  absl::PrintF("%d images to train on in batches of %d, %d held out, starting at step %d\n", data.train.count(), kBatch,
               data.held_out.count(), step);
  training::CatchInterrupts();
  COTAN_RETURN_IF_ERROR(TrainEpochs(trainer, data.train, step, checkpoint));
  if (Interrupted()) return absl::CancelledError("interrupted");
  COTAN_ASSIGN_OR_RETURN(const Score score, trainer.Evaluate(data.held_out));
  absl::PrintF("held-out accuracy: %.1f %%\n", score.accuracy_percent());
  return absl::OkStatus();
}

}  // namespace
}  // namespace cotan::digits

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "Trains a convolutional network on pictures of digits with Cotan's runtime.\n"
      "Example: train --epochs=5 --checkpoint=digits.safetensors");
  if (const auto rest = absl::ParseCommandLine(argc, argv); rest.size() > 1) {
    absl::FPrintF(stderr, "train: unexpected argument '%s'; see --help\n", rest[1]);
    return 1;
  }
  const absl::Status status = cotan::digits::Run(argv[0]);
  if (absl::IsCancelled(status)) return 130;  // as a shell reports SIGINT
  if (status.ok()) return 0;
  absl::FPrintF(stderr, "train: %s\n", status.ToString());
  return 1;
}
