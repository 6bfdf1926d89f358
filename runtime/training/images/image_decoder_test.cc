// SPDX-License-Identifier: Apache-2.0

#include "runtime/training/images/image_decoder.h"

#include <random>
#include <string>

#include "base/test_seed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/training/images/test_images.h"

namespace cotan::training {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::JpegFile;
using ::testing::Le;
using testing::PngFile;
using testing::YcckJpegFile;

// Red, green; blue, white.
const std::vector<uint8_t>& Colors() {
  static const std::vector<uint8_t>& colors = *new std::vector<uint8_t>{255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 255};
  return colors;
}

TEST(DecodeImageTest, PngChannelsAreSeparated) {
  const absl::StatusOr<Image> image = DecodeImage(PngFile(Colors(), 2, 2), 3);
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(image->height, 2);
  EXPECT_EQ(image->width, 2);
  EXPECT_THAT(image->pixels, ElementsAre(255, 0, 0, 255, 0, 255, 0, 255, 0, 0, 255, 255));
}

TEST(DecodeImageTest, PngBecomesGray) {
  const absl::StatusOr<Image> image = DecodeImage(PngFile(Colors(), 2, 2), 1);
  ASSERT_TRUE(image.ok()) << image.status();
  ASSERT_EQ(image->pixels.size(), 4u);
  EXPECT_EQ(image->pixels[3], 255);
  EXPECT_GT(image->pixels[1], image->pixels[0]) << "green is lighter than red";
  EXPECT_GT(image->pixels[0], image->pixels[2]) << "red is lighter than blue";
}

TEST(DecodeImageTest, JpegIsDecoded) {
  const std::vector<uint8_t> blue(3 * 16 * 8, 0);
  std::vector<uint8_t> pixels = blue;
  for (size_t i = 2; i < pixels.size(); i += 3) pixels[i] = 255;
  const absl::StatusOr<Image> image = DecodeImage(JpegFile(pixels, 16, 8), 3);
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(image->width, 16);
  EXPECT_EQ(image->height, 8);
  const std::vector<uint8_t> red(image->pixels.begin(), image->pixels.begin() + 128);
  EXPECT_THAT(red, Each(Le(4)));
  EXPECT_GE(image->pixels[2 * 128], 250);
  EXPECT_EQ(DecodeImage(JpegFile(pixels, 16, 8), 1)->pixels.size(), 128u);
}

TEST(DecodeImageTest, OtherFilesAreRefused) {
  EXPECT_THAT(std::string(DecodeImage("GIF89a", 3).status().message()), HasSubstr("neither PNG nor JPEG"));
  EXPECT_THAT(std::string(DecodeImage("", 3).status().message()), HasSubstr("neither PNG nor JPEG"));
  EXPECT_THAT(std::string(DecodeImage(PngFile(Colors(), 2, 2), 2).status().message()), HasSubstr("channels = 2"));
}

TEST(DecodeImageTest, JpegFilesForPrintersAreRefused) {
  const std::string ycck = YcckJpegFile(std::vector<uint8_t>(4 * 8 * 8, 100), 8, 8);
  // The byte of Adobe's marker that distinguishes YCCK from CMYK follows name, version and two words of flags.
  const size_t marker = ycck.find("Adobe");
  ASSERT_NE(marker, std::string::npos);
  std::string cmyk = ycck;
  ASSERT_EQ(ycck[marker + 11], 2);
  cmyk[marker + 11] = 0;
  for (const std::string& file : {ycck, cmyk}) {
    for (const int channels : {1, 3}) {
      const absl::Status status = DecodeImage(file, channels).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(status.message()), HasSubstr("CMYK or YCCK, for printers; convert it to RGB"));
    }
  }
}

TEST(DecodeImageTest, CutFilesAreRefused) {
  const std::string png = PngFile(Colors(), 2, 2), jpeg = JpegFile(Colors(), 2, 2);
  for (size_t size = 0; size < png.size() - 12; ++size) {  // the last 12 bytes only mark the end
    EXPECT_EQ(DecodeImage(png.substr(0, size), 3).status().code(), absl::StatusCode::kInvalidArgument) << size;
  }
  EXPECT_THAT(std::string(DecodeImage(jpeg.substr(0, jpeg.size() - 4), 3).status().message()),
              HasSubstr("libjpeg-turbo"));
}

TEST(DecodeImageTest, DamagedFilesGiveAnImageOrAnError) {
  std::mt19937_64 random(cotan::testing::TestSeed());
  for (const std::string& file : {PngFile(Colors(), 2, 2), JpegFile(Colors(), 2, 2)}) {
    for (int trial = 0; trial < 3000; ++trial) {
      std::string damaged = file.substr(0, trial % 2 == 0 ? file.size() : random() % (file.size() + 1));
      for (uint64_t flips = random() % 4; flips > 0 && !damaged.empty(); --flips) {
        damaged[random() % damaged.size()] = static_cast<char>(random());
      }
      const absl::StatusOr<Image> image = DecodeImage(damaged, 3);
      if (image.ok()) {
        EXPECT_EQ(image->pixels.size(), static_cast<size_t>(3 * image->height * image->width));
      } else {
        EXPECT_EQ(image.status().code(), absl::StatusCode::kInvalidArgument) << image.status();
      }
    }
  }
}

}  // namespace
}  // namespace cotan::training
