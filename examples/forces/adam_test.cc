// SPDX-License-Identifier: Apache-2.0

#include "examples/forces/adam.h"

#include <vector>

#include "gtest/gtest.h"

namespace cotan::forces {
namespace {

TEST(AdamTest, TheFirstStepHasTheLengthOfTheLearningRate) {
  Adam adam(0.5);
  std::vector<float> values = {1, 2, 3};
  const std::vector<float> gradient = {10, -0.1F, 0};
  adam.Step(absl::MakeSpan(values), gradient);
  EXPECT_FLOAT_EQ(values[0], 0.5F);
  EXPECT_NEAR(values[1], 2.5F, 1e-6F);
  EXPECT_FLOAT_EQ(values[2], 3);
}

// The sum of squares is smallest at 0.
TEST(AdamTest, StepsLeadToAMinimum) {
  Adam adam(0.1);
  std::vector<float> values = {1, -2};
  for (int step = 0; step < 300; ++step) {
    const std::vector<float> gradient = {2 * values[0], 2 * values[1]};
    adam.Step(absl::MakeSpan(values), gradient);
  }
  EXPECT_NEAR(values[0], 0, 0.02);
  EXPECT_NEAR(values[1], 0, 0.02);
}

}  // namespace
}  // namespace cotan::forces
