// SPDX-License-Identifier: Apache-2.0

#include "runtime/tools/command_line.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<CommandLine> Parse(const std::vector<const char*>& arguments) {
  static constexpr absl::string_view kKnown[] = {"steps", "save", "program"};
  return CommandLine::Parse(arguments, kKnown);
}

TEST(CommandLineTest, OptionsMayStandAnywhereBetweenWords) {
  const absl::StatusOr<CommandLine> line = Parse({"run", "--steps=20", "m.cotan", "--program", "--save=a=b"});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_THAT(line->words(), ElementsAre("run", "m.cotan"));
  EXPECT_TRUE(line->Has("program"));
  EXPECT_EQ(line->Text("program", "x"), "");
  EXPECT_EQ(line->Text("save", ""), "a=b");
  EXPECT_EQ(*line->Number("steps", 5, 1), 20);
}

TEST(CommandLineTest, WhatIsNotGivenHasItsFallback) {
  const CommandLine line = *Parse({});
  EXPECT_TRUE(line.words().empty());
  EXPECT_FALSE(line.Has("steps"));
  EXPECT_EQ(line.Text("save", "nowhere"), "nowhere");
  EXPECT_EQ(*line.Number("steps", 5, 1), 5);
}

TEST(CommandLineTest, NumbersAreWholeAndLargeEnough) {
  for (const char* text : {"--steps=0", "--steps=-3", "--steps=2.5", "--steps=ten", "--steps", "--steps=99999999999"}) {
    const absl::Status status = Parse({text})->Number("steps", 5, 1).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("expected an integer of at least 1"));
  }
}

TEST(CommandLineTest, RealNumbersAreInTheirRange) {
  EXPECT_EQ(*Parse({"--steps=2.5e-1"})->Real("steps", 0, 1), 0.25);
  EXPECT_FALSE(Parse({})->Real("steps", 0, 1)->has_value());
  for (const char* text : {"--steps=-1", "--steps=2", "--steps=nan", "--steps=x", "--steps"}) {
    EXPECT_THAT(std::string(Parse({text})->Real("steps", 0, 1).status().message()),
                HasSubstr("expected a number from 0 to 1"))
        << text;
  }
}

TEST(CommandLineTest, UnknownAndRepeatedOptionsAreRefused) {
  EXPECT_EQ(Parse({"--stpes=3"}).status().message(), "unknown option --stpes; there are: --steps, --save, --program");
  EXPECT_EQ(Parse({"--save=a", "--save=b"}).status().message(), "option --save is given twice");
}

}  // namespace
}  // namespace cotan::tools
