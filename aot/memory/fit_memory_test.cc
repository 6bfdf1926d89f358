// SPDX-License-Identifier: Apache-2.0

#include "aot/memory/fit_memory.h"

#include <algorithm>
#include <string>

#include "aot/memory/test_programs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/session.h"

namespace cotan::aot {
namespace {

using cotan::testing::LinearRegression;
using cotan::testing::ProgramBuilder;
using cotan::testing::TestKernels;
using ::testing::HasSubstr;

MemoryTarget Target() { return {.kernels = &TestKernels(), .threads = 1}; }

TEST(FitMemoryTest, TellsWhatBecameOfEachMethod) {
  ProgramBuilder program = DeepPair(12);
  const auto before = MeasureMemory(program.artifact(), Target());
  ASSERT_TRUE(before.ok()) << before.status();
  ASSERT_EQ(before->size(), 2u);
  EXPECT_EQ((*before)[0].name, "forward");
  EXPECT_EQ((*before)[0].repeated_ops, 0);
  EXPECT_EQ((*before)[0].before, (*before)[0].after);
  const int64_t limit = (*before)[1].before * 3 / 4;
  const auto fitted = FitIntoMemory(limit, Target(), /*repeat_cheap_ops=*/false, program.artifact());
  ASSERT_TRUE(fitted.ok()) << fitted.status();
  EXPECT_EQ((*fitted)[1].name, "backward");
  EXPECT_EQ((*fitted)[1].before, (*before)[1].before);
  EXPECT_LE((*fitted)[1].after, limit);
  EXPECT_GT((*fitted)[1].repeated_ops, 0);
  EXPECT_EQ((*fitted)[1].num_ops, program.artifact().methods(1).ops_size());
}

TEST(FitMemoryTest, TheFileOfTheSameProgramLoads) {
  ProgramBuilder program = DeepStep(12);
  std::string file = program.Bytes();
  const auto fitted = FitFileIntoMemory(30000, Target(), /*repeat_cheap_ops=*/false, file);
  ASSERT_TRUE(fitted.ok()) << fitted.status();
  Session session = *Session::Create(*Program::LoadBytes(file), {.kernels = &TestKernels(), .threads = 1});
  ASSERT_TRUE(session.Run("step", {*Tensor::From<float>(std::vector<float>(1024), {1024})}).ok());
  EXPECT_LE(session.arena_bytes(), 30000);
}

TEST(FitMemoryTest, ALimitThatCannotBeKeptIsRefusedWithTheSmallestThatCan) {
  ProgramBuilder program = DeepStep(12);
  const absl::Status status = FitIntoMemory(1024, Target(), /*repeat_cheap_ops=*/false, program.artifact()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("the limit of 1.0 KiB cannot be kept: 'step' needs "));
  EXPECT_THAT(status.message(), HasSubstr("at least "));
  EXPECT_THAT(FitIntoMemory(0, Target(), /*repeat_cheap_ops=*/false, program.artifact()).status().message(),
              HasSubstr("is not a valid memory limit"));
  EXPECT_THAT(FitIntoMemory(1024, {}, /*repeat_cheap_ops=*/false, program.artifact()).status().message(),
              HasSubstr("MemoryTarget.kernels is not set"));
}

TEST(FitMemoryTest, ADimensionWithoutAMaximumIsRefused) {
  ProgramBuilder program = LinearRegression();
  ASSERT_TRUE(MeasureMemory(program.artifact(), Target()).ok());
  program.artifact().mutable_symbols(0)->set_max(int64_t{1} << 48);
  EXPECT_THAT(MeasureMemory(program.artifact(), Target()).status().message(), HasSubstr("has no maximum"));
}

TEST(FitMemoryTest, AForwardAndItsBackwardShareALimit) {
  ProgramBuilder program = DeepPair(12);
  const auto peaks = MeasurePeaks(program.artifact(), Target());
  ASSERT_TRUE(peaks.ok()) << peaks.status();
  const auto memory = MeasureMemory(program.artifact(), Target());
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(peaks->at("forward"), std::max((*memory)[0].after, (*memory)[1].after));
  EXPECT_EQ(peaks->at("backward"), peaks->at("forward"));

  const std::string before = program.artifact().SerializeAsString();
  const auto unchanged = FitIntoLimits(*peaks, Target(), program.artifact());
  ASSERT_TRUE(unchanged.ok()) << unchanged.status();
  EXPECT_EQ(program.artifact().SerializeAsString(), before);

  MethodLimits limits = *peaks;
  for (auto& [method, bytes] : limits) bytes = bytes * 3 / 4;
  const auto fitted = FitIntoLimits(limits, Target(), program.artifact());
  ASSERT_TRUE(fitted.ok()) << fitted.status();
  EXPECT_LE(MeasurePeaks(program.artifact(), Target())->at("forward"), limits.at("forward"));
  EXPECT_GT((*fitted)[1].repeated_ops, 0);
  EXPECT_EQ(FitIntoLimits({}, Target(), program.artifact()).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(FitMemoryTest, WritesBytesForPeople) {
  EXPECT_EQ(BytesText(512), "512 B");
  EXPECT_EQ(BytesText(1536), "1.5 KiB");
  EXPECT_EQ(BytesText(3 * 1024 * 1024), "3.0 MiB");
}

}  // namespace
}  // namespace cotan::aot
