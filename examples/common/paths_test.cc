// SPDX-License-Identifier: Apache-2.0

#include "examples/common/paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace cotan::examples {
namespace {

TEST(FindDataFileTest, LooksBesideTheProgram) {
  const std::string program = absl::StrCat(::testing::TempDir(), "/program");
  for (const char* folder : {".runfiles", ".runfiles/cotan"}) {
    mkdir(absl::StrCat(program, folder).c_str(), 0755);
  }
  const std::string file = program + ".runfiles/cotan/data";
  std::ofstream(file) << "x";
  EXPECT_EQ(*FindDataFile(program, "data"), file);
}

TEST(FindDataFileTest, MissingFileIsNamedWithThePlaces) {
  const absl::Status status = FindDataFile("/bin/program", "no/such/file").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(status.message(), ::testing::HasSubstr("/bin/program.runfiles/cotan/no/such/file"));
}

TEST(UserPathTest, RelativePathsStartWhereBazelWasCalled) {
  unsetenv("BUILD_WORKING_DIRECTORY");
  EXPECT_EQ(UserPath("a/b"), "a/b");
  setenv("BUILD_WORKING_DIRECTORY", "/called/from", 1);
  EXPECT_EQ(UserPath("a/b"), "/called/from/a/b");
  EXPECT_EQ(UserPath("/a/b"), "/a/b");
  EXPECT_EQ(UserPath(""), "");
}

}  // namespace
}  // namespace cotan::examples
