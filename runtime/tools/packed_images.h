// SPDX-License-Identifier: Apache-2.0

// Reads folders of images by the program cotan-pack, so that this one needs no decoders.
#ifndef COTAN_RUNTIME_TOOLS_PACKED_IMAGES_H_
#define COTAN_RUNTIME_TOOLS_PACKED_IMAGES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/training/dataset.h"

namespace cotan::tools {

struct PackedImages {
  training::Dataset data;            // "inputs", u8 [examples, channels, height, width], and "targets", i64 [examples]
  std::vector<std::string> classes;  // a line such as "class 0: cat" for each
};

// Reads the images of FOLDER/CLASS/ (ReadImageFolder() in runtime/training/images), which cotan-pack decodes to a file
// without a name in the folder for temporary files. `channels` is 1 or 3.
// NotFound: there is no cotan-pack beside this process's program or in PATH.
// InvalidArgument: cotan-pack refuses the folder; the message is its own.
// Unavailable: it cannot be executed, was ended by a signal, or a temporary file cannot be made.
// Errors of ParseSafetensorsDataset().
absl::StatusOr<PackedImages> ReadPackedImages(const std::string& folder, int channels);

}  // namespace cotan::tools

#endif  // COTAN_RUNTIME_TOOLS_PACKED_IMAGES_H_
