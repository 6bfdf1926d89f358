// SPDX-License-Identifier: Apache-2.0

#include "runtime/tools/timeline.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(TimelineTest, StepsFollowOneAnotherOnOneScale) {
  const TimelineMethod methods[] = {{"train_step", {{"first <step>", 30, "matmul", 15}, {"second", 10, "expr", 10}}},
                                    {"forward", {{"only", 20, "matmul", 20}}}};
  const std::string svg = TimelineSvg(methods);
  EXPECT_THAT(svg, HasSubstr("first &lt;step&gt;\n30.0 us, bound 15.0 us"));
  // 40 us are 1160 pixels: the first step has three quarters of them, half of its height is below the bound.
  EXPECT_THAT(svg, HasSubstr("<rect x=\"20.00\" y=\"26.00\" width=\"870.00\" height=\"36.00\""));
  EXPECT_THAT(svg, HasSubstr("<rect x=\"20.00\" y=\"44.00\" width=\"870.00\" height=\"18.00\""));
  EXPECT_THAT(svg, HasSubstr("<rect x=\"890.00\" y=\"26.00\" width=\"290.00\""));
  EXPECT_THAT(svg, HasSubstr("<rect x=\"20.00\" y=\"100.00\" width=\"580.00\""));
  EXPECT_THAT(svg, HasSubstr("matmul: 2 steps, 50.0 us, bound 35.0 us (1.43 x)"));
}

TEST(TimelineTest, UnknownBoundsAndNoStepsArePictures) {
  const TimelineMethod methods[] = {{"timed", {{"step", 5}}}, {"empty", {}}};
  const std::string svg = TimelineSvg(methods);
  EXPECT_THAT(svg, HasSubstr("</svg>"));
  EXPECT_THAT(svg, Not(HasSubstr(" x)")));
  EXPECT_THAT(svg, HasSubstr("all kinds: 1 steps, 5.0 us"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(TimelineSvg({}), HasSubstr("</svg>"));
}

}  // namespace
}  // namespace cotan::tools
