// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/convolution/pixel_places.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "base/test_seed.h"
#include "gtest/gtest.h"

namespace cotan::cpu {
namespace {

using testing::TestSeed;

StridedLayout Dense(const DimVector& sizes) { return {sizes, ContiguousStrides(sizes), 0}; }

// Draws a gradient of weights in one to three dimensions, of two images.
ConvolutionProblem RandomProblem(std::mt19937_64& random) {
  const auto draw = [&](int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 1));
  };
  ConvolutionProblem p;
  p.product = ConvolutionProduct::kBackwardWeights;
  DimVector source = {2, 3}, weights = {4, 3}, destination = {2, 4};
  for (int64_t d = draw(1, 3); d > 0; --d) {
    const int64_t kernel = draw(1, 4), stride = draw(1, 3), dilation = draw(0, 2), padding = draw(0, 2);
    const int64_t extent = (kernel - 1) * (dilation + 1) + 1;
    const int64_t size = std::max(extent - 2 * padding, int64_t{1}) + draw(0, 6);
    source.push_back(size);
    weights.push_back(kernel);
    destination.push_back((size + 2 * padding - extent) / stride + 1);
    p.stride.push_back(stride);
    p.dilation.push_back(dilation);
    p.padding_before.push_back(padding);
  }
  p.padding_after = p.padding_before;
  p.source.layout = Dense(source);
  p.weights.layout = Dense(weights);
  p.destination.layout = Dense(destination);
  return p;
}

// Splits `position` into an index of dense `sizes`.
DimVector IndexOf(int64_t position, absl::Span<const int64_t> sizes) {
  DimVector index(sizes.begin(), sizes.end());
  for (size_t d = sizes.size(); d-- > 0;) {
    index[d] = position % sizes[d];
    position /= sizes[d];
  }
  return index;
}

// Returns the position of the source's pixel that a tap meets at a pixel of the destination, or -1 if there is none.
int64_t SourcePixel(const ConvolutionProblem& p, int64_t pixel, int64_t tap) {
  const auto spatial = [](const StridedLayout& layout) { return absl::MakeConstSpan(layout.sizes).subspan(2); };
  const DimVector at = IndexOf(pixel, spatial(p.destination.layout));
  const DimVector taps = IndexOf(tap, spatial(p.weights.layout));
  int64_t position = 0;
  for (size_t d = 0; d < at.size(); ++d) {
    const int64_t index = at[d] * p.stride[d] + taps[d] * (p.dilation[d] + 1) - p.padding_before[d];
    const int64_t size = p.source.layout.sizes[d + 2];
    if (index < 0 || index >= size) return -1;
    position = position * size + index;
  }
  return position;
}

int64_t PixelsOf(const StridedLayout& layout) { return NumElements(layout.sizes) / layout.sizes[0] / layout.sizes[1]; }

// The tensors of a problem, whose elements are not zero.
struct Images {
  explicit Images(const ConvolutionProblem& p)
      : source(static_cast<size_t>(NumElements(p.source.layout.sizes)), 1),
        destination(static_cast<size_t>(NumElements(p.destination.layout.sizes)), 1) {}
  std::vector<uint16_t> source;
  std::vector<uint16_t> destination;
  std::vector<uint16_t> zeros = std::vector<uint16_t>(64);
};

TEST(PixelPlacesTest, ATapMeetsThePixelsOfItsShift) {
  std::mt19937_64 random(TestSeed());
  for (int i = 0; i < 300; ++i) {
    const ConvolutionProblem p = RandomProblem(random);
    const PixelPlaces places = PixelPlacesOf(p, /*joins_rows=*/false);
    const Images images(p);
    const int64_t count = places.image_places + places.used_places;  // of two images
    std::vector<const uint16_t*> destination(static_cast<size_t>(count));
    PixelWalk(places.destination, images.destination.data(), images.zeros.data(), 0).Fill(destination.data(), count);
    ASSERT_EQ(places.taps.size(), static_cast<size_t>(PixelsOf(p.weights.layout)));
    for (size_t tap = 0; tap < places.taps.size(); ++tap) {
      const TapPlace& at = places.taps[tap];
      EXPECT_LE(at.shift, places.last_shift);
      std::vector<const uint16_t*> source(static_cast<size_t>(count));
      PixelWalk walk(places.phases[at.phase], images.source.data(), images.zeros.data(), at.shift);
      walk.Fill(source.data(), count / 3);
      walk.Fill(source.data() + count / 3, count - count / 3);
      int64_t pixels = 0;
      for (size_t place = 0; place < source.size(); ++place) {
        if (destination[place] == images.zeros.data()) continue;
        const int64_t position = (destination[place] - images.destination.data()) / p.destination.layout.sizes[1];
        const int64_t image = position / PixelsOf(p.destination.layout);
        const int64_t pixel = SourcePixel(p, position % PixelsOf(p.destination.layout), static_cast<int64_t>(tap));
        const uint16_t* const expected =
            pixel < 0 ? images.zeros.data()
                      : images.source.data() + (image * PixelsOf(p.source.layout) + pixel) * p.source.layout.sizes[1];
        ASSERT_EQ(source[place], expected) << "tap " << tap << ", place " << place;
        ++pixels;
      }
      EXPECT_EQ(pixels, 2 * PixelsOf(p.destination.layout));
    }
  }
}

TEST(PixelPlacesTest, WindowsHaveThePixelsOfARowOfTheKernel) {
  std::mt19937_64 random(TestSeed());
  for (int i = 0; i < 300; ++i) {
    const ConvolutionProblem p = RandomProblem(random);
    const PixelPlaces places = PixelPlacesOf(p, /*joins_rows=*/true);
    Images images(p);
    for (size_t e = 0; e < images.source.size(); ++e) images.source[e] = static_cast<uint16_t>(e + 1);
    const int64_t channels = p.source.layout.sizes[1];
    ASSERT_EQ(places.row_taps, p.weights.layout.sizes.back());
    for (size_t row = 0; row < places.taps.size(); ++row) {
      const TapPlace& at = places.taps[row];
      const auto count = static_cast<size_t>(places.used_places);
      std::vector<const uint16_t*> destination(count), windows(count);
      std::vector<uint16_t> copies(count * static_cast<size_t>(places.row_taps * channels));
      PixelWalk(places.destination, images.destination.data(), images.zeros.data(), 0)
          .Fill(destination.data(), places.used_places);
      PixelWalk(places.phases[at.phase], images.source.data(), images.zeros.data(), at.shift)
          .FillWindows(places.row_taps, places.dilation, windows.data(), places.used_places, copies.data());
      for (size_t place = 0; place < count; ++place) {
        if (destination[place] == images.zeros.data()) continue;
        const int64_t position = (destination[place] - images.destination.data()) / p.destination.layout.sizes[1];
        for (int64_t e = 0; e < places.row_taps * channels; ++e) {
          const int64_t tap = static_cast<int64_t>(row) * places.row_taps + e / channels;
          const int64_t pixel = SourcePixel(p, position, tap);
          const auto element = static_cast<size_t>(pixel * channels + e % channels);
          ASSERT_EQ(windows[place][e], pixel < 0 ? 0 : images.source[element]) << "row " << row << ", tap " << tap;
        }
      }
    }
  }
}

}  // namespace
}  // namespace cotan::cpu
