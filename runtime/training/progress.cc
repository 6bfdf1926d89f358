// SPDX-License-Identifier: Apache-2.0

#include "runtime/training/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"

namespace cotan::training {
namespace {

constexpr int kWidth = 30;  // characters
constexpr auto kRedrawInterval = std::chrono::milliseconds(100);

}  // namespace

std::string FormatBar(absl::string_view label, int64_t done, int64_t total, int width, absl::string_view note) {
  const auto filled = static_cast<size_t>(width * done / total);
  const std::string bar = std::string(filled, '#') + std::string(static_cast<size_t>(width) - filled, '-');
  char percent[32];
  std::snprintf(percent, sizeof(percent), "%3" PRId64, 100 * done / total);
  return absl::StrCat(label, " [", bar, "] ", percent, " %  ", note);
}

std::string FormatRate(int64_t done, int64_t remaining, double seconds) {
  if (done <= 0 || seconds <= 0) return "";
  const double rate = static_cast<double>(done) / seconds;
  constexpr double kLongest = 1e9;  // seconds; about 30 years
  const auto left = static_cast<int64_t>(std::min(static_cast<double>(remaining) / rate + 0.5, kLongest));
  const int64_t hours = left / 3600, minutes = left / 60, seconds_left = left % 60;
  char text[64];
  if (hours == 0) {
    std::snprintf(text, sizeof(text), "%.4g/s, %" PRId64 ":%02" PRId64 " left", rate, minutes, seconds_left);
  } else {
    std::snprintf(text, sizeof(text), "%.4g/s, %" PRId64 ":%02" PRId64 ":%02" PRId64 " left", rate, hours, minutes % 60,
                  seconds_left);
  }
  return text;
}

ProgressBar::ProgressBar(std::FILE* stream, std::string label, int64_t total, int64_t done)
    : stream_(stream),
      label_(std::move(label)),
      total_(total),
      first_(done),
      terminal_(isatty(fileno(stream)) == 1),
      started_(std::chrono::steady_clock::now()),
      done_(done) {}

void ProgressBar::Update(int64_t done, absl::string_view note) {
  done_ = done;
  if (!terminal_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - last_drawn_ < kRedrawInterval) return;
  last_drawn_ = now;
  const std::chrono::duration<double> elapsed = now - started_;
  Draw(absl::StrCat(FormatRate(done_ - first_, total_ - done_, elapsed.count()), "  ", note), "");
}

void ProgressBar::Clear() {
  if (!terminal_) return;
  std::fputs("\r\x1b[K", stream_);
  std::fflush(stream_);
}

void ProgressBar::Finish(absl::string_view note) { Draw(note, "\n"); }

void ProgressBar::Draw(absl::string_view note, absl::string_view end) {
  const std::string line = FormatBar(label_, done_, total_, kWidth, note);
  // Back to the line's start, and clear what is left of a longer one.
  std::fputs(terminal_ ? absl::StrCat("\r", line, "\x1b[K", end).c_str() : absl::StrCat(line, end).c_str(), stream_);
  std::fflush(stream_);
}

}  // namespace cotan::training
