// SPDX-License-Identifier: Apache-2.0

// A log of a training run: one JSON object a line (JSON Lines).
#ifndef COTAN_RUNTIME_TRAINING_METRICS_LOG_H_
#define COTAN_RUNTIME_TRAINING_METRICS_LOG_H_

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "absl/types/variant.h"

namespace cotan::training {

// A member of a line. Numbers that are not finite are written as null.
struct LogField {
  absl::string_view name;
  absl::variant<int64_t, double, absl::string_view> value;
};

// Appends lines to a file. Each line reaches the operating system before Write() returns, so that it survives the death
// of the process. Movable; not thread-safe.
class MetricsLog {
 public:
  // Begins an empty file; one that exists is replaced.
  // NotFound, PermissionDenied, ResourceExhausted, Unavailable: the file cannot be written.
  static absl::StatusOr<MetricsLog> Create(const std::string& path);
  // Continues a file after a resume from a checkpoint of step `step`: lines of later steps and an incomplete last line
  // are cut. A file that does not exist is begun.
  // InvalidArgument: a line before the cut was not written by Write(); the message has its number.
  // Errors of Create().
  static absl::StatusOr<MetricsLog> Resume(const std::string& path, int64_t step);

  // Appends {"step":STEP,"NAME":VALUE,...}. `step` does not decrease.
  // ResourceExhausted: the disk is full. Unavailable: another error of the system.
  absl::Status Write(int64_t step, absl::Span<const LogField> fields);
  // Returns when all lines are on the disk. Call it before each checkpoint, so that loss of power takes no line before
  // the checkpoint.
  absl::Status Sync();

 private:
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  MetricsLog(std::string path, std::FILE* file) : path_(std::move(path)), file_(file) {}

  std::string path_;
  std::unique_ptr<std::FILE, Closer> file_;
};

}  // namespace cotan::training

#endif  // COTAN_RUNTIME_TRAINING_METRICS_LOG_H_
