// SPDX-License-Identifier: Apache-2.0

#include "runtime/training/early_stopping.h"

#include <cmath>

#include "gtest/gtest.h"

namespace cotan::training {
namespace {

TEST(EarlyStoppingTest, StopsAfterEvaluationsWithoutImprovement) {
  EarlyStopping stopping = *EarlyStopping::Create({.patience = 2});
  EXPECT_TRUE(stopping.Add(0.5, 10));
  EXPECT_FALSE(stopping.Add(0.5, 20));
  EXPECT_FALSE(stopping.should_stop());
  EXPECT_TRUE(stopping.Add(0.6, 30)) << "an improvement starts the count again";
  EXPECT_FALSE(stopping.Add(0.4, 40));
  EXPECT_FALSE(stopping.should_stop());
  EXPECT_FALSE(stopping.Add(0.55, 50));
  EXPECT_TRUE(stopping.should_stop());
  EXPECT_EQ(stopping.state(), (EarlyStopping::State{0.6, 30, 2}));
}

TEST(EarlyStoppingTest, SmallerMayBeBetterAndGainsMayBeTooSmall) {
  EarlyStopping stopping = *EarlyStopping::Create({.patience = 1, .min_delta = 0.1, .larger_is_better = false});
  EXPECT_TRUE(stopping.Add(1.0, 1));
  EXPECT_TRUE(stopping.Add(0.5, 2));
  EXPECT_FALSE(stopping.Add(0.45, 3));
  EXPECT_TRUE(stopping.should_stop());
}

TEST(EarlyStoppingTest, WithoutPatienceItOnlyKeepsTheBest) {
  EarlyStopping stopping = *EarlyStopping::Create({});
  for (int step = 0; step < 100; ++step) stopping.Add(-step, step);
  EXPECT_FALSE(stopping.should_stop());
  EXPECT_EQ(stopping.state().best_step, 0);
}

TEST(EarlyStoppingTest, NanIsNotAnImprovement) {
  EarlyStopping stopping = *EarlyStopping::Create({.patience = 2});
  EXPECT_FALSE(stopping.Add(std::nan(""), 1));
  EXPECT_TRUE(stopping.Add(0.1, 2));
  EXPECT_FALSE(stopping.Add(std::nan(""), 3));
}

TEST(EarlyStoppingTest, ContinuesFromAState) {
  EarlyStopping stopping = *EarlyStopping::Create({.patience = 3});
  stopping.set_state({0.9, 7, 2});
  EXPECT_FALSE(stopping.Add(0.8, 8));
  EXPECT_TRUE(stopping.should_stop());
}

TEST(EarlyStoppingTest, RefusesNegativeOptions) {
  EXPECT_FALSE(EarlyStopping::Create({.patience = -1}).ok());
  EXPECT_FALSE(EarlyStopping::Create({.min_delta = -0.5}).ok());
  EXPECT_FALSE(EarlyStopping::Create({.min_delta = std::nan("")}).ok());
}

}  // namespace
}  // namespace cotan::training
