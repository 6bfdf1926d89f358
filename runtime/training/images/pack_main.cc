// SPDX-License-Identifier: Apache-2.0

// The command `cotan pack`: packs a folder of images into a file for `cotan train`, which calls it for a folder, too.
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "base/status_macros.h"
#include "runtime/training/images/image_dataset.h"
#include "runtime/training/safetensors_dataset.h"

namespace {

// Returns `path` relative to the folder in which `./bazelw run` was called.
std::string UserPath(const std::string& path) {
  const char* const folder = std::getenv("BUILD_WORKING_DIRECTORY");
  return folder == nullptr || path.front() == '/' ? path : std::string(folder) + "/" + path;
}

absl::Status Pack(const std::string& folder, const std::string& path, int channels) {
  COTAN_ASSIGN_OR_RETURN(const cotan::training::ImageFolder images,
                         cotan::training::ReadImageFolder(UserPath(folder), channels));
  const bool to_output = path == "-";
  COTAN_RETURN_IF_ERROR(to_output ? cotan::training::WriteSafetensors(images.data, STDOUT_FILENO, "standard output")
                                  : cotan::training::WriteSafetensors(images.data, UserPath(path)));
  std::ostream& out = to_output ? std::cerr : std::cout;
  out << images.data.size() << " images: inputs " << images.data.columns()[0].values.ToString() << ", targets\n";
  for (size_t i = 0; i < images.classes.size(); ++i) out << "class " << i << ": " << images.classes[i] << "\n";
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  int channels = 3;
  const bool has_channels = argc < 4 || (absl::SimpleAtoi(argv[3], &channels) && (channels == 1 || channels == 3));
  if (argc < 3 || argc > 4 || argv[1][0] == '\0' || argv[2][0] == '\0' || !has_channels) {
    std::cerr << "usage: cotan pack FOLDER FILE.safetensors [CHANNELS]\n"
                 "Decodes the PNG and JPEG images of FOLDER/CLASS/ to the tensors inputs, u8[images,CHANNELS,height,\n"
                 "width], and targets, i64[images]. CHANNELS is 3 (the default) or 1. With - in place of the file,\n"
                 "the bytes go to standard output, and sizes and classes to standard error.\n";
    return 2;
  }
  const absl::Status status = Pack(argv[1], argv[2], channels);
  if (status.ok()) return 0;
  std::cerr << "cotan pack: " << status.message() << "\n";
  return 1;
}
