// SPDX-License-Identifier: Apache-2.0

#include "examples/digits/digit_images.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/philox.h"
#include "examples/digits/fonts.h"

namespace cotan::digits {
namespace {

// Uniform draws from a Philox stream, from block `first_block` on.
class Random {
 public:
  Random(uint64_t seed, uint64_t first_block) : seed_(seed), next_block_(first_block) {}

  uint32_t Bits() {
    if (lane_ == 4) {
      block_ = Philox(seed_, next_block_++);
      lane_ = 0;
    }
    return block_.lane[lane_++];
  }
  float Uniform(float low, float high) { return low + (high - low) * UniformFloat(Bits()); }
  uint32_t Below(uint32_t bound) { return static_cast<uint32_t>((static_cast<uint64_t>(Bits()) * bound) >> 32); }

 private:
  uint64_t seed_;
  uint64_t next_block_;
  PhiloxBlock block_{};
  int lane_ = 4;  // of block_, next to give out
};

// Maps the glyph's box to pixels.
struct Affine {
  float xx, xy, yx, yy, dx, dy;
  Point operator()(Point p) const { return {xx * p.x + xy * p.y + dx, yx * p.x + yy * p.y + dy}; }
};

Affine RandomPlacement(Random& random) {
  const float angle = random.Uniform(-0.26f, 0.26f);  // radians
  const float slant = random.Uniform(-0.25f, 0.25f);
  const float height = random.Uniform(15.0f, 21.0f);  // pixels
  const float width = height * random.Uniform(0.5f, 0.8f);
  const float cosine = std::cos(angle), sine = std::sin(angle);
  Affine affine;
  affine.xx = cosine * width;
  affine.xy = (cosine * slant - sine) * height;
  affine.yx = sine * width;
  affine.yy = (sine * slant + cosine) * height;
  // The middle of the box comes to lie near the middle of the image.
  const float middle = static_cast<float>(kSide - 1) / 2;
  affine.dx = middle + random.Uniform(-2.5f, 2.5f) - (affine.xx + affine.xy) / 2;
  affine.dy = middle + random.Uniform(-2.5f, 2.5f) - (affine.yx + affine.yy) / 2;
  return affine;
}

using Segment = std::pair<Point, Point>;  // in pixels

std::vector<Segment> PlaceGlyph(const Glyph& glyph, const Affine& placement, Random& random) {
  constexpr float kWobble = 0.03f;  // of the glyph's box
  std::vector<Segment> segments;
  for (Stroke stroke : glyph) {
    for (Point& point : stroke.points) {
      point.x += random.Uniform(-kWobble, kWobble);
      point.y += random.Uniform(-kWobble, kWobble);
    }
    const std::vector<Point> line = Flatten(stroke);
    for (size_t i = 0; i + 1 < line.size(); ++i) {
      segments.emplace_back(placement(line[i]), placement(line[i + 1]));
    }
  }
  return segments;
}

float SquaredDistance(Point p, const Segment& segment) {
  const float ax = segment.second.x - segment.first.x, ay = segment.second.y - segment.first.y;
  const float px = p.x - segment.first.x, py = p.y - segment.first.y;
  const float length = ax * ax + ay * ay;
  const float along = length > 0 ? std::clamp((px * ax + py * ay) / length, 0.0f, 1.0f) : 0.0f;
  const float dx = px - along * ax, dy = py - along * ay;
  return dx * dx + dy * dy;
}

void DrawDigit(int digit, Random& random, uint8_t* pixels) {
  const auto& fonts = Fonts();
  const auto& font = fonts[random.Below(static_cast<uint32_t>(fonts.size()))];
  const Affine placement = RandomPlacement(random);
  const std::vector<Segment> segments = PlaceGlyph(font[static_cast<size_t>(digit)], placement, random);
  const float radius = random.Uniform(0.7f, 1.7f);  // pixels: half the thickness
  const float ink = random.Uniform(170, 255);
  const float noise = random.Uniform(0, 30);
  for (int64_t y = 0; y < kSide; ++y) {
    for (int64_t x = 0; x < kSide; ++x) {
      const Point center{static_cast<float>(x), static_cast<float>(y)};
      float nearest = std::numeric_limits<float>::max();
      for (const Segment& segment : segments) {
        nearest = std::min(nearest, SquaredDistance(center, segment));
      }
      const float coverage = std::clamp(radius + 0.5f - std::sqrt(nearest), 0.0f, 1.0f);
      const float value = ink * coverage + random.Uniform(-noise, noise);
      pixels[y * kSide + x] = static_cast<uint8_t>(std::clamp(value, 0.0f, 255.0f));
    }
  }
}

}  // namespace

DigitImages DrawDigits(int64_t count, uint64_t seed) {
  constexpr uint64_t kBlocksPerImage = 1024;  // far more than one image draws
  DigitImages images;
  images.pixels.resize(static_cast<size_t>(count * kPixels));
  images.labels.resize(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    Random random(seed, static_cast<uint64_t>(i) * kBlocksPerImage);
    const uint32_t digit = random.Below(kClasses);
    images.labels[static_cast<size_t>(i)] = static_cast<uint8_t>(digit);
    DrawDigit(static_cast<int>(digit), random, &images.pixels[static_cast<size_t>(i * kPixels)]);
  }
  return images;
}

void FillBatch(const DigitImages& images, absl::Span<const int64_t> order, absl::Span<float> inputs,
               absl::Span<int64_t> labels) {
  // Mean and deviation of MNIST's pixels; drawn images are similar.
  constexpr float kMean = 0.1307f * 255, kDeviation = 0.3081f * 255;
  for (size_t i = 0; i < order.size(); ++i) {
    const uint8_t* from = &images.pixels[static_cast<size_t>(order[i] * kPixels)];
    float* to = &inputs[i * static_cast<size_t>(kPixels)];
    for (int64_t p = 0; p < kPixels; ++p) to[p] = (from[p] - kMean) / kDeviation;
    labels[i] = images.labels[static_cast<size_t>(order[i])];
  }
}

}  // namespace cotan::digits
