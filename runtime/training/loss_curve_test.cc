// SPDX-License-Identifier: Apache-2.0

#include "runtime/training/loss_curve.h"

#include <cmath>
#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan::training {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Point = CurvePoints::Point;

CurvePoints Falling(int64_t steps) {
  CurvePoints points;
  for (int64_t step = 1; step <= steps; ++step) points.Add(step, 1.0 / static_cast<double>(step));
  return points;
}

TEST(CurvePointsTest, KeepsFewPointsAsTheyAre) {
  CurvePoints points;
  points.Add(1, 0.5);
  points.Add(2, std::nan(""));
  points.Add(3, 0.25);
  EXPECT_THAT(points.points(), ElementsAre(Point{1, 0.5}, Point{3, 0.25}));
}

TEST(CurvePointsTest, ManyValuesBecomeMeans) {
  CurvePoints points;
  for (int64_t step = 0; step < 100001; ++step) points.Add(step, 7);
  const std::vector<Point> all = points.points();
  EXPECT_LE(all.size(), CurvePoints::kMaxPoints);
  EXPECT_GE(all.size(), CurvePoints::kMaxPoints / 2);
  for (const Point& point : all) EXPECT_EQ(point.value, 7);
  EXPECT_EQ(all[0].step, 63.5) << "mean of steps 0 to 127";
}

TEST(CurvePointsTest, ContinuesFromItsNumbers) {
  for (const int64_t steps : {0, 1, 1023, 1024, 1025, 5000}) {
    CurvePoints whole = Falling(steps);
    absl::StatusOr<CurvePoints> resumed = CurvePoints::FromNumbers(whole.ToNumbers());
    ASSERT_TRUE(resumed.ok()) << resumed.status();
    whole.Add(steps + 1, 3);
    resumed->Add(steps + 1, 3);
    EXPECT_EQ(resumed->ToNumbers(), whole.ToNumbers()) << steps;
  }
}

TEST(CurvePointsTest, OtherNumbersAreRefused) {
  EXPECT_FALSE(CurvePoints::FromNumbers({}).ok());
  EXPECT_FALSE(CurvePoints::FromNumbers({1, 0, 0, 0, 5}).ok());
  EXPECT_FALSE(CurvePoints::FromNumbers({0, 0, 0, 0}).ok());
  EXPECT_FALSE(CurvePoints::FromNumbers({1, 0, 0, std::numeric_limits<double>::infinity()}).ok());
  EXPECT_FALSE(CurvePoints::FromNumbers(std::vector<double>(4096, 1)).ok());
}

TEST(LossCurveSvgTest, DrawsBothCurvesWithinThePicture) {
  CurvePoints scores;
  scores.Add(5, 0.5);
  scores.Add(10, 0.75);
  const std::string svg = LossCurveSvg("a < b & \"c\"", Falling(10), "accuracy", scores);
  EXPECT_THAT(svg, HasSubstr("a &lt; b &amp; &quot;c&quot;"));
  EXPECT_THAT(svg, HasSubstr(">accuracy</text>"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  size_t curves = 0;
  for (size_t at = svg.find("<polyline"); at != std::string::npos; at = svg.find("<polyline", at + 1)) ++curves;
  EXPECT_EQ(curves, 2u);
  for (size_t at = svg.find("cx=\""); at != std::string::npos; at = svg.find("cx=\"", at + 1)) {
    const double x = std::stod(svg.substr(at + 4));
    EXPECT_GE(x, 70);
    EXPECT_LE(x, 650);
  }
}

TEST(LossCurveSvgTest, EmptyAndConstantCurvesArePictures) {
  CurvePoints constant;
  constant.Add(1, 0);
  for (const CurvePoints& points : {CurvePoints(), constant}) {
    const std::string svg = LossCurveSvg("t", points, "s", points);
    EXPECT_THAT(svg, HasSubstr("</svg>"));
    EXPECT_THAT(svg, Not(HasSubstr("nan")));
    EXPECT_THAT(svg, Not(HasSubstr("inf")));
  }
}

}  // namespace
}  // namespace cotan::training
