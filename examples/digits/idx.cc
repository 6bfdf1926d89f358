// SPDX-License-Identifier: Apache-2.0

#include "examples/digits/idx.h"

#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/status_macros.h"

namespace cotan::digits {
namespace {

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    if (std::ifstream(path + ".gz").good()) {
      return absl::NotFoundError(absl::StrCat(path, " does not exist, but ", path, ".gz does: unpack it with gunzip"));
    }
    return absl::NotFoundError(absl::StrCat("cannot open ", path));
  }
  std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (file.bad()) return absl::DataLossError(absl::StrCat("cannot read ", path));
  return bytes;
}

uint32_t BigEndian32(absl::string_view bytes) {
  uint32_t value = 0;
  for (char byte : bytes.substr(0, 4)) value = value << 8 | static_cast<uint8_t>(byte);
  return value;
}

// The content after the header, if the header says that the file holds
// unsigned bytes in `rank` dimensions, of which all but the first are `sizes`.
absl::StatusOr<absl::string_view> CheckedBody(const std::string& path, absl::string_view file, size_t rank,
                                              absl::Span<const uint32_t> sizes) {
  if (absl::StartsWith(file, "\x1f\x8b")) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is compressed: unpack it with gunzip"));
  }
  const size_t header_size = 4 + 4 * rank;
  const std::string magic = {'\0', '\0', '\x08', static_cast<char>(rank)};
  if (file.size() < header_size || file.substr(0, 4) != magic) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is not an IDX file of unsigned bytes in ", rank,
                                                   " dimensions: it has to begin with ", absl::BytesToHexString(magic),
                                                   " but begins with ", absl::BytesToHexString(file.substr(0, 4)),
                                                   " and has ", file.size(), " bytes"));
  }
  const uint64_t count = BigEndian32(file.substr(4));
  uint64_t expected = count;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const uint32_t size = BigEndian32(file.substr(8 + 4 * i));
    if (size != sizes[i]) {
      return absl::InvalidArgumentError(absl::StrCat(path, " has items of other sizes than ",
                                                     absl::StrJoin(sizes, " x "), ": dimension ", i + 1, " is ", size));
    }
    expected *= size;
  }
  const absl::string_view body = file.substr(header_size);
  if (body.size() != expected) {
    return absl::InvalidArgumentError(absl::StrCat(path, " announces ", count, " items, that is ", expected,
                                                   " bytes after the header, but ", body.size(), " follow"));
  }
  return body;
}

}  // namespace

absl::StatusOr<DigitImages> ReadIdx(const std::string& images_path, const std::string& labels_path) {
  constexpr uint32_t kSide32 = static_cast<uint32_t>(kSide);
  COTAN_ASSIGN_OR_RETURN(const std::string images_file, ReadFile(images_path));
  COTAN_ASSIGN_OR_RETURN(const std::string labels_file, ReadFile(labels_path));
  COTAN_ASSIGN_OR_RETURN(const absl::string_view pixels, CheckedBody(images_path, images_file, 3, {kSide32, kSide32}));
  COTAN_ASSIGN_OR_RETURN(const absl::string_view labels, CheckedBody(labels_path, labels_file, 1, {}));
  const uint64_t count = pixels.size() / static_cast<uint64_t>(kPixels);
  if (count != labels.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(images_path, " has ", count, " images, but ", labels_path, " has ", labels.size(), " labels"));
  }
  if (count == 0) return absl::InvalidArgumentError(absl::StrCat(images_path, " has no images"));
  for (size_t i = 0; i < labels.size(); ++i) {
    if (static_cast<uint8_t>(labels[i]) < kClasses) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(labels_path, ": label ", i, " is ", static_cast<uint8_t>(labels[i]), ", which is not a digit"));
  }
  DigitImages images;
  images.pixels.assign(pixels.begin(), pixels.end());
  images.labels.assign(labels.begin(), labels.end());
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
