// SPDX-License-Identifier: Apache-2.0

#include "runtime/training/score.h"

#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan::training {
namespace {

using ::testing::HasSubstr;

template <typename T>
Tensor Values(std::vector<T> values, std::vector<int64_t> sizes) {
  return *Tensor::From<T>(values, absl::MakeConstSpan(sizes));
}

TEST(ScoreTest, AccuracyCountsTheLargestOutputs) {
  const Column classes = {"class", Values<uint8_t>({0, 1, 2}, {3})};
  Score score(Metric::kAccuracy);
  ASSERT_TRUE(score.Add(Values<float>({0, 5, 1, 2, 1, 0}, {2, 3}), 2, classes, {1, 2}).ok());
  EXPECT_EQ(score.value(), 0.5);
  ASSERT_TRUE(score.Add(Values<float>({9, 5, 1, 0, 0, 0}, {2, 3}), 2, classes, {0}).ok())
      << "the second row is padding";
  EXPECT_EQ(score.count(), 3);
  EXPECT_DOUBLE_EQ(score.value(), 2.0 / 3);
}

TEST(ScoreTest, CrossEntropyIsTheMeanOverPredictions) {
  Score score(Metric::kCrossEntropy);
  const Column classes = {"class", Values<double>({1}, {1, 1})};
  ASSERT_TRUE(score.Add(Values<double>({1000, 1001}, {1, 2}), 1, classes, {0}).ok());
  EXPECT_NEAR(score.value(), std::log(1 + std::exp(-1)), 1e-12);
}

TEST(ScoreTest, ClassesAreTheSecondDimension) {
  // One example with two predictions: [n, classes, places].
  const Column classes = {"class", Values<int64_t>({1, 0}, {1, 2})};
  Score score(Metric::kAccuracy);
  ASSERT_TRUE(score.Add(Values<float>({0, 7, 1, 3}, {1, 2, 2}), 1, classes, {0}).ok());
  EXPECT_EQ(score.value(), 1);
}

TEST(ScoreTest, MeanSquaredErrorIsTheMeanOverElements) {
  Score score(Metric::kMeanSquaredError);
  EXPECT_TRUE(std::isnan(score.value()));
  const Column targets = {"y", Values<float>({1, 2, 3, 4}, {2, 2})};
  ASSERT_TRUE(score.Add(Values<float>({4, 4, 1, 4}, {2, 2}), 2, targets, {1, 0}).ok());
  EXPECT_EQ(score.value(), (1.0 + 0 + 0 + 4) / 4);
}

TEST(ScoreTest, TargetsThatDoNotFitAreNamed) {
  const Column classes = {"class", Values<int64_t>({0, 7}, {2})};
  Score score(Metric::kAccuracy);
  EXPECT_EQ(score.Add(Values<float>({0, 1}, {1, 2}), 1, classes, {1}).message(),
            "targets 'class', example 1: class 7 is not an integer in [0, 2)");
  EXPECT_EQ(score.Add(Values<float>({0, 1}, {1, 2}), 1, {"class", Values<float>({0.5f}, {1})}, {0}).message(),
            "targets 'class', example 0: class 0.5 is not an integer in [0, 2)");
  EXPECT_EQ(score.count(), 0);
  EXPECT_THAT(std::string(score.Add(Values<float>({0, 1}, {2}), 2, classes, {0, 1}).message()),
              HasSubstr("output f32[2] of a batch of 2 does not fit the targets 'class', i64[2]"));
  EXPECT_FALSE(Score(Metric::kMeanSquaredError).Add(Values<float>({0, 1}, {1, 2}), 1, classes, {1}).ok());
}

TEST(MetricTest, NamesAreReadBack) {
  for (const Metric metric : {Metric::kAccuracy, Metric::kCrossEntropy, Metric::kMeanSquaredError}) {
    EXPECT_EQ(*ParseMetric(MetricName(metric)), metric);
  }
  EXPECT_THAT(std::string(ParseMetric("f1").status().message()), HasSubstr("there are: accuracy"));
}

}  // namespace
}  // namespace cotan::training
