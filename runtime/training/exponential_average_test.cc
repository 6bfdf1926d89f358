// SPDX-License-Identifier: Apache-2.0

#include "runtime/training/exponential_average.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/testing/program_builder.h"

namespace cotan::training {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::LinearRegression;
using testing::ProgramBuilder;
using testing::TestKernels;

// Returns a session that trains "bias" only, which is {0.25, -0.25}.
Session NewSession() {
  ProgramBuilder program = LinearRegression();
  program.artifact().mutable_states(1)->set_requires_grad(true);
  return *Session::Create(program.Load(), {.kernels = &TestKernels(), .threads = 1});
}

std::vector<float> Bias(const Session& session) { return *session.State("bias")->ToVector<float>(); }

TEST(ExponentialAverageTest, FollowsTheParameters) {
  Session session = NewSession();
  absl::StatusOr<ExponentialAverage> average = ExponentialAverage::Create(&session, 0.75);
  ASSERT_TRUE(average.ok()) << average.status();
  ASSERT_EQ(average->averages().size(), 1u);
  ASSERT_TRUE(session.SetState("bias", *Tensor::From<float>({1.25, 0.75}, {2})).ok());
  ASSERT_TRUE(average->Update().ok());
  EXPECT_THAT(*average->averages()[0].second.ToVector<float>(), ElementsAre(0.5f, 0.0f));
  ASSERT_TRUE(average->Update().ok());
  EXPECT_THAT(*average->averages()[0].second.ToVector<float>(), ElementsAre(0.6875f, 0.1875f));
  EXPECT_THAT(Bias(session), ElementsAre(1.25f, 0.75f)) << "the parameters stay";
}

TEST(ExponentialAverageTest, TwoSwapsRestoreBoth) {
  Session session = NewSession();
  absl::StatusOr<ExponentialAverage> average = ExponentialAverage::Create(&session, 0.5);
  ASSERT_TRUE(average.ok()) << average.status();
  ASSERT_TRUE(session.SetState("bias", *Tensor::From<float>({8, 9}, {2})).ok());
  ASSERT_TRUE(average->Swap().ok());
  EXPECT_THAT(Bias(session), ElementsAre(0.25f, -0.25f));
  ASSERT_TRUE(average->Swap().ok());
  EXPECT_THAT(Bias(session), ElementsAre(8, 9));
  EXPECT_THAT(*average->averages()[0].second.ToVector<float>(), ElementsAre(0.25f, -0.25f));
}

TEST(ExponentialAverageTest, ContinuesFromOtherAverages) {
  Session session = NewSession();
  absl::StatusOr<ExponentialAverage> average = ExponentialAverage::Create(&session, 0.5);
  ASSERT_TRUE(average.ok()) << average.status();
  ASSERT_TRUE(average->Set({{"bias", *Tensor::From<float>({1, 2}, {2})}}).ok());
  EXPECT_THAT(*average->averages()[0].second.ToVector<float>(), ElementsAre(1, 2));
  EXPECT_THAT(std::string(average->Set({{"bias", *Tensor::From<float>({1}, {1})}}).message()),
              HasSubstr("average 0 is 'bias', f32[1]; expected 'bias', f32[2]"));
  EXPECT_FALSE(average->Set({}).ok());
}

TEST(ExponentialAverageTest, RefusesDecaysOutOfRangeAndProgramsWithoutParameters) {
  Session session = NewSession();
  for (const double decay : {0.0, 1.0, -1.0}) EXPECT_FALSE(ExponentialAverage::Create(&session, decay).ok()) << decay;
  Session frozen = *Session::Create(LinearRegression().Load(), {.kernels = &TestKernels(), .threads = 1});
  EXPECT_THAT(std::string(ExponentialAverage::Create(&frozen, 0.5).status().message()),
              HasSubstr("trains no parameters"));
}

}  // namespace
}  // namespace cotan::training
