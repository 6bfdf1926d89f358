// SPDX-License-Identifier: Apache-2.0

// The options of `cotan train`.
#ifndef COTAN_RUNTIME_TOOLS_TRAIN_OPTIONS_H_
#define COTAN_RUNTIME_TOOLS_TRAIN_OPTIONS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "runtime/execution/program.h"
#include "runtime/tools/command_line.h"
#include "runtime/training/dataset.h"
#include "runtime/training/trainer.h"

namespace cotan::tools {

// Returns the names of the options that `cotan train` knows.
absl::Span<const absl::string_view> TrainOptionNames();

// Returns the text that `cotan train --help` prints.
absl::string_view TrainUsage();

struct TrainOptions {
  training::TrainerOptions trainer;
  std::string log, curve, best, save;  // paths; empty: none
  bool resume = false;
};

// Reads the options that are not about data. The metric, unless it is given, is that for the dtype of the program's
// targets: accuracy for integers, mse for others.
// InvalidArgument: an option is out of range or needs another one; the message names it.
absl::StatusOr<TrainOptions> ParseTrainOptions(const CommandLine& line, const Program& program);

struct TrainData {
  training::Dataset train;
  std::optional<training::Dataset> held_out;
  std::vector<std::string> inputs, targets;  // columns, for TrainerOptions; empty `inputs`: those that are not targets
  std::vector<std::string> classes;          // of folders of images: PackedImages.classes
};

// Reads the data that --data, --targets, --held_out and --format name.
// InvalidArgument: an option is missing or invalid; the message names it. Errors of the readers
// (runtime/training/csv_dataset.h and its siblings, ReadPackedImages()).
absl::StatusOr<TrainData> ReadTrainData(const CommandLine& line);

}  // namespace cotan::tools

#endif  // COTAN_RUNTIME_TOOLS_TRAIN_OPTIONS_H_
