// SPDX-License-Identifier: Apache-2.0

// Reads IDX files, the format of MNIST.
#ifndef COTAN_EXAMPLES_DIGITS_IDX_H_
#define COTAN_EXAMPLES_DIGITS_IDX_H_

#include <string>

#include "absl/status/statusor.h"
#include "examples/digits/digit_images.h"

namespace cotan::digits {

// Reads a pair of IDX files: unsigned bytes, images of 28 x 28 pixels and one
// label for each.
// NotFound: a file does not exist. Every message names the file.
// InvalidArgument: compressed, of another kind or size than said above, longer
// or shorter than its header says, a label above 9, other counts in the two
// files, or no image at all.
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
