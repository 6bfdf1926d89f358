// SPDX-License-Identifier: Apache-2.0

#include "examples/digits/idx.h"

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "examples/digits/sizes.h"
#include "runtime/tensor.h"
#include "runtime/training/idx_dataset.h"

namespace cotan::digits {
namespace {

absl::StatusOr<Tensor> ReadImages(const std::string& path) {
  COTAN_ASSIGN_OR_RETURN(Tensor images, training::ReadIdx(path));
  const absl::Span<const int64_t> sizes = images.sizes();
  if (images.dtype() != DType::kUInt8 || sizes.size() != 3 || sizes[1] != kSide || sizes[2] != kSide) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " has ", images.ToString(), "; expected u8[images,", kSide, ",", kSide, "]"));
  }
  if (sizes[0] == 0) return absl::InvalidArgumentError(absl::StrCat(path, " has no images"));
  return images;
}

absl::StatusOr<Tensor> ReadLabels(const std::string& path) {
  COTAN_ASSIGN_OR_RETURN(Tensor labels, training::ReadIdx(path));
  if (labels.dtype() == DType::kUInt8 && labels.sizes().size() == 1) return labels;
  return absl::InvalidArgumentError(absl::StrCat(path, " has ", labels.ToString(), "; expected u8[labels]"));
}

}  // namespace

absl::StatusOr<DigitImages> ReadIdx(const std::string& images_path, const std::string& labels_path) {
  COTAN_ASSIGN_OR_RETURN(const Tensor pixels, ReadImages(images_path));
  COTAN_ASSIGN_OR_RETURN(const Tensor labels, ReadLabels(labels_path));
  if (pixels.sizes()[0] != labels.num_elements()) {
    return absl::InvalidArgumentError(absl::StrCat(images_path, " has ", pixels.sizes()[0], " images, but ",
                                                   labels_path, " has ", labels.num_elements(), " labels"));
  }
  DigitImages images;
  COTAN_ASSIGN_OR_RETURN(images.pixels, pixels.ToVector<uint8_t>());
  COTAN_ASSIGN_OR_RETURN(images.labels, labels.ToVector<uint8_t>());
  for (size_t i = 0; i < images.labels.size(); ++i) {
    if (images.labels[i] < kClasses) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(labels_path, ": label ", i, " is ", images.labels[i], ", which is not a digit"));
  }
  return images;
}

absl::StatusOr<Mnist> ReadMnist(const std::string& folder) {
  Mnist mnist;
  COTAN_ASSIGN_OR_RETURN(mnist.train, ReadIdx(absl::StrCat(folder, "/train-images-idx3-ubyte"),
                                              absl::StrCat(folder, "/train-labels-idx1-ubyte")));
  COTAN_ASSIGN_OR_RETURN(mnist.held_out, ReadIdx(absl::StrCat(folder, "/t10k-images-idx3-ubyte"),
                                                 absl::StrCat(folder, "/t10k-labels-idx1-ubyte")));
  return mnist;
}

}  // namespace cotan::digits
