// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/source/device_library.h"

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace cotan::cuda {
namespace {

TEST(DeviceLibraryTest, HeadersAreEmbeddedByName) {
  EXPECT_TRUE(absl::StrContains(DeviceHeader("types.cuh"), "struct bfloat16 {\n"));
  EXPECT_EQ(DeviceHeader("none.cuh"), "");
  EXPECT_EQ(DeviceLibraryDigest().size(), 64);
}

TEST(DeviceLibraryTest, EachIncludeIsReplacedOnce) {
  const absl::StatusOr<std::string> text =
      ExpandIncludes("#include \"cotan/types.cuh\"\n#include \"cotan/types.cuh\"\nint x;");
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_FALSE(absl::StrContains(*text, "#include"));
  EXPECT_EQ(text->find("struct bfloat16"), text->rfind("struct bfloat16"));
  EXPECT_TRUE(absl::StrContains(*text, "int x;\n"));
}

TEST(DeviceLibraryTest, OtherIncludesAreRefused) {
  EXPECT_EQ(ExpandIncludes("#include <cmath>").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ExpandIncludes("#include \"cotan/none.cuh\"").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace cotan::cuda
