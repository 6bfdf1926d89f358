// SPDX-License-Identifier: Apache-2.0

// Digits as strokes.
#ifndef COTAN_EXAMPLES_DIGITS_FONTS_H_
#define COTAN_EXAMPLES_DIGITS_FONTS_H_

#include <vector>

namespace cotan::digits {

// In the glyph's box: x to the right, y down, both in [0, 1].
struct Point {
  float x = 0;
  float y = 0;
};

// A line through points, straight between them or as one smooth curve.
struct Stroke {
  bool smooth = false;
  std::vector<Point> points;
};

using Glyph = std::vector<Stroke>;

// fonts()[f][d] is digit d in font f; every font has ten glyphs.
const std::vector<std::vector<Glyph>>& Fonts();

// The stroke as a polyline fine enough to look smooth at the size of an image.
std::vector<Point> Flatten(const Stroke& stroke);

}  // namespace cotan::digits

#endif  // COTAN_EXAMPLES_DIGITS_FONTS_H_
