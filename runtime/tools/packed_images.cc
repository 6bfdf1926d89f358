// SPDX-License-Identifier: Apache-2.0

#include "runtime/tools/packed_images.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "runtime/tools/external_command.h"
#include "runtime/tools/run_process.h"
#include "runtime/training/safetensors_dataset.h"

namespace cotan::tools {
namespace {

// The status of shells for a program that does not exist; of posix_spawn() where it cannot report that.
constexpr int kNoProgram = 127;

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

// Returns an open file without a name.
absl::StatusOr<File> TemporaryFile() {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  if (error) return absl::UnavailableError(absl::StrCat("TMPDIR does not name a folder: ", error.message()));
  std::string path = (folder / "cotan-XXXXXX").string();
  const int descriptor = ::mkostemp(path.data(), O_CLOEXEC);
  if (descriptor < 0) {
    return absl::UnavailableError(absl::StrCat("cannot create a temporary file in '", folder.string(),
                                               "': ", std::strerror(errno), "; TMPDIR names the folder for them"));
  }
  ::unlink(path.c_str());
  std::FILE* const file = ::fdopen(descriptor, "r+");
  if (file != nullptr) return File(file, std::fclose);
  ::close(descriptor);
  return absl::ResourceExhaustedError("no memory for a temporary file");
}

absl::StatusOr<MappedFile> Map(const File& file) {
  return MappedFile::Open(absl::StrCat("/proc/self/fd/", ::fileno(file.get())));
}

absl::Status Refusal(int status, absl::string_view text) {
  if (status == kNoProgram) {
    return absl::NotFoundError(
        "a folder of images needs the program cotan-pack beside cotan or in PATH, or must be packed elsewhere; see "
        "docs/training.md");
  }
  absl::ConsumePrefix(&text, "cotan pack: ");
  absl::ConsumeSuffix(&text, "\n");
  if (status == 1) return absl::InvalidArgumentError(text);
  return absl::UnavailableError(absl::StrCat("cotan-pack ended with status ", status, ": ", text));
}

}  // namespace

absl::StatusOr<PackedImages> ReadPackedImages(const std::string& folder, int channels) {
  COTAN_ASSIGN_OR_RETURN(const File packed, TemporaryFile());
  COTAN_ASSIGN_OR_RETURN(const File messages, TemporaryFile());
  std::error_code error;
  const std::string path = std::filesystem::absolute(folder, error).string();
  const absl::StatusOr<int> status =
      RunProcess({ExternalProgram("pack"), error ? folder : path, "-", absl::StrCat(channels)},
                 {.output = ::fileno(packed.get()), .errors = ::fileno(messages.get())});
  if (absl::IsNotFound(status.status())) return Refusal(kNoProgram, "");
  COTAN_RETURN_IF_ERROR(status.status());
  COTAN_ASSIGN_OR_RETURN(const MappedFile text, Map(messages));
  if (*status != 0) return Refusal(*status, text.bytes());
  COTAN_ASSIGN_OR_RETURN(const MappedFile bytes, Map(packed));
  COTAN_ASSIGN_OR_RETURN(training::Dataset data, training::ParseSafetensorsDataset(bytes.bytes(), folder));
  std::vector<std::string> classes;
  for (const absl::string_view line : absl::StrSplit(text.bytes(), '\n')) {
    if (absl::StartsWith(line, "class ")) classes.emplace_back(line);
  }
  return PackedImages{std::move(data), std::move(classes)};
}

}  // namespace cotan::tools
