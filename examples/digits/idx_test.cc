// SPDX-License-Identifier: Apache-2.0

#include "examples/digits/idx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"

namespace cotan::digits {
namespace {

using ::testing::HasSubstr;

std::string Header(char rank, std::initializer_list<char> low_bytes) {
  std::string header = {'\0', '\0', '\x08', rank};
  for (char byte : low_bytes) header += {'\0', '\0', '\0', byte};
  return header;
}

class IdxTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& bytes) {
    const std::string path = absl::StrCat(::testing::TempDir(), "/", name);
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  // Returns the status of reading these two files.
  absl::Status Read(const std::string& images, const std::string& labels) {
    return ReadIdx(Write("images", images), Write("labels", labels)).status();
  }

  const std::string images_ = Header(3, {2, 28, 28}) + std::string(kPixels, 'a') + std::string(kPixels, 'b');
  const std::string labels_ = Header(1, {2}) + std::string("\x07\x09", 2);
};

TEST_F(IdxTest, ReadsImagesAndLabels) {
  auto images = ReadIdx(Write("images", images_), Write("labels", labels_));
  ASSERT_TRUE(images.ok()) << images.status();
  EXPECT_EQ(images->count(), 2);
  EXPECT_EQ(images->pixels[0], 'a');
  EXPECT_EQ(images->pixels[kPixels], 'b');
  EXPECT_THAT(images->labels, ::testing::ElementsAre(7, 9));
}

TEST_F(IdxTest, MissingFileIsNamed) {
  const absl::Status status = ReadIdx("/no/such/file", Write("labels", labels_)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("/no/such/file"));
}

TEST_F(IdxTest, CompressedFileIsNamedAsSuch) {
  EXPECT_THAT(Read("\x1f\x8b\x08garbage", labels_).message(), HasSubstr("gunzip"));
  Write("packed.gz", "");
  EXPECT_THAT(ReadIdx(absl::StrCat(::testing::TempDir(), "/packed"), Write("labels", labels_)).status().message(),
              HasSubstr("gunzip"));
}

TEST_F(IdxTest, EveryTruncationIsRefused) {
  for (size_t size : {size_t{0}, size_t{3}, size_t{15}, size_t{16}, images_.size() - 1}) {
    EXPECT_EQ(Read(images_.substr(0, size), labels_).code(), absl::StatusCode::kInvalidArgument);
  }
  for (size_t size = 0; size < labels_.size(); ++size) {
    EXPECT_EQ(Read(images_, labels_.substr(0, size)).code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST_F(IdxTest, TrailingBytesAreRefused) {
  EXPECT_THAT(Read(images_ + "x", labels_).message(), HasSubstr("1569 bytes follow"));
}

TEST_F(IdxTest, OtherFileIsRefused) {
  EXPECT_THAT(Read("GIF89a and some more bytes", labels_).message(), HasSubstr("47494638"));
  EXPECT_THAT(Read(labels_, images_).message(), HasSubstr("images has u8[2]; expected u8[images,28,28]"));
  EXPECT_THAT(Read(images_, images_).message(), HasSubstr("labels has u8[2,28,28]; expected u8[labels]"));
}

TEST_F(IdxTest, OtherImageSizeIsRefused) {
  const std::string wide = Header(3, {1, 28, 32}) + std::string(28 * 32, 'a');
  EXPECT_THAT(Read(wide, labels_).message(), HasSubstr("u8[1,28,32]; expected u8[images,28,28]"));
}

TEST_F(IdxTest, CountsMustAgree) {
  EXPECT_THAT(Read(images_, Header(1, {3}) + std::string(3, '\1')).message(), HasSubstr("3 labels"));
}

TEST_F(IdxTest, LabelMustBeADigit) {
  EXPECT_THAT(Read(images_, Header(1, {2}) + std::string("\x01\x0a", 2)).message(), HasSubstr("label 1 is 10"));
}

TEST_F(IdxTest, NoImageIsRefused) {
  EXPECT_THAT(Read(Header(3, {0, 28, 28}), Header(1, {0})).message(), HasSubstr("no images"));
}

TEST_F(IdxTest, FolderNamesTheMissingFile) {
  EXPECT_THAT(ReadMnist("/nowhere").status().message(), HasSubstr("/nowhere/train-images-idx3-ubyte"));
}

}  // namespace
}  // namespace cotan::digits
