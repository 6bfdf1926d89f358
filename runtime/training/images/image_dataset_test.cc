// SPDX-License-Identifier: Apache-2.0

#include "runtime/training/images/image_dataset.h"

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/training/images/test_images.h"

namespace cotan::training {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::PngFile;

class ImageFolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  // Writes a file to a subfolder.
  void Write(const std::string& name, const std::string& bytes) {
    const std::string path = absl::StrCat(folder_, "/", name);
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    ASSERT_TRUE(WriteFileAtomically(path, {bytes}).ok());
  }
  // An image of one color.
  static std::string Square(uint8_t gray, int side) {
    return PngFile(std::vector<uint8_t>(static_cast<size_t>(3 * side * side), gray), side, side);
  }
  std::string Refusal() { return std::string(ReadImageFolder(folder_, 1).status().message()); }

  const std::string folder_ = absl::StrCat(::testing::TempDir(), "/images");
};

TEST_F(ImageFolderTest, SubfoldersAreClassesInOrder) {
  Write("dog/2.png", Square(30, 2));
  Write("dog/1.png", Square(20, 2));
  Write("cat/only.png", Square(10, 2));
  Write("dog/.hidden", "x");
  Write("labels.txt", "not in a subfolder");
  const absl::StatusOr<ImageFolder> images = ReadImageFolder(folder_, 1);
  ASSERT_TRUE(images.ok()) << images.status();
  EXPECT_THAT(images->classes, ElementsAre("cat", "dog"));
  EXPECT_EQ(images->data.columns()[0].values.ToString(), "u8[3,1,2,2]");
  EXPECT_THAT(*images->data.columns()[0].values.ToVector<uint8_t>(),
              ElementsAre(10, 10, 10, 10, 20, 20, 20, 20, 30, 30, 30, 30));
  EXPECT_THAT(*images->data.columns()[1].values.ToVector<int64_t>(), ElementsAre(0, 1, 1));
}

TEST_F(ImageFolderTest, FilesThatDoNotFitAreNamed) {
  EXPECT_THAT(Refusal(), HasSubstr("has no images in subfolders"));
  Write("a/1.png", Square(1, 2));
  Write("b/2.png", Square(1, 3));
  EXPECT_THAT(Refusal(), HasSubstr("b/2.png has 3 x 3 pixels, but "));
  Write("b/2.png", "text");
  EXPECT_THAT(Refusal(), HasSubstr("b/2.png: the file is neither PNG nor JPEG"));
}

TEST_F(ImageFolderTest, MissingFolderIsNamed) {
  const absl::Status status = ReadImageFolder("/no/such/folder", 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/no/such/folder"));
}

}  // namespace
}  // namespace cotan::training
