// SPDX-License-Identifier: Apache-2.0

#include "runtime/session/method_plans.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/testing/program_builder.h"

namespace cotan {
namespace {

using ::testing::HasSubstr;
using testing::LinearRegression;
using testing::TestKernels;

class MethodPlansTest : public ::testing::Test {
 protected:
  MethodPlansTest()
      : core_(*SessionCore::Create(LinearRegression().Load(),
                                   {.kernels = &TestKernels(), .device = &HostDevice(), .threads = 1},
                                   /*max_plans=*/2)),
        eval_(*core_, *core_->program().FindMethod("eval"), /*num_saved=*/0) {}

  absl::StatusOr<Executable*> Prepare(int64_t batch) {
    const Tensor input = *Tensor::Zeros(DType::kFloat32, {batch, 3});
    return eval_.Prepare({&input});
  }

  std::shared_ptr<SessionCore> core_;
  MethodPlans eval_;
};

TEST_F(MethodPlansTest, APlanIsMadeOncePerSizes) {
  EXPECT_EQ(eval_.last(), nullptr);
  Executable* const two = *Prepare(2);
  EXPECT_EQ(*Prepare(2), two);
  Executable* const three = *Prepare(3);
  EXPECT_NE(three, two);
  EXPECT_EQ(*Prepare(2), two);
  EXPECT_EQ(eval_.last(), two);
  EXPECT_EQ(core_->num_plans_made(), 2);
}

TEST_F(MethodPlansTest, ThePlanNotUsedForLongestGoes) {
  for (int64_t batch : {2, 3, 2, 4, 2}) ASSERT_TRUE(Prepare(batch).ok());
  EXPECT_EQ(core_->num_plans_made(), 3);
  ASSERT_TRUE(Prepare(3).ok());
  EXPECT_EQ(core_->num_plans_made(), 4);
}

TEST_F(MethodPlansTest, ArgumentsThatDoNotFitAreNamed) {
  EXPECT_EQ(Prepare(65).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(eval_.Prepare({}).status().message(), HasSubstr("takes 1 arguments (input), got 0"));
}

}  // namespace
}  // namespace cotan
