// SPDX-License-Identifier: Apache-2.0

#include "examples/common/progress.h"

#include <gtest/gtest.h>

#include <string>

namespace cotan::examples {
namespace {

std::string ReadAll(std::FILE* file) {
  std::rewind(file);
  std::string text;
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) text += static_cast<char>(c);
  return text;
}

TEST(FormatBarTest, FillsInProportion) {
  EXPECT_EQ(FormatBar("epoch 1", 0, 4, 8, "a"), "epoch 1 [--------]   0 %  a");
  EXPECT_EQ(FormatBar("epoch 1", 1, 4, 8, "b"), "epoch 1 [##------]  25 %  b");
  EXPECT_EQ(FormatBar("epoch 1", 4, 4, 8, "c"), "epoch 1 [########] 100 %  c");
}

TEST(ProgressBarTest, FileGetsOnlyTheFinishedLine) {
  std::FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  ProgressBar bar(file, "x", 2);
  bar.Update(1, "half");
  bar.Update(2, "all");
  bar.Finish("done");
  EXPECT_EQ(ReadAll(file), "x [##############################] 100 %  done\n");
  std::fclose(file);
}

TEST(ProgressBarTest, InterruptedBarStaysWhereItGot) {
  std::FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  ProgressBar bar(file, "x", 3);
  bar.Update(1, "");
  bar.Finish("interrupted");
  EXPECT_EQ(ReadAll(file), "x [##########--------------------]  33 %  interrupted\n");
  std::fclose(file);
}

}  // namespace
}  // namespace cotan::examples
