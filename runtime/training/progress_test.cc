// SPDX-License-Identifier: Apache-2.0

#include "runtime/training/progress.h"

#include <gtest/gtest.h>
#include <pty.h>
#include <unistd.h>

#include <string>

namespace cotan::training {
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

TEST(FormatRateTest, GivesTheRateAndTheTimeLeft) {
  EXPECT_EQ(FormatRate(50, 150, 4), "12.5/s, 0:12 left");
  EXPECT_EQ(FormatRate(1, 100, 60), "0.01667/s, 1:40:00 left");
  EXPECT_EQ(FormatRate(10, 0, 1), "10/s, 0:00 left");
  EXPECT_EQ(FormatRate(0, 10, 1), "");
  EXPECT_EQ(FormatRate(1, 10, 0), "");
}

TEST(ProgressBarTest, TerminalGetsTheRate) {
  int terminal = -1, other_end = -1;
  ASSERT_EQ(::openpty(&other_end, &terminal, nullptr, nullptr, nullptr), 0);
  std::FILE* file = ::fdopen(terminal, "w");
  ASSERT_NE(file, nullptr);
  ProgressBar bar(file, "x", 4, /*done=*/1);
  bar.Update(2, "note");
  char text[256] = {};
  ASSERT_GT(::read(other_end, text, sizeof(text) - 1), 0);
  EXPECT_NE(std::string(text).find(" 50 %"), std::string::npos) << text;
  EXPECT_NE(std::string(text).find("/s, 0:00 left  note"), std::string::npos) << text;
  bar.Clear();
  text[::read(other_end, text, sizeof(text) - 1)] = '\0';
  EXPECT_EQ(std::string(text), "\r\x1b[K");
  std::fclose(file);
  ::close(other_end);
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
}  // namespace cotan::training
