// SPDX-License-Identifier: Apache-2.0

// `cotan train`: trains with the methods of an artifact.
#ifndef COTAN_RUNTIME_TOOLS_TRAIN_H_
#define COTAN_RUNTIME_TOOLS_TRAIN_H_

#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "runtime/session/session.h"
#include "runtime/tools/command_line.h"

namespace cotan::tools {

// Trains the program of the file at `path` and writes a line for each epoch and evaluation to `out`. A progress bar is
// drawn on standard error if that is a terminal. SIGINT and SIGTERM end the run after a checkpoint.
// InvalidArgument: an option is invalid, or data or checkpoint do not fit; the message names it.
// Aborted: the loss is not finite. Cancelled: a signal ended the run.
// Errors of the readers of data, Trainer, Program and Session.
absl::Status Train(const CommandLine& line, const std::string& path, const SessionOptions& options, std::ostream& out);

}  // namespace cotan::tools

#endif  // COTAN_RUNTIME_TOOLS_TRAIN_H_
