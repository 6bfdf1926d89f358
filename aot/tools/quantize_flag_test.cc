// SPDX-License-Identifier: Apache-2.0

#include "aot/tools/quantize_flag.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(QuantizeFlagTest, ReadsPatternsTypeAndGroup) {
  const absl::StatusOr<QuantizeOptions> options = ParseQuantize("*.q_proj.weight, *.v_proj.weight:int4,group=64");
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_THAT(options->parameters, ElementsAre("*.q_proj.weight", "*.v_proj.weight"));
  EXPECT_EQ(options->bits, 4);
  EXPECT_EQ(options->group, 64);
  const absl::StatusOr<QuantizeOptions> rows = ParseQuantize("*:int8");
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->bits, 8);
  EXPECT_EQ(rows->group, 0);
}

TEST(QuantizeFlagTest, RefusesOtherTextAndShowsTheForm) {
  for (const char* text : {"*.weight", "*.weight:int2", ":int8", "a,,b:int8", "*:int4,group=0", "*:int4,groups=32"}) {
    const absl::Status status = ParseQuantize(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(status.message(), HasSubstr("The form is '*.weight:int8'")) << text;
  }
}

}  // namespace
}  // namespace cotan::aot
