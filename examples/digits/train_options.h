// SPDX-License-Identifier: Apache-2.0

// The command line of the training program.
#ifndef COTAN_EXAMPLES_DIGITS_TRAIN_OPTIONS_H_
#define COTAN_EXAMPLES_DIGITS_TRAIN_OPTIONS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace cotan::digits {

struct TrainOptions {
  std::string data;  // empty: the program draws digits
  int64_t epochs = 3;
  int64_t threads = 0;  // 0: one per core
  std::string device = "cpu";
  std::string checkpoint;  // empty: nothing is saved
  bool resume = false;
  int64_t train_images = 12800;
  int64_t held_out_images = 2048;
  std::string artifact;  // empty: the one that was built with the program
  bool help = false;     // the other options may be invalid
};

// Returns the text of --help.
const char* TrainUsage();

// Parses the arguments of main() with getopt_long(): flags of a library would be a twentieth of a small binary.
// InvalidArgument: there is no such option, or it needs a value, or its value is invalid.
absl::StatusOr<TrainOptions> ParseTrainOptions(int argc, char** argv);

}  // namespace cotan::digits

#endif  // COTAN_EXAMPLES_DIGITS_TRAIN_OPTIONS_H_
