// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/convolution/window_parts.h"

#include <vector>

#include "gtest/gtest.h"

namespace cotan::cpu {
namespace {

WindowAxis Axis(int64_t size, int64_t taps) {
  WindowAxis axis = {.size = size, .positions = size, .step = 1, .offsets = {}};
  for (int64_t tap = 0; tap < taps; ++tap) axis.offsets.push_back(tap - 1);
  return axis;
}

TEST(WindowPartsTest, PartsHaveEachTapOnce) {
  const WindowAxis rows = Axis(4, 3);
  const WindowAxis columns = Axis(5, 5);
  const Windows whole(2, rows, columns);
  const WindowParts parts(2, rows, columns, 2, 3);
  ASSERT_EQ(parts.Count(), 4);
  EXPECT_EQ(parts.Floats(), 2 * 3 * 2);
  EXPECT_EQ(parts[3].Floats(), 1 * 2 * 2);
  EXPECT_EQ(parts.Positions(), 20);
  std::vector<float> image(4 * 5 * 2);
  for (size_t i = 0; i < image.size(); ++i) image[i] = static_cast<float>(i + 1);
  for (int64_t window = 0; window < parts.Positions(); ++window) {
    std::vector<float> expected(static_cast<size_t>(whole.Floats()));
    whole.Gather(image.data(), window, window + 1, expected.data());
    for (int64_t part = 0; part < parts.Count(); ++part) {
      std::vector<float> floats(static_cast<size_t>(parts[part].Floats()));
      parts[part].Gather(image.data(), window, window + 1, floats.data());
      const int64_t row = part / 2 * 2;
      const int64_t column = part % 2 * 3;
      const int64_t column_taps = part % 2 == 0 ? 3 : 2;
      for (size_t i = 0; i < floats.size(); ++i) {
        const auto at = static_cast<int64_t>(i);
        const int64_t tap = (row + at / (column_taps * 2)) * 5 + column + at / 2 % column_taps;
        EXPECT_EQ(floats[i], expected[static_cast<size_t>(tap * 2 + at % 2)]) << "part " << part << ", float " << i;
      }
    }
  }
}

TEST(WindowPartsTest, BlocksHaveSimilarSizesAndWholeTiles) {
  const WindowParts few(16, Axis(9, 3), Axis(9, 3), 3, 3);  // 144 floats: 240 windows
  EXPECT_EQ(few.BlockWindows(1), 1);
  EXPECT_EQ(few.BlockWindows(359), 359);
  EXPECT_EQ(few.BlockWindows(361), 192);
  EXPECT_EQ(few.BlockWindows(10'000), 240);
  const WindowParts many(512, Axis(9, 3), Axis(9, 3), 1, 3);  // 1536 floats: 96 windows
  EXPECT_EQ(many.BlockWindows(98), 98);
  EXPECT_EQ(many.BlockWindows(4'000), 96);
}

}  // namespace
}  // namespace cotan::cpu
