// SPDX-License-Identifier: Apache-2.0

#include "runtime/training/dataset.h"

#include <numeric>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan::training {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAreArray;

Tensor Floats(std::vector<float> values, std::vector<int64_t> sizes) {
  return *Tensor::From<float>(values, absl::MakeConstSpan(sizes));
}

std::string Refusal(std::vector<Column> columns) {
  const absl::Status status = Dataset::Create(std::move(columns)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

Dataset Numbered(int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), 0.0f);
  return *Dataset::Create({{"x", Floats(values, {count})}});
}

TEST(DatasetTest, SelectsColumnsByName) {
  const Dataset data = *Dataset::Create({{"x", Floats({1, 2, 3, 4}, {2, 2})}, {"y", Floats({5, 6}, {2})}});
  EXPECT_EQ(data.size(), 2);
  EXPECT_EQ(data.columns()[0].example_elements(), 2);
  EXPECT_EQ(data.columns()[1].example_bytes(), 4u);
  const std::vector<std::string> names = {"y"};
  const absl::StatusOr<Dataset> selected = data.Select(names);
  ASSERT_TRUE(selected.ok()) << selected.status();
  EXPECT_EQ(selected->columns()[0].name, "y");
  const std::vector<std::string> missing = {"z"};
  EXPECT_THAT(std::string(data.Select(missing).status().message()), HasSubstr("no column 'z'; there are: x, y"));
}

TEST(DatasetTest, CopiesRows) {
  const Dataset data = *Dataset::Create({{"x", Floats({1, 2, 3, 4, 5, 6}, {3, 2})}});
  const absl::StatusOr<Dataset> rows = data.Rows({2, 0});
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_THAT(*rows->columns()[0].values.ToVector<float>(), ElementsAre(5, 6, 1, 2));
  EXPECT_FALSE(data.Rows({}).ok());
}

TEST(DatasetTest, RefusesColumnsThatDoNotFit) {
  EXPECT_THAT(Refusal({}), HasSubstr("at least one column"));
  EXPECT_THAT(Refusal({{"x", Tensor()}}), HasSubstr("column 'x' is undefined"));
  EXPECT_THAT(Refusal({{"x", *Tensor::Scalar(1.0f)}}), HasSubstr("column 'x' is f32[]"));
  EXPECT_THAT(Refusal({{"x", Floats({}, {0, 2})}}), HasSubstr("has no examples"));
  EXPECT_THAT(Refusal({{"x", Floats({1, 2}, {2})}, {"y", Floats({1}, {1})}}), HasSubstr("'y' has 1 examples"));
  EXPECT_THAT(Refusal({{"x", Floats({1}, {1})}, {"x", Floats({1}, {1})}}), HasSubstr("two columns are named 'x'"));
}

TEST(DatasetTest, ChecksumDependsOnElements) {
  EXPECT_EQ(Numbered(5).Checksum(), Numbered(5).Checksum());
  EXPECT_NE(Numbered(5).Checksum(), Numbered(6).Checksum());
}

TEST(HoldOutTest, PartsHaveNoCommonExample) {
  const absl::StatusOr<DatasetSplit> split = HoldOut(Numbered(25), 0.2, 3);
  ASSERT_TRUE(split.ok()) << split.status();
  EXPECT_EQ(split->held_out.size(), 5);
  std::vector<float> both = *split->train.columns()[0].values.ToVector<float>();
  const std::vector<float> held_out = *split->held_out.columns()[0].values.ToVector<float>();
  both.insert(both.end(), held_out.begin(), held_out.end());
  EXPECT_THAT(both, UnorderedElementsAreArray(*Numbered(25).columns()[0].values.ToVector<float>()));
}

TEST(HoldOutTest, RefusesFractionsThatLeaveAPartEmpty) {
  for (const double fraction : {0.0, 1.0, -0.5, 0.99}) {
    EXPECT_EQ(HoldOut(Numbered(10), fraction, 0).status().code(), absl::StatusCode::kInvalidArgument) << fraction;
  }
}

}  // namespace
}  // namespace cotan::training
