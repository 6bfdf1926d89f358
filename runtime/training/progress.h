// SPDX-License-Identifier: Apache-2.0

// A progress bar for a terminal.
#ifndef COTAN_RUNTIME_TRAINING_PROGRESS_H_
#define COTAN_RUNTIME_TRAINING_PROGRESS_H_

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/strings/string_view.h"

namespace cotan::training {

// "epoch 2 [######----]  60 %  loss 0.123": returns the text of a bar `width` characters wide,
// brackets not counted. 0 <= done <= total, total > 0.
std::string FormatBar(absl::string_view label, int64_t done, int64_t total, int width, absl::string_view note);

// "12.5/s, 1:20 left": returns the rate of `done` units in `seconds` and the time that `remaining` units take at that
// rate. Empty if nothing is done or no time has passed.
std::string FormatRate(int64_t done, int64_t remaining, double seconds);

// Draws over one line of a terminal, with the rate and the time left; on anything else (a file, a pipe) it writes only
// the finished line, without them. Not thread-safe.
class ProgressBar {
 public:
  // `stream` outlives the bar. 0 <= done <= total, total > 0. Units that are done already do not count for the rate.
  ProgressBar(std::FILE* stream, std::string label, int64_t total, int64_t done = 0);

  // Sets the bar; `note` is printed after it. Redraws at most ten times a second.
  void Update(int64_t done, absl::string_view note);
  // Removes the bar from the terminal until the next Update(), so that a line can be written in its place.
  void Clear();
  // Draws the current state of the bar and ends the line.
  void Finish(absl::string_view note);

 private:
  void Draw(absl::string_view note, absl::string_view end);

  std::FILE* stream_;
  const std::string label_;
  const int64_t total_;
  const int64_t first_;
  const bool terminal_;
  const std::chrono::steady_clock::time_point started_;
  int64_t done_;
  std::chrono::steady_clock::time_point last_drawn_;
};

}  // namespace cotan::training

#endif  // COTAN_RUNTIME_TRAINING_PROGRESS_H_
