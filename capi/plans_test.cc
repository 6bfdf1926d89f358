// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstddef>
#include <string>

#include "capi/test_handles.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "include/cotan.h"

namespace cotan::capi {
namespace {

using ::testing::HasSubstr;

TEST(CPlansTest, AMethodThatHasNotRunHasNoPlan) {
  const ProgramHandle program = LoadLinearRegression();
  const SessionHandle session = MakeSession(program.get());
  cotan_plan_summary summary = COTAN_PLAN_SUMMARY_INIT;
  char* text = nullptr;
  EXPECT_EQ(cotan_session_plan_summary(session.get(), "train_step", &summary), COTAN_FAILED_PRECONDITION);
  EXPECT_EQ(cotan_session_plan_text(session.get(), "train_step", &text), COTAN_FAILED_PRECONDITION);
  EXPECT_EQ(cotan_session_plan_text(session.get(), "train", &text), COTAN_NOT_FOUND);
  EXPECT_EQ(text, nullptr);
}

TEST(CPlansTest, SummaryAndTextDescribeTheLastPlan) {
  const ProgramHandle program = LoadLinearRegression();
  const SessionHandle session = MakeSession(program.get());
  TrainOnce(session.get());
  cotan_plan_summary summary = COTAN_PLAN_SUMMARY_INIT;
  ASSERT_EQ(cotan_session_plan_summary(session.get(), "train_step", &summary), COTAN_OK) << cotan_last_error();
  EXPECT_EQ(summary.struct_size, sizeof(summary));
  EXPECT_GT(summary.num_steps, 0);
  EXPECT_EQ(summary.updates_in_place, 5);
  EXPECT_GE(summary.arena_bytes, summary.peak_bytes);
  EXPECT_EQ(summary.host_bytes, 0);
  char* text = nullptr;
  ASSERT_EQ(cotan_session_plan_text(session.get(), "train_step", &text), COTAN_OK) << cotan_last_error();
  const std::string copy = text;
  cotan_string_free(text);
  EXPECT_THAT(copy, HasSubstr("method 'train_step': " + std::to_string(summary.num_steps) + " steps, arena "));
  EXPECT_THAT(copy, HasSubstr(" bytes, on the host 0 bytes\n"));
  EXPECT_THAT(copy, HasSubstr("states: 5 in place, 0 copied"));
  // Five lines, a heading, and one line for each step.
  EXPECT_EQ(std::count(copy.begin(), copy.end(), '\n'), 6 + summary.num_steps);
}

TEST(CPlansTest, TheFirstVersionOfTheSummaryEndsBeforeTheBytesOnTheHost) {
  const ProgramHandle program = LoadLinearRegression();
  const SessionHandle session = MakeSession(program.get());
  TrainOnce(session.get());
  cotan_plan_summary summary = COTAN_PLAN_SUMMARY_INIT;
  summary.inputs_overwritten = -1;
  summary.host_bytes = -1;
  summary.struct_size = offsetof(cotan_plan_summary, host_bytes);
  ASSERT_EQ(cotan_session_plan_summary(session.get(), "train_step", &summary), COTAN_OK) << cotan_last_error();
  EXPECT_GE(summary.inputs_overwritten, 0);
  EXPECT_EQ(summary.host_bytes, -1);
  summary.struct_size = sizeof(summary);
  ASSERT_EQ(cotan_session_plan_summary(session.get(), "train_step", &summary), COTAN_OK) << cotan_last_error();
  EXPECT_EQ(summary.host_bytes, 0);
  summary.struct_size = offsetof(cotan_plan_summary, inputs_overwritten);
  EXPECT_EQ(cotan_session_plan_summary(session.get(), "train_step", &summary), COTAN_INVALID_ARGUMENT);
  EXPECT_THAT(cotan_last_error(), HasSubstr("summary.struct_size is"));
}

TEST(CPlansTest, BytesAndPlansAreCounted) {
  const ProgramHandle program = LoadLinearRegression();
  const SessionHandle session = MakeSession(program.get());
  int64_t number = -1;
  ASSERT_EQ(cotan_session_num_plans_made(session.get(), &number), COTAN_OK);
  EXPECT_EQ(number, 0);
  TrainOnce(session.get());
  TrainOnce(session.get());
  ASSERT_EQ(cotan_session_num_plans_made(session.get(), &number), COTAN_OK);
  EXPECT_EQ(number, 1);
  ASSERT_EQ(cotan_session_arena_bytes(session.get(), &number), COTAN_OK);
  EXPECT_GT(number, 0);
  ASSERT_EQ(cotan_session_state_bytes(session.get(), &number), COTAN_OK);
  EXPECT_EQ(number, 6 * 4 + 2 * 4 + 6 * 4 + 8 + 4 + 16);
}

}  // namespace
}  // namespace cotan::capi
