// SPDX-License-Identifier: Apache-2.0

// Reads a folder of images as a dataset.
#ifndef COTAN_RUNTIME_TRAINING_IMAGES_IMAGE_DATASET_H_
#define COTAN_RUNTIME_TRAINING_IMAGES_IMAGE_DATASET_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/training/dataset.h"

namespace cotan::training {

struct ImageFolder {
  Dataset data;                      // "inputs", u8 [examples, channels, height, width], and "targets", i64 [examples]
  std::vector<std::string> classes;  // by target
};

// Reads the images of each subfolder of `folder`. The subfolders are the classes, in the order of their names; so are
// the images of each. Files and folders whose names begin with '.' are skipped. `channels` is that of DecodeImage().
// NotFound, PermissionDenied, Unavailable: a folder or file cannot be read.
// InvalidArgument: there are no subfolders or images, a file is not an image (DecodeImage()), or has another size than
// the first. The message has the path.
// ResourceExhausted: the host has not enough memory.
absl::StatusOr<ImageFolder> ReadImageFolder(const std::string& folder, int channels);

}  // namespace cotan::training

#endif  // COTAN_RUNTIME_TRAINING_IMAGES_IMAGE_DATASET_H_
