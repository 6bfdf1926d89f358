// SPDX-License-Identifier: Apache-2.0

#include "aot/tools/dynamic_flag.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace cotan::aot {
namespace {

using ::testing::HasSubstr;

TEST(DynamicFlagTest, ReadsInputDimensionNameAndRange) {
  const auto dim = ParseDynamicDim("input.1:0=batch[2:64]", 2);
  ASSERT_TRUE(dim.ok()) << dim.status();
  EXPECT_EQ(dim->argument, 1);
  EXPECT_EQ(dim->dim, 0);
  EXPECT_EQ(dim->symbol, "batch");
  EXPECT_EQ(dim->min, 2);
  EXPECT_EQ(dim->max, 64);
}

TEST(DynamicFlagTest, TheRangeMayBeOpen) {
  const auto least = ParseDynamicDim(" input.0:-1=time_2[3:]", 1);
  ASSERT_TRUE(least.ok()) << least.status();
  EXPECT_EQ(least->dim, -1);
  EXPECT_EQ(least->symbol, "time_2");
  EXPECT_EQ(least->min, 3);
  EXPECT_EQ(least->max, kNoMaximum);
  const auto most = ParseDynamicDim("input.0:0=n[:9]", 1);
  ASSERT_TRUE(most.ok()) << most.status();
  EXPECT_EQ(most->min, 1);
  EXPECT_EQ(most->max, 9);
  const auto any = ParseDynamicDim("input.0:0=n", 1);
  ASSERT_TRUE(any.ok()) << any.status();
  EXPECT_EQ(any->min, 1);
  EXPECT_EQ(any->max, kNoMaximum);
}

TEST(DynamicFlagTest, TargetsComeBehindTheInputs) {
  const auto dim = ParseDynamicDim("target.1:0=batch", 3);
  ASSERT_TRUE(dim.ok()) << dim.status();
  EXPECT_EQ(dim->argument, 4);
}

TEST(DynamicFlagTest, RefusesOtherForms) {
  for (const char* text :
       {"", "input.0:0", "x:0=batch", "input.0=batch", "input.:0=batch", "input.-1:0=batch", "input.0:a=batch",
        "input.0:0=", "input.0:0=2", "input.0:0=a-b", "input.0:0=batch[", "input.0:0=batch[1:64", "input.0:0=b[a:b]",
        "input.0:0=b[1:64]x", "input.0:0=b[0:4]", "input.0:0=b[4:2]", "input.0:0=b[99999999999999999999:]"}) {
    const absl::Status status = ParseDynamicDim(text, 1).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("input.0:0=batch[1:64]")) << text;
  }
  EXPECT_THAT(std::string(ParseDynamicDim("input.1:0=batch", 1).status().message()),
              HasSubstr("the model has 1 input"));
}

TEST(DynamicFlagTest, ReadsBytes) {
  EXPECT_EQ(ParseBytes("4096").value(), 4096);
  EXPECT_EQ(ParseBytes("300KiB").value(), 300 * 1024);
  EXPECT_EQ(ParseBytes(" 1.5MiB ").value(), 1536 * 1024);
  EXPECT_EQ(ParseBytes("2GB").value(), 2000000000);
  for (const char* text : {"", "MiB", "-1", "0", "nan", "1e30", "64 apples"}) {
    EXPECT_EQ(ParseBytes(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace cotan::aot
