// SPDX-License-Identifier: Apache-2.0

#include "runtime/training/loss_curve.h"

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/quoted_text.h"

namespace cotan::training {
namespace {

using Points = std::vector<CurvePoints::Point>;

// Geometry in pixels.
constexpr double kWidth = 720, kHeight = 400;
constexpr double kLeft = 70, kRight = 650, kTop = 40, kBottom = 345;
constexpr absl::string_view kLossColor = "#1f77b4", kScoreColor = "#d62728";

// Maps values to pixels, with ticks at round values.
struct Axis {
  double low = 0, high = 1;  // values
  double from = 0, to = 0;   // pixels
  double tick = 1;           // distance of ticks
  double At(double value) const { return from + (value - low) / (high - low) * (to - from); }
};

// Returns 1, 2 or 5 times a power of ten, so that about five ticks fit in `range` > 0.
double TickDistance(double range) {
  const double power = std::pow(10, std::floor(std::log10(range / 5)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (range / (factor * power) <= 6) return factor * power;
  }
  return 10 * power;
}

Axis MakeAxis(double low, double high, double from, double to) {
  if (!(high > low)) {
    const double margin = std::max(std::abs(low) / 2, 1e-9);
    low -= margin;
    high += margin;
  }
  const double tick = TickDistance(high - low);
  return {std::floor(low / tick) * tick, std::ceil(high / tick) * tick, from, to, tick};
}

Axis StepAxis(const Points& losses, const Points& scores) {
  double last = 1;
  for (const Points* points : {&losses, &scores}) {
    if (!points->empty()) last = std::max(last, points->back().step);
  }
  return MakeAxis(0, last, kLeft, kRight);
}

Axis ValueAxis(const Points& points) {
  const auto less = [](const CurvePoints::Point& a, const CurvePoints::Point& b) { return a.value < b.value; };
  const auto [low, high] = std::minmax_element(points.begin(), points.end(), less);
  return MakeAxis(low->value, high->value, kBottom, kTop);
}

// Returns the number of ticks after the first one.
int TickCount(const Axis& axis) { return static_cast<int>(std::lround((axis.high - axis.low) / axis.tick)); }

std::string TickText(const Axis& axis, int index) {
  const double value = axis.low + index * axis.tick;
  return absl::StrFormat("%g", std::abs(value) < axis.tick * 1e-6 ? 0 : value);
}

void AppendText(std::string& svg, double x, double y, absl::string_view anchor, absl::string_view color,
                absl::string_view text) {
  absl::StrAppendFormat(&svg, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" fill=\"%s\">%s</text>\n", x, y, anchor,
                        color, XmlEscaped(text));
}

void AppendLine(std::string& svg, double x1, double y1, double x2, double y2, absl::string_view color) {
  absl::StrAppendFormat(&svg, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>\n", x1, y1, x2, y2,
                        color);
}

void AppendStepAxis(std::string& svg, const Axis& axis) {
  AppendLine(svg, kLeft, kBottom, kRight, kBottom, "#444");
  for (int i = 0; i <= TickCount(axis); ++i) {
    const double x = axis.At(axis.low + i * axis.tick);
    AppendLine(svg, x, kBottom, x, kBottom + 5, "#444");
    AppendText(svg, x, kBottom + 20, "middle", "#444", TickText(axis, i));
  }
  AppendText(svg, (kLeft + kRight) / 2, kBottom + 42, "middle", "#444", "step");
}

// Appends the ticks of a curve at its side, and with `has_grid` a grid.
void AppendValueAxis(std::string& svg, const Axis& axis, double x, bool has_grid, absl::string_view color) {
  const bool is_left = x == kLeft;
  for (int i = 0; i <= TickCount(axis); ++i) {
    const double y = axis.At(axis.low + i * axis.tick);
    if (has_grid) AppendLine(svg, kLeft, y, kRight, y, "#ddd");
    AppendText(svg, is_left ? x - 8 : x + 8, y + 4, is_left ? "end" : "start", color, TickText(axis, i));
  }
}

void AppendCurve(std::string& svg, const Points& points, const Axis& steps, const Axis& values,
                 absl::string_view color) {
  absl::StrAppend(&svg, "<polyline fill=\"none\" stroke=\"", color, "\" stroke-width=\"1.5\" points=\"");
  for (const CurvePoints::Point& point : points) {
    absl::StrAppendFormat(&svg, "%.1f,%.1f ", steps.At(point.step), values.At(point.value));
  }
  svg += "\"/>\n";
  if (points.size() > 100) return;
  for (const CurvePoints::Point& point : points) {
    absl::StrAppendFormat(&svg, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\" fill=\"%s\"/>\n", steps.At(point.step),
                          values.At(point.value), color);
  }
}

}  // namespace

void CurvePoints::Add(int64_t step, double value) {
  if (!std::isfinite(value)) return;
  pending_sum_.step += static_cast<double>(step);
  pending_sum_.value += value;
  if (++pending_values_ < values_per_point_) return;
  points_.push_back({pending_sum_.step / pending_values_, pending_sum_.value / pending_values_});
  pending_sum_ = {};
  pending_values_ = 0;
  if (points_.size() < kMaxPoints) return;
  for (size_t i = 0; i < kMaxPoints / 2; ++i) {
    const Point &a = points_[2 * i], &b = points_[2 * i + 1];
    points_[i] = {(a.step + b.step) / 2, (a.value + b.value) / 2};
  }
  points_.resize(kMaxPoints / 2);
  values_per_point_ *= 2;
}

std::vector<CurvePoints::Point> CurvePoints::points() const {
  std::vector<Point> all = points_;
  if (pending_values_ > 0) all.push_back({pending_sum_.step / pending_values_, pending_sum_.value / pending_values_});
  return all;
}

std::vector<double> CurvePoints::ToNumbers() const {
  std::vector<double> numbers = {values_per_point_, pending_values_, pending_sum_.step, pending_sum_.value};
  for (const Point& point : points_) {
    numbers.push_back(point.step);
    numbers.push_back(point.value);
  }
  return numbers;
}

absl::StatusOr<CurvePoints> CurvePoints::FromNumbers(absl::Span<const double> numbers) {
  const auto is_finite = [](double number) { return std::isfinite(number); };
  const bool has_form = numbers.size() >= 4 && numbers.size() % 2 == 0 && numbers.size() < 4 + 2 * kMaxPoints &&
                        std::all_of(numbers.begin(), numbers.end(), is_finite) && numbers[0] >= 1 && numbers[1] >= 0;
  if (!has_form) {
    return absl::InvalidArgumentError(absl::StrCat("these ", numbers.size(), " numbers are not the points of a curve"));
  }
  CurvePoints curve;
  curve.values_per_point_ = numbers[0];
  curve.pending_values_ = numbers[1];
  curve.pending_sum_ = {numbers[2], numbers[3]};
  for (size_t i = 4; i < numbers.size(); i += 2) curve.points_.push_back({numbers[i], numbers[i + 1]});
  return curve;
}

std::string LossCurveSvg(absl::string_view title, const CurvePoints& losses, absl::string_view score_name,
                         const CurvePoints& scores) {
  const Points loss_points = losses.points(), score_points = scores.points();
  std::string svg = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%g\" height=\"%g\" viewBox=\"0 0 %g %g\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
      kWidth, kHeight, kWidth, kHeight);
  AppendText(svg, (kLeft + kRight) / 2, 20, "middle", "#000", title);
  const Axis steps = StepAxis(loss_points, score_points);
  AppendStepAxis(svg, steps);
  if (!loss_points.empty()) {
    const Axis axis = ValueAxis(loss_points);
    AppendValueAxis(svg, axis, kLeft, /*has_grid=*/true, kLossColor);
    AppendCurve(svg, loss_points, steps, axis, kLossColor);
    AppendText(svg, kLeft, kTop - 8, "middle", kLossColor, "loss");
  }
  if (!score_points.empty()) {
    const Axis axis = ValueAxis(score_points);
    AppendValueAxis(svg, axis, kRight, /*has_grid=*/false, kScoreColor);
    AppendCurve(svg, score_points, steps, axis, kScoreColor);
    AppendText(svg, kRight, kTop - 8, "middle", kScoreColor, score_name);
  }
  return svg + "</svg>\n";
}

}  // namespace cotan::training
