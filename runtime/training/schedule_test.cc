// SPDX-License-Identifier: Apache-2.0

#include "runtime/training/schedule.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan::training {
namespace {

using ::testing::HasSubstr;

constexpr double kTolerance = 1e-15;  // rates below are at most 0.1

Schedule Make(const ScheduleOptions& options, int64_t total_steps = 10, int64_t steps_per_epoch = 5) {
  const absl::StatusOr<Schedule> schedule = Schedule::Create(options, total_steps, steps_per_epoch);
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  return *schedule;
}

std::string Refusal(const ScheduleOptions& options) {
  const absl::Status status = Schedule::Create(options, 10, 5).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(ScheduleTest, ConstantStaysAtTheBaseRate) {
  const Schedule schedule = Make({});
  EXPECT_EQ(schedule.Rate(0.1, 0), 0.1);
  EXPECT_EQ(schedule.Rate(0.1, 1000), 0.1);
}

TEST(ScheduleTest, StepMultipliesAfterEachNumberOfStepsOrEpochs) {
  const Schedule by_steps = Make({.kind = ScheduleKind::kStep, .step_size = 3, .gamma = 0.5});
  for (int64_t step = 0; step < 20; ++step) {
    EXPECT_DOUBLE_EQ(by_steps.Rate(0.1, step), 0.1 * std::pow(0.5, static_cast<double>(step / 3))) << step;
  }
  const Schedule by_epochs = Make({.kind = ScheduleKind::kStep, .step_epochs = 2});
  EXPECT_EQ(by_epochs.Rate(0.1, 9), 0.1);
  EXPECT_DOUBLE_EQ(by_epochs.Rate(0.1, 10), 0.01);
}

// Values of torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10, eta_min=0.001) with lr=0.1.
TEST(ScheduleTest, CosineEqualsTheClosedFormOfCosineAnnealing) {
  const Schedule schedule = Make({.kind = ScheduleKind::kCosine, .minimum = 0.001});
  for (int64_t step = 0; step <= 10; ++step) {
    const double expected = 0.001 + (0.1 - 0.001) * (1 + std::cos(M_PI * static_cast<double>(step) / 10)) / 2;
    EXPECT_NEAR(schedule.Rate(0.1, step), expected, kTolerance) << step;
  }
  EXPECT_NEAR(schedule.Rate(0.1, 5), 0.0505, kTolerance);
  EXPECT_NEAR(schedule.Rate(0.1, 25), 0.001, kTolerance) << "stays at the minimum";
}

// Values of torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=10, cycle_momentum=False).
TEST(ScheduleTest, OneCycleEqualsTheValuesOfTorch) {
  const Schedule schedule = Make({.kind = ScheduleKind::kOneCycle});
  const std::vector<double> expected = {0.004,
                                        0.052,
                                        0.1,
                                        0.09504846320134738,
                                        0.0811745653949763,
                                        0.06112620219362893,
                                        0.03887419780637107,
                                        0.0188258346050237,
                                        0.004951936798652629,
                                        4e-07};
  for (size_t step = 0; step < expected.size(); ++step) {
    EXPECT_NEAR(schedule.Rate(0.1, static_cast<int64_t>(step)), expected[step], kTolerance) << step;
  }
  EXPECT_EQ(schedule.Rate(0.1, 100), schedule.Rate(0.1, 9));
}

// Values of SequentialLR(optimizer, [LinearLR(optimizer, start_factor=1/3, total_iters=4),
// CosineAnnealingLR(optimizer, T_max=6)], milestones=[4]) with lr=0.1.
TEST(ScheduleTest, WarmUpRisesLinearlyToTheFirstRate) {
  const Schedule schedule = Make({.kind = ScheduleKind::kCosine, .warmup_steps = 4});
  for (int64_t step = 0; step < 4; ++step) {
    EXPECT_NEAR(schedule.Rate(0.1, step), 0.1 * (1.0 / 3 + 2.0 / 3 * static_cast<double>(step) / 4), kTolerance);
  }
  for (int64_t step = 4; step < 10; ++step) {
    EXPECT_NEAR(schedule.Rate(0.1, step), 0.05 * (1 + std::cos(M_PI * static_cast<double>(step - 4) / 6)), kTolerance);
  }
}

TEST(ScheduleTest, SchedulesOfOneStepHaveARate) {
  for (const ScheduleKind kind : {ScheduleKind::kConstant, ScheduleKind::kCosine, ScheduleKind::kOneCycle}) {
    EXPECT_TRUE(std::isfinite(Make({.kind = kind}, 1, 1).Rate(0.1, 0)));
  }
}

TEST(ScheduleTest, OptionsOutOfRangeAreNamed) {
  EXPECT_THAT(Refusal({.warmup_steps = 10}), HasSubstr("warmup_steps = 10; expected 0 to 9"));
  EXPECT_THAT(Refusal({.kind = ScheduleKind::kStep}), HasSubstr("either steps or epochs"));
  EXPECT_THAT(Refusal({.kind = ScheduleKind::kStep, .step_size = 1, .step_epochs = 1}), HasSubstr("either"));
  EXPECT_THAT(Refusal({.kind = ScheduleKind::kStep, .step_size = 1, .gamma = 0}), HasSubstr("gamma = 0"));
  EXPECT_THAT(Refusal({.kind = ScheduleKind::kCosine, .minimum = -1}), HasSubstr("minimum = -1"));
  EXPECT_THAT(Refusal({.kind = ScheduleKind::kOneCycle, .pct_start = 1}), HasSubstr("pct_start = 1"));
  EXPECT_THAT(Refusal({.kind = ScheduleKind::kOneCycle, .div_factor = 0}), HasSubstr("div_factor = 0"));
  EXPECT_THAT(Refusal({.kind = ScheduleKind::kStep, .step_epochs = std::numeric_limits<int64_t>::max() / 4}),
              HasSubstr("epochs = 2305843009213693951 of 5 steps"));
  EXPECT_FALSE(Schedule::Create({}, 0, 1).ok());
}

TEST(ScheduleTest, TextsDifferIfRatesDo) {
  const ScheduleOptions cosine = {.kind = ScheduleKind::kCosine};
  EXPECT_NE(Make(cosine, 10).ToString(), Make(cosine, 20).ToString());
  EXPECT_EQ(Make({}, 10).ToString(), Make({}, 20).ToString());
  EXPECT_NE(Make({.warmup_steps = 1}).ToString(), Make({.warmup_steps = 2}).ToString());
}

TEST(ParseScheduleTest, ReadsNamesAndOptions) {
  EXPECT_EQ(ParseSchedule("constant")->kind, ScheduleKind::kConstant);
  const ScheduleOptions step = *ParseSchedule("step(epochs=3,gamma=0.5)");
  EXPECT_EQ(step.step_epochs, 3);
  EXPECT_EQ(step.gamma, 0.5);
  EXPECT_EQ(ParseSchedule("step(steps=7)")->step_size, 7);
  EXPECT_EQ(ParseSchedule("cosine(minimum=1e-5)")->minimum, 1e-5);
  EXPECT_EQ(ParseSchedule("one_cycle()")->div_factor, 25);
}

TEST(ParseScheduleTest, MistakesAreNamed) {
  const auto refusal = [](absl::string_view text) { return std::string(ParseSchedule(text).status().message()); };
  EXPECT_EQ(refusal("cosinus"), "there is no schedule 'cosinus'; there are: constant, step, cosine, one_cycle");
  EXPECT_EQ(refusal("step(size=3)"), "there is no option 'size'; there are: epochs, steps, gamma");
  EXPECT_EQ(refusal("step(epochs=few)"), "'few' is not a value for epochs");
  EXPECT_EQ(refusal("cosine(minimum=1"), "'cosine(minimum=1' does not end with ')'");
  EXPECT_EQ(refusal("constant(x=1)"), "there is no option 'x'; there are: none");
}

}  // namespace
}  // namespace cotan::training
