// SPDX-License-Identifier: Apache-2.0

// Draws digits and writes them as the four files of MNIST. See --help.
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "examples/common/paths.h"
#include "examples/digits/digit_images.h"
#include "examples/digits/sizes.h"

ABSL_FLAG(std::string, out, "", "folder that receives the files; it exists");
ABSL_FLAG(int64_t, train_images, 12800, "images for training");
ABSL_FLAG(int64_t, held_out_images, 2048, "images for tests");

namespace cotan::digits {
namespace {

// Writes unsigned bytes as an IDX file.
absl::Status WriteIdx(const std::string& path, absl::Span<const uint32_t> sizes, const std::vector<uint8_t>& bytes) {
  std::string header = {'\0', '\0', '\x08', static_cast<char>(sizes.size())};
  for (const uint32_t size : sizes) {
    for (int shift = 24; shift >= 0; shift -= 8) header.push_back(static_cast<char>(size >> shift));
  }
  return WriteFileAtomically(path, {header, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}});
}

absl::Status Write(absl::string_view name, int64_t count, uint64_t seed) {
  if (count < 1 || count > UINT32_MAX) {
    return absl::InvalidArgumentError("--train_images and --held_out_images have to be at least 1");
  }
  const std::string prefix = absl::StrCat(examples::UserPath(absl::GetFlag(FLAGS_out)), "/", name);
  const DigitImages images = DrawDigits(count, seed);
  const auto size = static_cast<uint32_t>(count);
  constexpr uint32_t kSide32 = static_cast<uint32_t>(kSide);
  COTAN_RETURN_IF_ERROR(WriteIdx(prefix + "-images-idx3-ubyte", {size, kSide32, kSide32}, images.pixels));
  return WriteIdx(prefix + "-labels-idx1-ubyte", {size}, images.labels);
}

absl::Status Run() {
  constexpr uint64_t kTrainSeed = 1, kHeldOutSeed = 2;
  if (absl::GetFlag(FLAGS_out).empty()) return absl::InvalidArgumentError("--out=FOLDER is missing");
  COTAN_RETURN_IF_ERROR(Write("train", absl::GetFlag(FLAGS_train_images), kTrainSeed));
  return Write("t10k", absl::GetFlag(FLAGS_held_out_images), kHeldOutSeed);
}

}  // namespace
}  // namespace cotan::digits

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "Draws the digits that examples/digits:train draws and writes them as IDX files with the names of MNIST.\n"
      "Example: draw --out=/tmp/digits");
  if (const auto rest = absl::ParseCommandLine(argc, argv); rest.size() > 1) {
    absl::FPrintF(stderr, "draw: unexpected argument '%s'; see --help\n", rest[1]);
    return 1;
  }
  const absl::Status status = cotan::digits::Run();
  if (status.ok()) return 0;
  absl::FPrintF(stderr, "draw: %s\n", status.ToString());
  return 1;
}
