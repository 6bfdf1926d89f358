// SPDX-License-Identifier: Apache-2.0

// One rank of a group that trains on digits; mpirun starts the ranks. See --help.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "examples/common/paths.h"
#include "examples/data_parallel/sizes.h"
#include "examples/digits/digit_images.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/distributed/mpi/mpi_communicator.h"
#include "runtime/session.h"
#include "runtime/training/shuffle.h"

ABSL_FLAG(int64_t, epochs, 2, "how many times to go through the training images");
ABSL_FLAG(int, threads, 1, "threads of each rank");
ABSL_FLAG(std::string, checkpoint, "", "file that rank 0 saves to after each epoch, and that all ranks resume from");
ABSL_FLAG(int64_t, train_images, 6400, "images to draw for training");
ABSL_FLAG(int64_t, held_out_images, 1024, "images to draw for the test after each epoch");
ABSL_FLAG(absl::Duration, timeout, absl::Minutes(10), "how long ranks wait for each other");

namespace cotan::data_parallel {
namespace {

using digits::DigitImages;
using digits::kPixels;
using digits::kSide;

// A rank's session and its part of a batch.
class RankTrainer {
 public:
  static absl::StatusOr<std::unique_ptr<RankTrainer>> Create(const std::string& artifact, Communicator& communicator) {
    COTAN_ASSIGN_OR_RETURN(auto program, Program::Load(artifact));
    COTAN_ASSIGN_OR_RETURN(Session session, Session::Create(program, {.kernels = &CpuKernels(),
                                                                      .threads = absl::GetFlag(FLAGS_threads),
                                                                      .communicator = &communicator}));
    return std::unique_ptr<RankTrainer>(new RankTrainer(std::move(session), communicator));
  }

  Session& session() { return session_; }

  // Returns the number of steps so far, those before a checkpoint included.
  absl::StatusOr<int64_t> StepsDone() const {
    COTAN_ASSIGN_OR_RETURN(const Tensor steps, session_.State("optimizer.step"));
    COTAN_ASSIGN_OR_RETURN(const double count, steps.Item<double>());
    return static_cast<int64_t>(count);
  }

  int64_t StepsPerEpoch(const DigitImages& images) const {
    return images.count() / (kRankBatch * communicator_.size());
  }

  // Runs one step. Returns the mean loss of all ranks. All ranks shuffle alike, and each takes its part.
  absl::StatusOr<float> Step(const DigitImages& images, int64_t step) {
    const int64_t steps = StepsPerEpoch(images);
    if (step / steps != order_epoch_) {
      order_epoch_ = step / steps;
      order_ = training::ShuffledOrder(images.count(), /*seed=*/1, static_cast<uint64_t>(order_epoch_));
    }
    const int64_t first = (step % steps * communicator_.size() + communicator_.rank()) * kRankBatch;
    COTAN_ASSIGN_OR_RETURN(const std::vector<Tensor> results, Run("train_step", images, first));
    return results[1].Item<float>();
  }

  // Returns the share of images whose digit has the largest logit. There are at least kRankBatch. No other rank takes
  // part.
  absl::StatusOr<double> Accuracy(const DigitImages& images) {
    int64_t right = 0, seen = 0;
    order_.resize(static_cast<size_t>(images.count()));
    std::iota(order_.begin(), order_.end(), int64_t{0});
    order_epoch_ = -1;
    for (; seen + kRankBatch <= images.count(); seen += kRankBatch) {
      COTAN_ASSIGN_OR_RETURN(const std::vector<Tensor> results, Run("eval", images, seen));
      const float* logits = results[0].data<float>();
      for (int64_t i = 0; i < kRankBatch; ++i, logits += digits::kClasses) {
        right += std::max_element(logits, logits + digits::kClasses) - logits == labels_[static_cast<size_t>(i)];
      }
    }
    return static_cast<double>(right) / static_cast<double>(seen);
  }

 private:
  RankTrainer(Session session, Communicator& communicator)
      : session_(std::move(session)),
        communicator_(communicator),
        pixels_(static_cast<size_t>(kRankBatch * kPixels)),
        labels_(static_cast<size_t>(kRankBatch)) {}

  // Runs a method with the images from order_[first] on.
  absl::StatusOr<std::vector<Tensor>> Run(const std::string& method, const DigitImages& images, int64_t first) {
    const auto order = absl::MakeConstSpan(order_).subspan(static_cast<size_t>(first), kRankBatch);
    digits::FillBatch(images, order, absl::MakeSpan(pixels_), absl::MakeSpan(labels_));
    COTAN_ASSIGN_OR_RETURN(const Tensor x, Tensor::Borrow(absl::MakeSpan(pixels_), {kRankBatch, 1, kSide, kSide}));
    if (method == "eval") return session_.Run(method, {x});
    COTAN_ASSIGN_OR_RETURN(const Tensor y, Tensor::Borrow(absl::MakeSpan(labels_), {kRankBatch}));
    return session_.Run(method, {x, y});
  }

  Session session_;
  Communicator& communicator_;
  std::vector<float> pixels_;
  std::vector<int64_t> labels_;
  std::vector<int64_t> order_;  // of epoch order_epoch_
  int64_t order_epoch_ = -1;
};

absl::Status CheckFlags() {
  if (absl::GetFlag(FLAGS_epochs) < 0) return absl::InvalidArgumentError("--epochs is negative");
  if (absl::GetFlag(FLAGS_threads) < 0) return absl::InvalidArgumentError("--threads is negative");
  if (absl::GetFlag(FLAGS_train_images) < 0) return absl::InvalidArgumentError("--train_images is negative");
  if (absl::GetFlag(FLAGS_held_out_images) < kRankBatch) {
    return absl::InvalidArgumentError(absl::StrCat("--held_out_images has to be at least ", kRankBatch));
  }
  return absl::OkStatus();
}

absl::Status Train(RankTrainer& trainer, bool speaks, const std::string& checkpoint) {
  const DigitImages images = digits::DrawDigits(absl::GetFlag(FLAGS_train_images), /*seed=*/1);
  const DigitImages held_out = digits::DrawDigits(absl::GetFlag(FLAGS_held_out_images), /*seed=*/2);
  const int64_t steps = trainer.StepsPerEpoch(images);
  if (steps == 0) return absl::InvalidArgumentError("--train_images is less than one batch of all ranks");
  COTAN_ASSIGN_OR_RETURN(int64_t step, trainer.StepsDone());
  if (speaks && step > 0) absl::PrintF("resumed after %d steps\n", step);
  while (step < absl::GetFlag(FLAGS_epochs) * steps) {
    const absl::Time start = absl::Now();
    const int64_t first = step, end = (step / steps + 1) * steps;
    double sum = 0;
    for (; step < end; ++step) {
      COTAN_ASSIGN_OR_RETURN(const float loss, trainer.Step(images, step));
      sum += loss;
    }
    const double per_step = absl::ToDoubleMilliseconds(absl::Now() - start) / static_cast<double>(end - first);
    if (!speaks) continue;
    if (!checkpoint.empty()) COTAN_RETURN_IF_ERROR(trainer.session().SaveCheckpoint(checkpoint));
    COTAN_ASSIGN_OR_RETURN(const double accuracy, trainer.Accuracy(held_out));
    absl::PrintF("epoch %d: loss %.4f, held-out accuracy %.1f %%, %.1f ms per step\n", end / steps,
                 sum / static_cast<double>(end - first), 100 * accuracy, per_step);
    std::fflush(stdout);
  }
  return absl::OkStatus();
}

absl::Status Run(const char* argv0) {
  COTAN_RETURN_IF_ERROR(CheckFlags());
  COTAN_ASSIGN_OR_RETURN(const std::string artifact,
                         examples::FindDataFile(argv0, "examples/data_parallel/digits_parallel.cotan"));
  COTAN_ASSIGN_OR_RETURN(const auto communicator, MpiCommunicator::Create({.timeout = absl::GetFlag(FLAGS_timeout)}));
  COTAN_ASSIGN_OR_RETURN(const auto trainer, RankTrainer::Create(artifact, *communicator));
  const std::string checkpoint = examples::UserPath(absl::GetFlag(FLAGS_checkpoint));
  std::error_code error;  // loading names it
  if (!checkpoint.empty() && (std::filesystem::exists(checkpoint, error) || error)) {
    COTAN_RETURN_IF_ERROR(trainer->session().LoadCheckpoint(checkpoint));
  }
  const bool speaks = communicator->rank() == 0;
  if (speaks) absl::PrintF("%d ranks, batches of %d images\n", communicator->size(), communicator->size() * kRankBatch);
  return Train(*trainer, speaks, checkpoint);
}

}  // namespace
}  // namespace cotan::data_parallel

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "Trains on pictures of digits with all ranks that mpirun starts.\n"
      "Example: mpirun -np 4 --enable-recovery train --epochs=3 --checkpoint=digits.safetensors");
  if (const auto rest = absl::ParseCommandLine(argc, argv); rest.size() > 1) {
    absl::FPrintF(stderr, "train: unexpected argument '%s'; see --help\n", rest[1]);
    return 1;
  }
  const absl::Status status = cotan::data_parallel::Run(argv[0]);
  if (status.ok()) return 0;
  absl::FPrintF(stderr, "train: %s\n", status.ToString());
  return 1;
}
