// SPDX-License-Identifier: Apache-2.0

#include "runtime/tools/reduce.h"

#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/testing/program_builder.h"
#include "runtime/tools/run_process.h"

namespace cotan::tools {
namespace {

using ::testing::HasSubstr;
using testing::LinearRegression;

int CountMatmuls(absl::string_view bytes) {
  const auto program = Program::LoadBytes(std::string(bytes));
  EXPECT_TRUE(program.ok()) << program.status();
  int count = 0;
  for (const auto& op : (*program)->method(0).ops()) count += op.has_matmul() ? 1 : 0;
  return count;
}

TEST(ReduceTest, OneOpOfTheKindRemains) {
  int asked = 0;
  const auto has_matmul = [&](absl::string_view bytes) -> absl::StatusOr<bool> {
    ++asked;
    return CountMatmuls(bytes) > 0;
  };
  for (const int batch : {0, 8}) {
    asked = 0;
    const Reduction reduction = *Reduce(*LinearRegression(batch).Load(), "train_step", has_matmul);
    EXPECT_EQ(CountMatmuls(reduction.bytes), 1);
    EXPECT_EQ(reduction.candidates, asked);
    EXPECT_LE(reduction.num_ops, batch == 0 ? 3 : 1);
    EXPECT_EQ((*Program::LoadBytes(reduction.bytes))->artifact().methods_size(), 1);
  }
}

TEST(ReduceTest, UpdatesThatMatterRemain) {
  const auto updates_step = [](absl::string_view bytes) -> absl::StatusOr<bool> {
    const auto program = *Program::LoadBytes(std::string(bytes));
    for (const auto& update : program->method(0).state_updates()) {
      if (program->state(static_cast<int>(update.state())).name() == "step") return true;
    }
    return false;
  };
  const Reduction reduction = *Reduce(*LinearRegression().Load(), "train_step", updates_step);
  const auto program = *Program::LoadBytes(reduction.bytes);
  EXPECT_EQ(program->method(0).state_updates_size(), 1);
  EXPECT_EQ(program->method(0).outputs_size(), 0);
  EXPECT_EQ(reduction.num_ops, 0);
}

TEST(ReduceTest, AForwardLosesItsSavedValues) {
  const auto always = [](absl::string_view) -> absl::StatusOr<bool> { return true; };
  EXPECT_EQ(Reduce(*LinearRegression().Load(), "forward", always)->num_ops, 0);
}

TEST(ReduceTest, MistakesAreExplained) {
  const auto never = [](absl::string_view) -> absl::StatusOr<bool> { return false; };
  const absl::Status status = Reduce(*LinearRegression().Load(), "eval", never).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("does not fail for method 'eval'"));
  EXPECT_EQ(Reduce(*LinearRegression().Load(), "none", never).status().code(), absl::StatusCode::kNotFound);
}

TEST(RunProcessTest, ReturnsTheStatusOfTheProgram) {
  EXPECT_EQ(*RunProcess({"sh", "-c", "exit 7"}), 7);
  EXPECT_EQ(*RunProcess({"sh", "-c", "kill -9 $$"}), 128 + 9);
  EXPECT_EQ(*RunProcess({"true"}), 0);
  EXPECT_EQ(RunProcess({"/nonexistent/program"}).status().code(), absl::StatusCode::kNotFound);
}

TEST(RunProcessTest, WritesToGivenFiles) {
  const auto file = [](absl::string_view name) {
    return std::fopen(absl::StrCat(::testing::TempDir(), "/", name).c_str(), "w+");
  };
  std::FILE* const output = file("output");
  std::FILE* const errors = file("errors");
  ASSERT_TRUE(output != nullptr && errors != nullptr);
  const std::vector<std::string> words = {"sh", "-c", "echo a; echo b >&2"};
  EXPECT_EQ(*RunProcess(words, {.output = fileno(output), .errors = fileno(errors)}), 0);
  EXPECT_EQ(*RunProcess(words, {.output = fileno(output)}), 0);
  std::fclose(output);
  std::fclose(errors);
  EXPECT_EQ(MappedFile::Open(::testing::TempDir() + "/output")->bytes(), "a\na\n");
  EXPECT_EQ(MappedFile::Open(::testing::TempDir() + "/errors")->bytes(), "b\n");
}

}  // namespace
}  // namespace cotan::tools
