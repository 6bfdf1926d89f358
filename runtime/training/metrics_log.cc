// SPDX-License-Identifier: Apache-2.0

#include "runtime/training/metrics_log.h"

#include <unistd.h>

#include <cerrno>
#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/quoted_text.h"
#include "base/status_macros.h"
#include "base/system_error.h"

namespace cotan::training {
namespace {

constexpr absl::string_view kStart = "{\"step\":";

absl::Status WriteError(const std::string& path, int error) { return SystemError("write", path, error); }

// Returns the shortest decimal number that is read as `number`.
std::string NumberText(double number) {
  if (!std::isfinite(number)) return "null";
  for (int digits = 6; digits < 17; ++digits) {
    const std::string text = absl::StrFormat("%.*g", digits, number);
    double read = 0;
    if (absl::SimpleAtod(text, &read) && read == number) return text;
  }
  return absl::StrFormat("%.17g", number);
}

struct ValueText {
  std::string operator()(int64_t value) const { return absl::StrCat(value); }
  std::string operator()(double value) const { return NumberText(value); }
  std::string operator()(absl::string_view value) const { return JsonQuoted(value); }
};

// Returns the bytes of the lines up to `step`.
absl::StatusOr<size_t> KeptBytes(absl::string_view bytes, const std::string& path, int64_t step) {
  size_t kept = 0;
  for (int64_t line = 1;; ++line) {
    const size_t end = bytes.find('\n', kept);
    if (end == absl::string_view::npos) return kept;
    absl::string_view text = bytes.substr(kept, end - kept);
    int64_t number = 0;
    const bool has_start = absl::ConsumePrefix(&text, kStart);
    if (!has_start || !absl::SimpleAtoi(text.substr(0, text.find_first_of(",}")), &number)) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ":", line, ": is not a line of this log; name another file, or remove this one"));
    }
    if (number > step) return kept;
    kept = end + 1;
  }
}

}  // namespace

absl::StatusOr<MetricsLog> MetricsLog::Create(const std::string& path) {
  std::FILE* const file = std::fopen(path.c_str(), "we");
  if (file == nullptr) return WriteError(path, errno);
  return MetricsLog(path, file);
}

absl::StatusOr<MetricsLog> MetricsLog::Resume(const std::string& path, int64_t step) {
  size_t kept = 0;
  {
    const absl::StatusOr<MappedFile> old = MappedFile::Open(path);
    if (absl::IsNotFound(old.status())) return Create(path);
    COTAN_RETURN_IF_ERROR(old.status());
    COTAN_ASSIGN_OR_RETURN(kept, KeptBytes(old->bytes(), path, step));
  }
  if (::truncate(path.c_str(), static_cast<off_t>(kept)) != 0) return WriteError(path, errno);
  std::FILE* const file = std::fopen(path.c_str(), "ae");
  if (file == nullptr) return WriteError(path, errno);
  return MetricsLog(path, file);
}

absl::Status MetricsLog::Write(int64_t step, absl::Span<const LogField> fields) {
  std::string line = absl::StrCat(kStart, step);
  for (const LogField& field : fields) {
    absl::StrAppend(&line, ",", JsonQuoted(field.name), ":", absl::visit(ValueText(), field.value));
  }
  line += "}\n";
  const bool written = std::fwrite(line.data(), 1, line.size(), file_.get()) == line.size();
  if (written && std::fflush(file_.get()) == 0) return absl::OkStatus();
  return WriteError(path_, errno);
}

absl::Status MetricsLog::Sync() {
  // Pipes and some file systems do not support fsync().
  if (::fsync(::fileno(file_.get())) == 0 || errno == EINVAL || errno == ENOTSUP) return absl::OkStatus();
  return WriteError(path_, errno);
}

}  // namespace cotan::training
