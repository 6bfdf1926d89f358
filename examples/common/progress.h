// SPDX-License-Identifier: Apache-2.0

// A progress bar for a terminal.
#ifndef COTAN_EXAMPLES_COMMON_PROGRESS_H_
#define COTAN_EXAMPLES_COMMON_PROGRESS_H_

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/strings/string_view.h"

namespace cotan::examples {

// "epoch 2 [######----]  60 %  loss 0.123": returns the text of a bar `width` characters wide,
// brackets not counted. 0 <= done <= total, total > 0.
std::string FormatBar(absl::string_view label, int64_t done, int64_t total, int width, absl::string_view note);

// Draws over one line of a terminal; on anything else (a file, a pipe) it
// writes only the finished line. Not thread-safe.
class ProgressBar {
 public:
  // `stream` outlives the bar. total > 0.
  ProgressBar(std::FILE* stream, std::string label, int64_t total);

  // Sets the bar; `note` is printed after it. Redraws at most ten times a second.
  void Update(int64_t done, absl::string_view note);
  // Draws the current state of the bar and ends the line.
  void Finish(absl::string_view note);

 private:
  void Draw(absl::string_view note, absl::string_view end);

  std::FILE* stream_;
  const std::string label_;
  const int64_t total_;
  const bool terminal_;
  int64_t done_ = 0;
  std::chrono::steady_clock::time_point last_drawn_;
};

}  // namespace cotan::examples

#endif  // COTAN_EXAMPLES_COMMON_PROGRESS_H_
