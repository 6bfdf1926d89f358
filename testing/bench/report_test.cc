// SPDX-License-Identifier: Apache-2.0

#include "testing/bench/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cotan::testing {
namespace {

StepResult Example() {
  StepResult result;
  result.model = "mlp";
  result.threads = 2;
  result.cotan = {100, 90};
  result.eager = {250, 240};
  result.cotan_peak_bytes = 3 << 20;
  result.eager_peak_bytes = 6 << 20;
  result.first_step_ms = 1.5;
  result.flops = 20'000'000;
  result.bytes = 5 << 20;
  result.bound_us = 80;
  return result;
}

TEST(ReportTest, JsonHasTheDocumentedKeys) {
  EXPECT_EQ(FormatJson("cpu", Example()),
            R"({"model": "mlp", "device": "cpu", "threads": 2, "cotan_us": 100.00, "eager_us": 250.00, )"
            R"("ratio": 2.500, "cotan_peak_bytes": 3145728, "eager_peak_bytes": 6291456, "first_step_ms": 1.500, )"
            R"("flops": 20000000, "bytes": 5242880, "bound_us": 80.00})");
}

TEST(ReportTest, TableHasALineForEachResult) {
  const StepResult results[] = {Example(), Example()};
  const std::string table = FormatTable("cpu", results);
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 9);
  EXPECT_THAT(table, ::testing::HasSubstr(" 2.50 |"));
  EXPECT_THAT(table, ::testing::HasSubstr(" 3.00 |"));
  EXPECT_THAT(table, ::testing::HasSubstr("| eager µs (min) "));
  EXPECT_THAT(table, ::testing::HasSubstr("|     20.0 |      5.00 |      80.0 |          1.25 |"));
}

TEST(ReportTest, UnknownWorkHasNoTable) {
  StepResult result = Example();
  result.bound_us = 0;
  EXPECT_THAT(FormatTable("cuda", {&result, 1}), ::testing::Not(::testing::HasSubstr("bound")));
}

TEST(ReportTest, ColumnsNameTheDevicesIfTheyDiffer) {
  const StepResult results[] = {Example()};
  const std::string table = FormatTable("cuda", results);
  EXPECT_THAT(table, ::testing::HasSubstr("| cotan on cuda µs (min) "));
  EXPECT_THAT(table, ::testing::HasSubstr("| eager on cpu µs (min) "));
}

}  // namespace
}  // namespace cotan::testing
