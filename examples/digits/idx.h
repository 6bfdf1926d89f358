// SPDX-License-Identifier: Apache-2.0

// Reads the digits of MNIST, which are IDX files (runtime/training/idx_dataset.h).
#ifndef COTAN_EXAMPLES_DIGITS_IDX_H_
#define COTAN_EXAMPLES_DIGITS_IDX_H_

#include <string>

#include "absl/status/statusor.h"
#include "examples/digits/digit_images.h"

namespace cotan::digits {

// Reads a pair of IDX files: unsigned bytes, images of 28 x 28 pixels and one label for each.
// InvalidArgument: a file is of another kind or size than said above, a label is above 9, the counts of the two
// files differ, or there is not one image. Other errors of training::ReadIdx(). Every message names the file.
absl::StatusOr<DigitImages> ReadIdx(const std::string& images_path, const std::string& labels_path);

struct Mnist {
  DigitImages train;
  DigitImages held_out;
};

// The four files of MNIST under their usual names ("train-images-idx3-ubyte",
// ...) in `folder`.
absl::StatusOr<Mnist> ReadMnist(const std::string& folder);

}  // namespace cotan::digits

#endif  // COTAN_EXAMPLES_DIGITS_IDX_H_
