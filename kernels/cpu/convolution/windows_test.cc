// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/convolution/windows.h"

#include <random>
#include <vector>

#include "base/test_seed.h"
#include "gtest/gtest.h"

namespace cotan::cpu {
namespace {

// Returns window `window` of images with the elements 1, 2, ..., element by element.
std::vector<float> WindowOf(const WindowAxis& rows, const WindowAxis& columns, int64_t channels, int64_t window) {
  const int64_t image = window / (rows.positions * columns.positions);
  const int64_t y = window / columns.positions % rows.positions * rows.step;
  const int64_t x = window % columns.positions * columns.step;
  std::vector<float> elements;
  for (const int64_t row : rows.offsets) {
    for (const int64_t column : columns.offsets) {
      const bool inside = y + row >= 0 && y + row < rows.size && x + column >= 0 && x + column < columns.size;
      const int64_t pixel = (image * rows.size + y + row) * columns.size + x + column;
      for (int64_t c = 0; c < channels; ++c) {
        elements.push_back(inside ? static_cast<float>(1 + pixel * channels + c) : 0);
      }
    }
  }
  return elements;
}

WindowAxis RandomAxis(std::mt19937_64& random) {
  const auto draw = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
  };
  WindowAxis axis = {.size = draw(1, 6), .positions = draw(1, 7), .step = draw(1, 3), .offsets = {}};
  for (int64_t taps = draw(1, 4); taps > 0; --taps) {
    axis.offsets.push_back(axis.offsets.empty() || random() % 3 == 0 ? draw(-3, 4) : axis.offsets.back() + 1);
  }
  return axis;
}

TEST(WindowsTest, AnyRangeHasTheElementsInsideAndZeros) {
  std::mt19937_64 random(testing::TestSeed());
  constexpr int64_t kImages = 3;
  for (int i = 0; i < 300; ++i) {
    const WindowAxis rows = RandomAxis(random);
    const WindowAxis columns = RandomAxis(random);
    const int64_t channels = i % 2 == 0 ? 1 + static_cast<int64_t>(random() % 5) : 16 + i % 20;
    const Windows windows(channels, rows, columns);
    std::vector<float> images(static_cast<size_t>(kImages * rows.size * columns.size * channels));
    for (size_t k = 0; k < images.size(); ++k) images[k] = static_cast<float>(k + 1);
    const int64_t count = kImages * windows.Positions();
    const int64_t begin = static_cast<int64_t>(random() % static_cast<uint64_t>(count));
    const int64_t end = begin + 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(count - begin));
    std::vector<float> matrix(static_cast<size_t>((end - begin) * windows.Floats()), -1.0F);
    windows.Gather(images.data(), begin, end, matrix.data());
    std::vector<float> expected;
    for (int64_t window = begin; window < end; ++window) {
      const std::vector<float> elements = WindowOf(rows, columns, channels, window);
      expected.insert(expected.end(), elements.begin(), elements.end());
    }
    ASSERT_EQ(matrix, expected) << "case " << i;
  }
}

TEST(WindowsTest, SinglePixelsAreReadInPlace) {
  const WindowAxis all = {.size = 5, .positions = 5, .step = 1, .offsets = {0}};
  EXPECT_TRUE(Windows(3, all, all).ArePixels());
  for (const WindowAxis& axis :
       {WindowAxis{5, 5, 1, {1}}, WindowAxis{5, 5, 1, {0, 1}}, WindowAxis{5, 4, 1, {0}}, WindowAxis{5, 5, 2, {0}}}) {
    EXPECT_FALSE(Windows(3, all, axis).ArePixels());
    EXPECT_FALSE(Windows(3, axis, all).ArePixels());
  }
}

}  // namespace
}  // namespace cotan::cpu
