// SPDX-License-Identifier: Apache-2.0

#include "examples/common/progress.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/str_format.h"

namespace cotan::examples {
namespace {

constexpr int kWidth = 30;  // characters
constexpr auto kRedrawInterval = std::chrono::milliseconds(100);

}  // namespace

std::string FormatBar(absl::string_view label, int64_t done, int64_t total, int width, absl::string_view note) {
  const auto filled = static_cast<size_t>(width * done / total);
  const std::string bar = std::string(filled, '#') + std::string(static_cast<size_t>(width) - filled, '-');
  return absl::StrFormat("%s [%s] %3d %%  %s", label, bar, 100 * done / total, note);
}

ProgressBar::ProgressBar(std::FILE* stream, std::string label, int64_t total)
    : stream_(stream), label_(std::move(label)), total_(total), terminal_(isatty(fileno(stream)) == 1) {}

void ProgressBar::Update(int64_t done, absl::string_view note) {
  done_ = done;
  if (!terminal_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - last_drawn_ < kRedrawInterval) return;
  last_drawn_ = now;
  Draw(note, "");
}

void ProgressBar::Finish(absl::string_view note) { Draw(note, "\n"); }

void ProgressBar::Draw(absl::string_view note, absl::string_view end) {
  const std::string line = FormatBar(label_, done_, total_, kWidth, note);
  // Back to the line's start, and clear what is left of a longer one.
  if (terminal_) {
    absl::FPrintF(stream_, "\r%s\x1b[K%s", line, end);
  } else {
    absl::FPrintF(stream_, "%s%s", line, end);
  }
  std::fflush(stream_);
}

}  // namespace cotan::examples
