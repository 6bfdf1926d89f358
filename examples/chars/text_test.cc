// SPDX-License-Identifier: Apache-2.0

#include "examples/chars/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace cotan::chars {
namespace {

TEST(ReadTextTest, MissingAndShortFilesAreNamed) {
  const absl::Status missing = ReadText("/no/such/file", 1).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(missing.message(), ::testing::HasSubstr("/no/such/file"));
  const std::string path = absl::StrCat(::testing::TempDir(), "/short.txt");
  std::ofstream(path) << "abc";
  const absl::Status status = ReadText(path, 4).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), ::testing::HasSubstr("short.txt has 3 bytes"));
  EXPECT_EQ(*ReadText(path, 3), "abc");
}

TEST(FillBatchTest, TargetIsTheNextByte) {
  const std::string text = "0123456789";
  std::vector<int64_t> inputs(12), targets(12);
  FillBatch(text, 4, 1, 0, absl::MakeSpan(inputs), absl::MakeSpan(targets));
  for (size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_EQ(targets[i], inputs[i] + 1);
    if (i % 4 != 0) {
      EXPECT_EQ(inputs[i], inputs[i - 1] + 1);
    }
  }
}

TEST(FillBatchTest, EveryPlaceOccursAndNoneOutsideTheText) {
  const std::string text = "abcde";
  std::vector<int64_t> inputs(64 * 3), targets(64 * 3);
  FillBatch(text, 3, 1, 0, absl::MakeSpan(inputs), absl::MakeSpan(targets));
  EXPECT_THAT(inputs, ::testing::Contains('a'));
  EXPECT_THAT(targets, ::testing::Contains('e'));
}

TEST(FillBatchTest, DependsOnSeedAndStep) {
  std::string ramp;
  for (int i = 0; i < 200; ++i) ramp += static_cast<char>(i);
  const auto fill = [&](uint64_t seed, uint64_t step) {
    std::vector<int64_t> inputs(8 * 4), targets(8 * 4);
    FillBatch(ramp, 4, seed, step, absl::MakeSpan(inputs), absl::MakeSpan(targets));
    return inputs;
  };
  EXPECT_EQ(fill(1, 2), fill(1, 2));
  EXPECT_NE(fill(1, 2), fill(1, 3));
  EXPECT_NE(fill(1, 2), fill(2, 2));
}

TEST(SampleTest, ZeroTemperatureTakesTheLargest) { EXPECT_EQ(Sample({1.0f, 3.0f, 2.0f}, 0, 0.99f), 1); }

TEST(SampleTest, DrawsInProportion) {
  const std::vector<float> logits = {0.0f, std::log(3.0f)};  // 1 : 3
  EXPECT_EQ(Sample(logits, 1.0, 0.0f), 0);
  EXPECT_EQ(Sample(logits, 1.0, 0.24f), 0);
  EXPECT_EQ(Sample(logits, 1.0, 0.26f), 1);
  EXPECT_EQ(Sample(logits, 1.0, 0.9999999f), 1);
}

TEST(SampleTest, LowTemperatureSharpens) {
  const std::vector<float> logits = {0.0f, 1.0f};
  EXPECT_EQ(Sample(logits, 0.05, 0.01f), 1);
  EXPECT_EQ(Sample(logits, 1.0, 0.01f), 0);
}

}  // namespace
}  // namespace cotan::chars
