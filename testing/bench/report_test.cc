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
  return result;
}

TEST(ReportTest, JsonHasTheDocumentedKeys) {
  EXPECT_EQ(FormatJson("cpu", Example()),
            R"({"model": "mlp", "device": "cpu", "threads": 2, "cotan_us": 100.00, "eager_us": 250.00, )"
            R"("ratio": 2.500, "cotan_peak_bytes": 3145728, "eager_peak_bytes": 6291456, "first_step_ms": 1.500})");
}

TEST(ReportTest, TableHasALineForEachResult) {
  const StepResult results[] = {Example(), Example()};
  const std::string table = FormatTable("cpu", results);
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 4);
  EXPECT_THAT(table, ::testing::HasSubstr(" 2.50 |"));
  EXPECT_THAT(table, ::testing::HasSubstr(" 3.00 |"));
  EXPECT_THAT(table, ::testing::HasSubstr("| eager µs (min) "));
}

TEST(ReportTest, ColumnsNameTheDevicesIfTheyDiffer) {
  const StepResult results[] = {Example()};
  const std::string table = FormatTable("cuda", results);
  EXPECT_THAT(table, ::testing::HasSubstr("| cotan on cuda µs (min) "));
  EXPECT_THAT(table, ::testing::HasSubstr("| eager on cpu µs (min) "));
}

}  // namespace
}  // namespace cotan::testing
