// SPDX-License-Identifier: Apache-2.0

#include "examples/digits/fonts.h"

#include <cmath>
#include <cstddef>
#include <string_view>

namespace cotan::digits {
namespace {

Stroke Line(std::vector<Point> points) { return {false, std::move(points)}; }
Stroke Curve(std::vector<Point> points) { return {true, std::move(points)}; }

Stroke Oval(Point center, float radius_x, float radius_y) {
  constexpr int kSegments = 20;
  Stroke stroke;
  for (int i = 0; i <= kSegments; ++i) {
    const float angle = 2 * static_cast<float>(M_PI) * i / kSegments;
    stroke.points.push_back({center.x + radius_x * std::sin(angle), center.y - radius_y * std::cos(angle)});
  }
  return stroke;
}

// A handwritten font.
std::vector<Glyph> HandFont() {
  return {
      {Oval({.5f, .5f}, .44f, .5f)},
      {Line({{.28f, .2f}, {.55f, 0}, {.55f, 1}})},
      {Curve({{.08f, .25f}, {.25f, .04f}, {.55f, 0}, {.85f, .12f}, {.88f, .35f}, {.6f, .62f}, {.1f, 1}}),
       Line({{.1f, 1}, {.95f, 1}})},
      {Curve({{.1f, .12f}, {.45f, 0}, {.82f, .1f}, {.85f, .3f}, {.65f, .45f}, {.4f, .48f}}),
       Curve({{.4f, .48f}, {.75f, .52f}, {.93f, .72f}, {.8f, .93f}, {.45f, 1}, {.08f, .9f}})},
      {Line({{.2f, 0}, {.1f, .55f}, {.92f, .55f}}), Line({{.75f, .1f}, {.7f, 1}})},
      {Line({{.85f, 0}, {.2f, 0}, {.15f, .45f}}),
       Curve({{.15f, .45f}, {.5f, .36f}, {.85f, .5f}, {.92f, .72f}, {.75f, .94f}, {.4f, 1}, {.08f, .9f}})},
      {Curve({{.75f, 0},
              {.4f, .15f},
              {.15f, .45f},
              {.08f, .72f},
              {.25f, .95f},
              {.55f, 1},
              {.85f, .9f},
              {.9f, .68f},
              {.75f, .5f},
              {.45f, .46f},
              {.12f, .62f}})},
      {Line({{.05f, 0}, {.95f, 0}}), Curve({{.95f, 0}, {.6f, .45f}, {.4f, 1}})},
      {Curve({{.5f, .46f},
              {.2f, .32f},
              {.2f, .1f},
              {.5f, 0},
              {.8f, .1f},
              {.8f, .32f},
              {.5f, .46f},
              {.15f, .62f},
              {.1f, .86f},
              {.5f, 1},
              {.9f, .86f},
              {.85f, .62f},
              {.5f, .46f}})},
      {Curve({{.88f, .35f},
              {.75f, .52f},
              {.45f, .57f},
              {.15f, .46f},
              {.1f, .22f},
              {.3f, .03f},
              {.6f, 0},
              {.85f, .12f},
              {.9f, .35f},
              {.85f, .7f},
              {.6f, 1}})},
  };
}

// A printed font.
std::vector<Glyph> PrintFont() {
  return {
      {Oval({.5f, .5f}, .36f, .5f)},
      {Line({{.3f, .18f}, {.5f, 0}, {.5f, 1}}), Line({{.22f, 1}, {.78f, 1}})},
      {Curve({{.1f, .2f}, {.4f, 0}, {.8f, .1f}, {.8f, .4f}, {.4f, .75f}, {.08f, .98f}}),
       Curve({{.08f, .98f}, {.3f, .86f}, {.6f, .97f}, {.95f, .93f}})},
      {Line({{.1f, 0}, {.85f, 0}, {.45f, .38f}}),
       Curve({{.45f, .38f}, {.8f, .45f}, {.92f, .7f}, {.75f, .95f}, {.4f, 1}, {.08f, .88f}})},
      {Line({{.7f, 1}, {.7f, 0}, {.05f, .7f}, {.95f, .7f}})},
      {Line({{.85f, .02f}, {.25f, .02f}, {.2f, .42f}}),
       Curve({{.2f, .42f}, {.6f, .38f}, {.9f, .6f}, {.8f, .9f}, {.45f, 1}, {.1f, .92f}})},
      {Line({{.62f, 0}, {.18f, .6f}}), Oval({.5f, .72f}, .36f, .28f)},
      {Line({{.05f, 0}, {.95f, 0}, {.35f, 1}}), Line({{.3f, .5f}, {.85f, .5f}})},
      {Oval({.5f, .24f}, .3f, .24f), Oval({.5f, .74f}, .38f, .26f)},
      {Oval({.5f, .28f}, .36f, .28f), Line({{.86f, .28f}, {.8f, 1}})},
  };
}

// One digit of a seven-segment display. Segments: a top, b and c the right
// side from the top, d bottom, e and f the left side from below, g middle.
Glyph SevenSegments(std::string_view segments) {
  static constexpr Point kEnds[7][2] = {{{.1f, 0}, {.9f, 0}},    {{.9f, 0}, {.9f, .5f}}, {{.9f, .5f}, {.9f, 1}},
                                        {{.1f, 1}, {.9f, 1}},    {{.1f, .5f}, {.1f, 1}}, {{.1f, 0}, {.1f, .5f}},
                                        {{.1f, .5f}, {.9f, .5f}}};
  Glyph glyph;
  for (char segment : segments) {
    const Point* ends = kEnds[segment - 'a'];
    glyph.push_back(Line({ends[0], ends[1]}));
  }
  return glyph;
}

std::vector<Glyph> DisplayFont() {
  std::vector<Glyph> font;
  for (std::string_view segments :
       {"abcdef", "bc", "abged", "abgcd", "fgbc", "afgcd", "afgecd", "abc", "abcdefg", "abcdfg"}) {
    font.push_back(SevenSegments(segments));
  }
  return font;
}

// Between b and c on the uniform Catmull-Rom spline a, b, c, d.
float Spline(float a, float b, float c, float d, float t) {
  const float linear = c - a;
  const float square = 2 * a - 5 * b + 4 * c - d;
  const float cube = 3 * (b - c) + d - a;
  return b + 0.5f * t * (linear + t * (square + t * cube));
}

}  // namespace

const std::vector<std::vector<Glyph>>& Fonts() {
  static const auto* fonts = new std::vector<std::vector<Glyph>>{HandFont(), PrintFont(), DisplayFont()};
  return *fonts;
}

std::vector<Point> Flatten(const Stroke& stroke) {
  const std::vector<Point>& points = stroke.points;
  if (!stroke.smooth || points.size() < 3) return points;
  constexpr int kSteps = 4;  // per piece of the curve
  std::vector<Point> line;
  for (size_t i = 0; i + 1 < points.size(); ++i) {
    const Point& before = points[i == 0 ? 0 : i - 1];
    const Point& after = points[i + 2 < points.size() ? i + 2 : i + 1];
    for (int step = 0; step < kSteps; ++step) {
      const float t = static_cast<float>(step) / kSteps;
      line.push_back({Spline(before.x, points[i].x, points[i + 1].x, after.x, t),
                      Spline(before.y, points[i].y, points[i + 1].y, after.y, t)});
    }
  }
  line.push_back(points.back());
  return line;
}

}  // namespace cotan::digits
