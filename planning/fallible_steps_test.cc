// SPDX-License-Identifier: Apache-2.0

#include "planning/fallible_steps.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planning/schedule.h"
#include "runtime/session.h"
#include "runtime/testing/program_builder.h"

namespace cotan {
namespace {

using serialization::Collective;
using serialization::Method;
using serialization::Op;
using serialization::State;
using ::testing::ElementsAre;
using testing::ExprBuilder;
using ::testing::HasSubstr;
using testing::MethodBuilder;
using testing::ProgramBuilder;
using testing::TestKernels;

Op OpOf(Collective::Function function, bool starts = false) {
  Op op;
  op.mutable_collective()->set_function(function);
  op.mutable_collective()->set_starts(starts);
  return op;
}

TEST(FallibleStepsTest, OnlyTheFirstWaitAfterAStartCanFail) {
  Method method;
  *method.add_ops() = OpOf(Collective::ALL_REDUCE, /*starts=*/true);
  *method.add_ops() = OpOf(Collective::ALL_REDUCE, /*starts=*/true);
  *method.add_ops() = OpOf(Collective::WAIT);
  *method.add_ops() = OpOf(Collective::WAIT);
  *method.add_ops() = OpOf(Collective::SHARD);
  *method.add_ops() = OpOf(Collective::ALL_GATHER, /*starts=*/true);
  *method.add_ops() = OpOf(Collective::WAIT);
  *method.add_ops() = OpOf(Collective::ALL_REDUCE);
  FallibleSteps steps(method, {});
  std::vector<bool> fails;
  for (int i = 0; i < method.ops_size(); ++i) {
    ScheduledStep step;
    step.op = i;
    fails.push_back(steps.MayFail(step));
  }
  EXPECT_THAT(fails, ElementsAre(true, true, true, false, false, true, true, true));
}

// A program with the states a and b. `a` becomes a + 1 before an all-reduce, `b` the result of the all-reduce.
ProgramBuilder TwoUpdates() {
  const testing::Sizes four = {"4"};
  ProgramBuilder program;
  const uint32_t a = program.AddState("a", State::PARAMETER, DType::kFloat32, four, 0);
  const uint32_t b = program.AddState("b", State::PARAMETER, DType::kFloat32, four, 0);
  MethodBuilder m = program.AddMethod("run");
  const uint32_t x = m.Input("x", DType::kFloat32, four);
  const auto plus_one = [](ExprBuilder& e) { return e.Add(0, e.Constant(DType::kFloat32, 1)); };
  const uint32_t early = m.Pointwise(four, {m.Read(a, DType::kFloat32, four)}, plus_one);
  const uint32_t sum = m.AddValue(DType::kFloat32, four);
  Op& reduce = *m.proto().add_ops();
  reduce = OpOf(Collective::ALL_REDUCE);
  reduce.add_inputs(x);
  reduce.add_outputs(sum);
  m.Update(a, early);
  m.Update(b, sum);
  return program;
}

TEST(FallibleStepsTest, AStateIsWrittenInPlaceByTheLastCollectiveAndAfterIt) {
  ProgramBuilder program = TwoUpdates();
  const auto loaded = program.Load();
  const absl::StatusOr<Schedule> schedule = MakeSchedule(loaded->artifact(), loaded->method(0), {});
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  EXPECT_EQ(schedule->stats.updates_in_place, 1);  // b
  EXPECT_EQ(schedule->stats.update_copies, 1);     // a, which an error must leave as it is
}

TEST(FallibleStepsTest, ASessionWithoutCommunicatorRefusesTheProgramByName) {
  ProgramBuilder program = TwoUpdates();
  const auto session = Session::Create(program.Load(), {.kernels = &TestKernels()});
  EXPECT_EQ(session.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(session.status().message()),
              HasSubstr("method 'run' was compiled for data parallel training"));
}

}  // namespace
}  // namespace cotan
