// SPDX-License-Identifier: Apache-2.0

#include "runtime/training/csv_dataset.h"

#include <cstdio>
#include <random>
#include <string>

#include "base/test_seed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan::training {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<double> Values(const absl::StatusOr<Dataset>& data, size_t column) {
  return data.ok() ? *data->columns()[column].values.ToVector<double>() : std::vector<double>();
}

std::string Refusal(absl::string_view text, const CsvOptions& options = {}) {
  const absl::Status status = ParseCsv(text, "t.csv", options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

TEST(CsvDatasetTest, ReadsNumbersWithoutHeader) {
  const absl::StatusOr<Dataset> data = ParseCsv("1,2.5,-3e2\n4,5,6", "t.csv", {.targets = {"-1"}});
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT(Values(data, 0), ElementsAre(1, 2.5, 4, 5));
  EXPECT_THAT(Values(data, 1), ElementsAre(-300, 6));
  EXPECT_EQ(data->columns()[1].values.ToString(), "f64[2,1]");
}

TEST(CsvDatasetTest, ReadsColumnsByTheNamesOfTheHeader) {
  const absl::StatusOr<Dataset> data = ParseCsv("age,\"net, \"\"worth\"\"\",size\r\n\r\n1, 2 ,3\r\n 4,\"5\",6\r\n",
                                                "t.csv", {.targets = {"size", "net, \"worth\""}});
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT(Values(data, 0), ElementsAre(1, 4));
  EXPECT_THAT(Values(data, 1), ElementsAre(3, 2, 6, 5)) << "in the order of CsvOptions::targets";
}

TEST(CsvDatasetTest, AByteOrderMarkIsSkipped) {
  const std::string mark = "\xef\xbb\xbf";
  EXPECT_THAT(Values(ParseCsv(mark + "1,2\n3,4\n", "t.csv", {}), 0), ElementsAre(1, 2, 3, 4));
  const absl::StatusOr<Dataset> data = ParseCsv(mark + "size,age\n1,2\n", "t.csv", {.targets = {"size"}});
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT(Values(data, 1), ElementsAre(1));
  EXPECT_EQ(Refusal(mark), "t.csv: there are no examples; expected lines of numbers");
}

TEST(CsvDatasetTest, ClassesAreNumberedInOrder) {
  const CsvOptions options = {.delimiter = ';', .targets = {"1"}, .classes = {"cat", "dog"}};
  const absl::StatusOr<Dataset> data = ParseCsv("0.5;dog\n0.25;cat\n", "t.csv", options);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT(Values(data, 1), ElementsAre(1, 0));
  EXPECT_EQ(Refusal("0.5;dog\n0.5;bird\n", options),
            "t.csv:2: field 2 is 'bird', which is not one of the classes cat, dog");
}

TEST(CsvDatasetTest, MistakesAreNamedWithTheirPlace) {
  EXPECT_EQ(Refusal("a,b\n1,2\n3,x\n"), "t.csv:3: field 2 ('b') is 'x'; expected a finite number");
  EXPECT_EQ(Refusal("1,2\n\n3,nan\n"), "t.csv:3: field 2 is 'nan'; expected a finite number");
  EXPECT_EQ(Refusal("1,inf\n2,3\n"), "t.csv:1: field 2 is 'inf'; expected a finite number");
  EXPECT_EQ(Refusal("1e999,2\n3,4\n"), "t.csv:1: field 1 is '1e999'; expected a finite number");
  EXPECT_EQ(Refusal("1,2\n3,\n"), "t.csv:2: field 2 is empty; write a number, or remove the line");
  EXPECT_EQ(Refusal("1,2\n3\n"), "t.csv:2: 1 fields, but line 1 has 2; is the delimiter ','?");
  EXPECT_EQ(Refusal("1,2\n3,\"4\n5,6\n"), "t.csv:2: field 2 begins with a quote that is not closed");
  EXPECT_EQ(Refusal("1,2\n3,\"4\"5\n"), "t.csv:2: field 2: '5' follows the closing quote; write \"\" for a quote");
  EXPECT_EQ(Refusal("a,b\n"), "t.csv: there are no examples; expected lines of numbers");
  EXPECT_EQ(Refusal(""), "t.csv: there are no examples; expected lines of numbers");
}

TEST(CsvDatasetTest, TargetsMustBeColumns) {
  EXPECT_EQ(Refusal("a,b\n1,2\n", {.targets = {"c"}}), "t.csv:1: there is no target column 'c'; the header has a, b");
  EXPECT_EQ(Refusal("1,2\n", {.targets = {"2"}}),
            "t.csv:1: there is no target column '2'; without a header, columns are numbers from 0 to 1");
  EXPECT_EQ(Refusal("a,b\n1,2\n", {.targets = {"b", "-1"}}), "t.csv: target column '-1' is given twice");
  EXPECT_EQ(Refusal("1\n2\n", {.targets = {"0"}}), "t.csv:1: all 1 columns are targets; none is left as an input");
}

TEST(CsvDatasetTest, ReadsFilesAndNamesMissingOnes) {
  const std::string path = ::testing::TempDir() + "/numbers.csv";
  FILE* const file = std::fopen(path.c_str(), "w");
  ASSERT_NE(file, nullptr);
  std::fputs("1,2\n", file);
  std::fclose(file);
  EXPECT_THAT(Values(ReadCsv(path, {}), 0), ElementsAre(1, 2));
  const absl::Status missing = ReadCsv("/no/such.csv", {}).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("/no/such.csv"));
}

TEST(CsvDatasetTest, DamagedTextsGiveADatasetOrAnErrorWithThePath) {
  const std::string text = "a,\"b\"\"c\",d\r\n1,2,3\r\n\"4\",5e-3,-6\n7,8,9";
  std::mt19937_64 random(testing::TestSeed());
  int refused = 0;
  for (int trial = 0; trial < 5000; ++trial) {
    std::string damaged = text.substr(0, random() % (text.size() + 1));
    for (uint64_t flips = random() % 4; flips > 0 && !damaged.empty(); --flips) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    const absl::StatusOr<Dataset> data = ParseCsv(damaged, "t.csv", {.targets = {"-1"}});
    if (data.ok()) {
      EXPECT_GE(data->size(), 1);
      continue;
    }
    ++refused;
    EXPECT_EQ(data.status().code(), absl::StatusCode::kInvalidArgument) << data.status();
    EXPECT_THAT(std::string(data.status().message()), ::testing::StartsWith("t.csv"));
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace cotan::training
