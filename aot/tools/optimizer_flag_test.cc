// SPDX-License-Identifier: Apache-2.0

#include "aot/tools/optimizer_flag.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cotan::aot {
namespace {

using ::testing::HasSubstr;

TEST(ParseOptimizerTest, TakesDefaultsFromTheName) {
  const auto sgd = ParseOptimizer("sgd");
  ASSERT_TRUE(sgd.ok()) << sgd.status();
  EXPECT_EQ(std::get<SgdOptions>(*sgd).lr, 1e-3);
  const auto adamw = ParseOptimizer("adamw()");
  ASSERT_TRUE(adamw.ok()) << adamw.status();
  EXPECT_EQ(std::get<AdamOptions>(*adamw).weight_decay, 0.01);
  EXPECT_TRUE(std::get<AdamOptions>(*adamw).decoupled_weight_decay);
}

TEST(ParseOptimizerTest, SetsNumbersAndBooleans) {
  const auto sgd = ParseOptimizer(" sgd( lr=0.5, momentum = 0.9 ,nesterov=true) ");
  ASSERT_TRUE(sgd.ok()) << sgd.status();
  EXPECT_EQ(std::get<SgdOptions>(*sgd).lr, 0.5);
  EXPECT_EQ(std::get<SgdOptions>(*sgd).momentum, 0.9);
  EXPECT_TRUE(std::get<SgdOptions>(*sgd).nesterov);
  const auto adam = ParseOptimizer("adam(beta2=0.99,amsgrad=true)");
  ASSERT_TRUE(adam.ok()) << adam.status();
  EXPECT_EQ(std::get<AdamOptions>(*adam).beta2, 0.99);
  EXPECT_TRUE(std::get<AdamOptions>(*adam).amsgrad);
}

TEST(ParseOptimizerTest, NamesWhatItDoesNotKnow) {
  EXPECT_THAT(ParseOptimizer("lion").status().message(), HasSubstr("no optimizer 'lion'; known are sgd, adam, adamw"));
  EXPECT_THAT(ParseOptimizer("sgd(beta1=1)").status().message(), HasSubstr("no 'beta1'; known are lr, momentum"));
  EXPECT_THAT(ParseOptimizer("sgd(lr=fast)").status().message(), HasSubstr("'fast' is not a value for lr"));
  EXPECT_THAT(ParseOptimizer("sgd(lr=1").status().message(), HasSubstr("expected ')'"));
}

}  // namespace
}  // namespace cotan::aot
