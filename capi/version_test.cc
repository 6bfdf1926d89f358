// SPDX-License-Identifier: Apache-2.0

#include "base/version.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/dtype.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "include/cotan.h"

namespace cotan::capi {
namespace {

using ::testing::HasSubstr;

TEST(VersionTest, HeaderAndLibraryHaveOneVersion) {
  EXPECT_EQ(absl::StrCat(COTAN_VERSION_MAJOR, ".", COTAN_VERSION_MINOR, ".", COTAN_VERSION_PATCH), kVersion);
  EXPECT_STREQ(cotan_version(), kVersion);
  EXPECT_EQ(cotan_abi_version(), static_cast<uint32_t>(COTAN_ABI_VERSION));
}

TEST(VersionTest, AnotherBinaryInterfaceIsRefused) {
  EXPECT_EQ(cotan_check_abi(COTAN_ABI_VERSION), COTAN_OK);
  EXPECT_EQ(cotan_check_abi(COTAN_ABI_VERSION + 1), COTAN_FAILED_PRECONDITION);
  EXPECT_THAT(cotan_last_error(), HasSubstr("cotan_check_abi: the program was compiled with version 1"));
}

TEST(VersionTest, CodesHaveTheNumbersAndNamesOfAbsl) {
  for (int code = COTAN_OK; code <= COTAN_UNAUTHENTICATED; ++code) {
    EXPECT_EQ(cotan_status_name(code), absl::StatusCodeToString(static_cast<absl::StatusCode>(code)));
  }
  EXPECT_STREQ(cotan_status_name(-1), "UNKNOWN");
  EXPECT_STREQ(cotan_status_name(17), "UNKNOWN");
}

TEST(VersionTest, DTypesHaveTheNumbersNamesAndSizesOfTheRuntime) {
  for (int dtype = 0; dtype < kNumDTypes; ++dtype) {
    EXPECT_EQ(cotan_dtype_name(dtype), std::string(DTypeName(static_cast<DType>(dtype))));
    EXPECT_EQ(cotan_dtype_size(dtype), ByteSize(static_cast<DType>(dtype)));
  }
  EXPECT_EQ(COTAN_F8E5M2, kNumDTypes - 1);
  EXPECT_STREQ(cotan_dtype_name(COTAN_F32), "f32");
  EXPECT_STREQ(cotan_dtype_name(COTAN_I64), "i64");
  EXPECT_STREQ(cotan_dtype_name(kNumDTypes), "undefined");
  EXPECT_EQ(cotan_dtype_size(-1), 0u);
}

}  // namespace
}  // namespace cotan::capi
