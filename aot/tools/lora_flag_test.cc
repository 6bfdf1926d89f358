// SPDX-License-Identifier: Apache-2.0

#include "aot/tools/lora_flag.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cotan::aot {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ParseLoraTest, ReadsPatternsAndSettings) {
  const auto lora = ParseLora("*.q_proj, *.v_proj:r=4,alpha=2.5");
  ASSERT_TRUE(lora.ok()) << lora.status();
  EXPECT_THAT(lora->modules, ElementsAre("*.q_proj", "*.v_proj"));
  EXPECT_EQ(lora->rank, 4);
  EXPECT_EQ(lora->alpha, 2.5);
}

TEST(ParseLoraTest, AlphaIsTwiceTheRank) {
  EXPECT_EQ(ParseLora("fc")->rank, 8);
  EXPECT_EQ(ParseLora("fc")->alpha, 16);
  EXPECT_EQ(ParseLora("fc:r=3")->alpha, 6);
}

TEST(ParseLoraTest, NamesWhatIsWrong) {
  EXPECT_THAT(ParseLora("").status().message(), HasSubstr("a pattern is empty"));
  EXPECT_THAT(ParseLora("a,,b").status().message(), HasSubstr("a pattern is empty"));
  EXPECT_THAT(ParseLora("a:r=0").status().message(), HasSubstr("'0' is not a rank"));
  EXPECT_THAT(ParseLora("a:alpha=x").status().message(), HasSubstr("'x' is not a positive number"));
  EXPECT_THAT(ParseLora("a:rank=2").status().message(), HasSubstr("'rank' is unknown. The form is '*.q_proj"));
}

}  // namespace
}  // namespace cotan::aot
