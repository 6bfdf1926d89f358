// SPDX-License-Identifier: Apache-2.0

#include "runtime/tools/timeline.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_format.h"
#include "base/quoted_text.h"

namespace cotan::tools {
namespace {

// Geometry in pixels.
constexpr double kWidth = 1200, kLeft = 20, kRight = 1180;
constexpr double kRowHeight = 74, kBoxTop = 26, kBoxHeight = 36;
constexpr double kLegendLine = 18;

double SumOfTimes(const TimelineMethod& method) {
  double sum = 0;
  for (const ProfiledStep& step : method.steps) sum += step.min_us;
  return sum;
}

// Returns hue and saturation of each kind of op that occurs.
std::map<std::string, std::string> ColorsOf(absl::Span<const TimelineMethod> methods) {
  std::map<std::string, std::string> colors;
  for (const TimelineMethod& method : methods) {
    for (const ProfiledStep& step : method.steps) colors[step.kind];
  }
  int number = 0;
  for (auto& [kind, color] : colors) color = absl::StrFormat("%d, 55%%", number++ * 137 % 360);
  return colors;
}

std::string Box(double x, double y, double width, double height, absl::string_view color, int lightness) {
  return absl::StrFormat("<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"hsl(%s, %d%%)\"/>", x, y,
                         std::max(width, 0.1), height, color, lightness);
}

std::string Text(double x, double y, absl::string_view text) {
  return absl::StrFormat("<text x=\"%.1f\" y=\"%.1f\">%s</text>\n", x, y, XmlEscaped(text));
}

std::string SumsText(absl::string_view name, const ProfileSums& sums) {
  std::string text =
      absl::StrFormat("%s: %d steps, %.1f us", name.empty() ? "all kinds" : name, sums.steps, sums.min_us);
  if (sums.bound_us > 0) {
    absl::StrAppendFormat(&text, ", bound %.1f us (%.2f x)", sums.bound_us, sums.min_us / sums.bound_us);
  }
  return text;
}

// Returns the boxes of a method; `top` is the top of its row.
std::string RowOf(const TimelineMethod& method, const std::map<std::string, std::string>& colors, double top,
                  double pixels_per_us) {
  std::string svg = Text(kLeft, top + 18, absl::StrFormat("%s: %.1f us", method.method, SumOfTimes(method)));
  double x = kLeft;
  for (const ProfiledStep& step : method.steps) {
    const double width = step.min_us * pixels_per_us;
    const double share = step.min_us > 0 ? std::min(step.bound_us / step.min_us, 1.0) : 0;
    const std::string& color = colors.at(step.kind);
    absl::StrAppendFormat(&svg, "<g><title>%s\n%.1f us, bound %.1f us</title>", XmlEscaped(step.name), step.min_us,
                          step.bound_us);
    svg += Box(x, top + kBoxTop, width, kBoxHeight, color, 75);
    svg += Box(x, top + kBoxTop + kBoxHeight * (1 - share), width, kBoxHeight * share, color, 45);
    svg += "</g>\n";
    x += width;
  }
  return svg;
}

}  // namespace

std::string TimelineSvg(absl::Span<const TimelineMethod> methods) {
  double longest = 0;
  std::vector<ProfiledStep> all;
  for (const TimelineMethod& method : methods) {
    longest = std::max(longest, SumOfTimes(method));
    all.insert(all.end(), method.steps.begin(), method.steps.end());
  }
  const std::map<std::string, std::string> colors = ColorsOf(methods);
  const double pixels_per_us = longest > 0 ? (kRight - kLeft) / longest : 0;
  const double rows = kRowHeight * static_cast<double>(methods.size());
  const double height = rows + kLegendLine * (static_cast<double>(colors.size()) + 1);
  std::string svg = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" font-family=\"sans-serif\" "
      "font-size=\"13\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
      kWidth, height);
  for (size_t i = 0; i < methods.size(); ++i) {
    svg += RowOf(methods[i], colors, kRowHeight * static_cast<double>(i), pixels_per_us);
  }
  double y = rows;
  for (const auto& [kind, sums] : SumsByKind(all)) {
    svg += Box(kLeft, y, 12, 12, colors.at(kind), 60);
    svg += Text(kLeft + 20, y + 11, SumsText(kind, sums));
    y += kLegendLine;
  }
  return svg + "</svg>\n";
}

}  // namespace cotan::tools
