// SPDX-License-Identifier: Apache-2.0

#include "aot/dump.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "aot/ir/text.h"

namespace cotan::aot {
namespace {

Graph SmallGraph() {
  return *ParseGraph(R"(graph @g {
  %0: f32[2] = user_input 0 "input.0"
  user_output 0 "output.0" = %0
}
)");
}

std::string Content(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(GraphDumpTest, NumbersTheStages) {
  const std::string folder = ::testing::TempDir() + "/dump/new";
  GraphDump dump(folder, "eval");
  dump.Write("trace", SmallGraph());
  dump.Function()("lower", SmallGraph());
  ASSERT_TRUE(dump.status().ok()) << dump.status();
  EXPECT_EQ(Content(folder + "/eval.00.trace.txt"), PrintGraph(SmallGraph()));
  EXPECT_EQ(Content(folder + "/eval.01.lower.txt"), PrintGraph(SmallGraph()));
}

TEST(GraphDumpTest, WritesNothingWithoutAFolder) {
  GraphDump dump("", "eval");
  dump.Write("trace", SmallGraph());
  EXPECT_TRUE(dump.status().ok());
  EXPECT_EQ(dump.Function(), nullptr);
}

TEST(GraphDumpTest, ReportsAFileThatCannotBeWritten) {
  const std::string file = ::testing::TempDir() + "/a_file";
  std::ofstream(file) << "x";
  GraphDump dump(file, "eval");
  dump.Write("trace", SmallGraph());
  EXPECT_THAT(std::string(dump.status().message()), ::testing::HasSubstr("a_file/eval.00.trace.txt"));
}

}  // namespace
}  // namespace cotan::aot
