// SPDX-License-Identifier: Apache-2.0

// Trains a small transformer on a text and lets it write. See --help.
#include <cstdio>
#include <string>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "examples/chars/sizes.h"
#include "examples/chars/text.h"
#include "examples/chars/writer.h"
#include "examples/common/paths.h"
#include "runtime/training/interrupt.h"
#include "runtime/training/progress.h"

ABSL_FLAG(std::string, text, "", "text file to learn from; eleven sonnets if empty");
ABSL_FLAG(int64_t, steps, 600, "training steps, those of a resumed run included");
ABSL_FLAG(int, threads, 0, "threads to compute with; 0 = one per core");
ABSL_FLAG(std::string, checkpoint, "", "file to save to at the end and on control-C (safetensors)");
ABSL_FLAG(bool, resume, false, "continue from --checkpoint, exactly as if never interrupted");
ABSL_FLAG(uint64_t, seed, 1, "seed of the training sequences and of the sample");
ABSL_FLAG(std::string, prompt, "Shall I ", "beginning of the sample");
ABSL_FLAG(int64_t, sample_bytes, 400, "length of the sample after the prompt");
ABSL_FLAG(double, temperature, 0.7, "temperature of the sample: 0 takes the most likely byte, 1 samples as predicted");
ABSL_FLAG(std::string, artifact, "", "compiled model; the one built with this program if empty");

namespace cotan::chars {
namespace {

using training::Interrupted;

absl::Status CheckFlags() {
  if (absl::GetFlag(FLAGS_resume) && absl::GetFlag(FLAGS_checkpoint).empty()) {
    return absl::InvalidArgumentError("--resume needs --checkpoint=FILE");
  }
  if (absl::GetFlag(FLAGS_prompt).empty()) return absl::InvalidArgumentError("--prompt is empty");
  if (absl::GetFlag(FLAGS_threads) < 0) return absl::InvalidArgumentError("--threads is negative");
  return absl::OkStatus();
}

// The file that the user named, or the one that comes with the program.
absl::StatusOr<std::string> FileOr(const std::string& user_path, const char* argv0, absl::string_view data_file) {
  if (!user_path.empty()) return examples::UserPath(user_path);
  return examples::FindDataFile(argv0, data_file);
}

absl::Status TrainSteps(Writer& writer, absl::string_view text, int64_t first, int64_t end) {
  if (first >= end) return absl::OkStatus();
  constexpr double kDecay = 0.95;  // of the running mean that the bar shows
  training::ProgressBar bar(stdout, "training", end, /*done=*/first);
  double mean = 0;
  std::string note;
  for (int64_t step = first; step < end && !Interrupted(); ++step) {
    COTAN_ASSIGN_OR_RETURN(const float loss, writer.Train(text, absl::GetFlag(FLAGS_seed), step));
    mean = step == first ? loss : kDecay * mean + (1 - kDecay) * loss;
    note = absl::StrFormat("loss %.3f nats per byte", mean);
    bar.Update(step + 1, note);
  }
  bar.Finish(note);
  return absl::OkStatus();
}

absl::Status Run(const char* argv0) {
  COTAN_RETURN_IF_ERROR(CheckFlags());
  COTAN_ASSIGN_OR_RETURN(const std::string artifact,
                         FileOr(absl::GetFlag(FLAGS_artifact), argv0, "examples/chars/chars.cotan"));
  COTAN_ASSIGN_OR_RETURN(const std::string text_path,
                         FileOr(absl::GetFlag(FLAGS_text), argv0, "examples/chars/sonnets.txt"));
  COTAN_ASSIGN_OR_RETURN(const std::string text, ReadText(text_path, kContext + 1));
  COTAN_ASSIGN_OR_RETURN(Writer writer, Writer::Create(artifact, absl::GetFlag(FLAGS_threads)));
  const std::string checkpoint = examples::UserPath(absl::GetFlag(FLAGS_checkpoint));
  if (absl::GetFlag(FLAGS_resume)) {
    COTAN_RETURN_IF_ERROR(writer.session().LoadCheckpoint(checkpoint));
  }
  absl::PrintF("%d bytes of text, %d sequences of %d bytes in a step\n", text.size(), kBatch, kContext);
  training::CatchInterrupts();
  COTAN_ASSIGN_OR_RETURN(const int64_t step, writer.StepsDone());
  COTAN_RETURN_IF_ERROR(TrainSteps(writer, text, step, absl::GetFlag(FLAGS_steps)));
  if (!checkpoint.empty()) {
    COTAN_RETURN_IF_ERROR(writer.session().SaveCheckpoint(checkpoint));
    absl::PrintF("saved to %s\n", checkpoint);
  }
  if (Interrupted()) return absl::CancelledError("interrupted");
  COTAN_ASSIGN_OR_RETURN(const std::string sample,
                         writer.Continue(absl::GetFlag(FLAGS_prompt), absl::GetFlag(FLAGS_sample_bytes),
                                         absl::GetFlag(FLAGS_temperature), absl::GetFlag(FLAGS_seed)));
  absl::PrintF("\n%s\n", sample);
  return absl::OkStatus();
}

}  // namespace
}  // namespace cotan::chars

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "Trains a small transformer on the bytes of a text with Cotan's runtime and prints what it\n"
      "then writes. Example: train --text=novel.txt --steps=2000 --prompt='It was '");
  if (const auto rest = absl::ParseCommandLine(argc, argv); rest.size() > 1) {
    absl::FPrintF(stderr, "train: unexpected argument '%s'; see --help\n", rest[1]);
    return 1;
  }
  const absl::Status status = cotan::chars::Run(argv[0]);
  if (absl::IsCancelled(status)) return 130;  // as a shell reports SIGINT
  if (status.ok()) return 0;
  absl::FPrintF(stderr, "train: %s\n", status.ToString());
  return 1;
}
