// SPDX-License-Identifier: Apache-2.0

// Reads tables of numbers in text files: comma-separated values (RFC 4180).
#ifndef COTAN_RUNTIME_TRAINING_CSV_DATASET_H_
#define COTAN_RUNTIME_TRAINING_CSV_DATASET_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/training/dataset.h"

namespace cotan::training {

struct CsvOptions {
  char delimiter = ',';
  // The columns that are predicted: names of the header, or numbers from 0, negative from the last column. Empty: the
  // dataset has inputs only.
  std::vector<std::string> targets = {};
  // Texts of the target columns that stand for the numbers 0, 1, ...; empty: target columns hold numbers.
  std::vector<std::string> classes = {};
};

// Reads a file of lines with equally many fields. The first line is a header if one of its fields is not a number,
// where infinities and NaN are numbers. Fields may be quoted; blank lines and a byte order mark of UTF-8 are skipped;
// lines end with LF or CRLF. Returns the columns "inputs", f64 [examples, columns that are not targets], and, with
// CsvOptions::targets, "targets", f64 [examples, targets].
// NotFound, PermissionDenied, Unavailable: the file cannot be read.
// InvalidArgument: a field is empty or not a finite number or class, a line has another number of fields, a quote is
// not closed, there are no examples, or a target names no column, or one twice, or leaves no inputs. The message has
// the path, the line, the field, and how to fix it.
// ResourceExhausted: the host has not enough memory.
absl::StatusOr<Dataset> ReadCsv(const std::string& path, const CsvOptions& options);

// Reads the text of a file in the same way; `name` stands for the path in messages.
absl::StatusOr<Dataset> ParseCsv(absl::string_view text, absl::string_view name, const CsvOptions& options);

}  // namespace cotan::training

#endif  // COTAN_RUNTIME_TRAINING_CSV_DATASET_H_
