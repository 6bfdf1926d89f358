// SPDX-License-Identifier: Apache-2.0

#include "examples/digits/digit_images.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "examples/digits/fonts.h"

namespace cotan::digits {
namespace {

TEST(FontsTest, EveryFontHasTenGlyphsInsideTheirBox) {
  for (const auto& font : Fonts()) {
    ASSERT_EQ(font.size(), static_cast<size_t>(kClasses));
    for (const Glyph& glyph : font) {
      ASSERT_FALSE(glyph.empty());
      for (const Stroke& stroke : glyph) {
        for (const Point& point : Flatten(stroke)) {
          // A spline swings a little beyond its points.
          EXPECT_GE(std::min(point.x, point.y), -0.1f);
          EXPECT_LE(std::max(point.x, point.y), 1.1f);
        }
      }
    }
  }
}

TEST(FontsTest, SmoothStrokePassesThroughItsPoints) {
  const Stroke stroke{true, {{0, 0}, {0.5f, 1}, {1, 0}}};
  const std::vector<Point> line = Flatten(stroke);
  EXPECT_EQ(line.front().y, 0);
  EXPECT_EQ(line[4].y, 1);
  EXPECT_EQ(line.back().x, 1);
  EXPECT_GT(line.size(), stroke.points.size());
}

TEST(DrawDigitsTest, SameSeedDrawsTheSameImages) {
  const DigitImages few = DrawDigits(20, 7), more = DrawDigits(30, 7);
  EXPECT_TRUE(std::equal(few.pixels.begin(), few.pixels.end(), more.pixels.begin()));
  EXPECT_TRUE(std::equal(few.labels.begin(), few.labels.end(), more.labels.begin()));
}

TEST(DrawDigitsTest, OtherSeedDrawsOtherImages) { EXPECT_NE(DrawDigits(20, 7).pixels, DrawDigits(20, 8).pixels); }

TEST(DrawDigitsTest, EveryDigitOccursAboutEquallyOften) {
  const DigitImages images = DrawDigits(1000, 1);
  for (int digit = 0; digit < kClasses; ++digit) {
    const auto count = std::count(images.labels.begin(), images.labels.end(), digit);
    EXPECT_GT(count, 60) << digit;
    EXPECT_LT(count, 140) << digit;
  }
}

TEST(DrawDigitsTest, EveryImageHasInkAndBackground) {
  const DigitImages images = DrawDigits(200, 3);
  for (int64_t i = 0; i < images.count(); ++i) {
    const auto begin = images.pixels.begin() + i * kPixels;
    EXPECT_GT(std::count_if(begin, begin + kPixels, [](uint8_t p) { return p > 130; }), 15) << i;
    EXPECT_GT(std::count_if(begin, begin + kPixels, [](uint8_t p) { return p < 60; }), 400) << i;
  }
}

TEST(FillBatchTest, ScalesPixelsAndTakesLabelsInOrder) {
  DigitImages images;
  images.pixels.assign(2 * kPixels, 0);
  std::fill(images.pixels.begin() + kPixels, images.pixels.end(), uint8_t{255});
  images.labels = {3, 4};
  std::vector<float> inputs(2 * kPixels);
  std::vector<int64_t> labels(2);
  FillBatch(images, {1, 0}, absl::MakeSpan(inputs), absl::MakeSpan(labels));
  EXPECT_THAT(labels, ::testing::ElementsAre(4, 3));
  EXPECT_NEAR(inputs.front(), (1 - 0.1307f) / 0.3081f, 1e-5);
  EXPECT_NEAR(inputs.back(), -0.1307f / 0.3081f, 1e-5);
}

}  // namespace
}  // namespace cotan::digits
