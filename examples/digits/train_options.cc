// SPDX-License-Identifier: Apache-2.0

#include "examples/digits/train_options.h"

#include <getopt.h>

#include <limits>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"

namespace cotan::digits {
namespace {

enum Option {
  kData = 1,
  kEpochs,
  kThreads,
  kDevice,
  kCheckpoint,
  kResume,
  kTrainImages,
  kHeldOutImages,
  kArtifact,
  kHelp
};

constexpr option kOptions[] = {
    {"data", required_argument, nullptr, kData},
    {"epochs", required_argument, nullptr, kEpochs},
    {"threads", required_argument, nullptr, kThreads},
    {"device", required_argument, nullptr, kDevice},
    {"checkpoint", required_argument, nullptr, kCheckpoint},
    {"resume", no_argument, nullptr, kResume},
    {"train_images", required_argument, nullptr, kTrainImages},
    {"held_out_images", required_argument, nullptr, kHeldOutImages},
    {"artifact", required_argument, nullptr, kArtifact},
    {"help", no_argument, nullptr, kHelp},
    {nullptr, 0, nullptr, 0},
};

absl::Status ParseNumber(absl::string_view name, int64_t least, int64_t& number) {
  if (absl::SimpleAtoi(optarg, &number) && number >= least && number <= std::numeric_limits<int32_t>::max()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("--", name, "=", optarg, " is not a number of at least ", least));
}

// Sets the option that getopt_long() has found.
absl::Status Set(int found, TrainOptions& options) {
  switch (found) {
    case kData:
      options.data = optarg;
      return absl::OkStatus();
    case kEpochs:
      return ParseNumber("epochs", 0, options.epochs);
    case kThreads:
      return ParseNumber("threads", 0, options.threads);
    case kDevice:
      options.device = optarg;
      return absl::OkStatus();
    case kCheckpoint:
      options.checkpoint = optarg;
      return absl::OkStatus();
    case kResume:
      options.resume = true;
      return absl::OkStatus();
    case kTrainImages:
      return ParseNumber("train_images", 1, options.train_images);
    case kHeldOutImages:
      return ParseNumber("held_out_images", 1, options.held_out_images);
    case kArtifact:
      options.artifact = optarg;
      return absl::OkStatus();
    default:
      options.help = true;
      return absl::OkStatus();
  }
}

// Returns the error of a word that getopt_long() does not accept. It has set `optopt` if the word begins with an option
// that exists.
absl::Status Refusal(absl::string_view word) {
  if (absl::StartsWith(word, "--") && optopt != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", word, "' has a value, which this option does not take; see --help"));
  }
  return absl::InvalidArgumentError(absl::StrCat("there is no option '", word, "'; see --help"));
}

}  // namespace

const char* TrainUsage() {
  return "Trains a convolutional network on pictures of digits with Cotan's runtime.\n"
         "Example: train --epochs=5 --checkpoint=digits.safetensors\n"
         "  --data=FOLDER          folder with the four MNIST files, unpacked; without it the program draws digits\n"
         "  --epochs=3             how many times to go through the training images\n"
         "  --threads=0            threads to compute with; 0: one per core\n"
         "  --device=cpu           cpu or cuda\n"
         "  --checkpoint=FILE      file to save to after each epoch and on control-C (safetensors)\n"
         "  --resume               continue from --checkpoint, exactly as if never interrupted\n"
         "  --train_images=12800   images to draw for training, if no --data\n"
         "  --held_out_images=2048 images to draw for the final test, if no --data\n"
         "  --artifact=FILE        compiled model; the one built with this program if not given\n";
}

absl::StatusOr<TrainOptions> ParseTrainOptions(int argc, char** argv) {
  TrainOptions options;
  optind = 0;  // starts from the first argument
  opterr = 0;  // prints nothing
  while (true) {
    const int at = optind == 0 ? 1 : optind;
    // With '+' it ends at a word that is not an option, so that argv[at] is the word it reads; with ':' it
    // distinguishes a missing value from an unknown option.
    const int found = getopt_long(argc, argv, "+:", kOptions, nullptr);
    if (found == -1) break;
    if (found == ':') return absl::InvalidArgumentError(absl::StrCat("'", argv[at], "' needs a value; see --help"));
    if (found == '?') return Refusal(argv[at]);
    COTAN_RETURN_IF_ERROR(Set(found, options));
  }
  if (optind < argc) {
    return absl::InvalidArgumentError(absl::StrCat("unexpected argument '", argv[optind], "'; see --help"));
  }
  if (options.resume && options.checkpoint.empty()) {
    return absl::InvalidArgumentError("--resume needs --checkpoint=FILE");
  }
  return options;
}

}  // namespace cotan::digits
