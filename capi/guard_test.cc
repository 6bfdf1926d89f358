// SPDX-License-Identifier: Apache-2.0

#include "capi/guard.h"

#include <memory>
#include <new>
#include <stdexcept>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan::capi {
namespace {

using ::testing::HasSubstr;

TEST(GuardTest, ExceptionsBecomeCodesAndTexts) {
  EXPECT_EQ(Guarded("f", []() -> absl::Status { throw std::bad_alloc(); }), COTAN_RESOURCE_EXHAUSTED);
  EXPECT_STREQ(cotan_last_error(), "not enough memory");
  EXPECT_EQ(Guarded("f", []() -> absl::Status { throw std::runtime_error("broken"); }), COTAN_INTERNAL);
  EXPECT_STREQ(cotan_last_error(), "f: broken");
  EXPECT_EQ(Guarded("f", []() -> absl::Status { throw 1; }), COTAN_INTERNAL);
  EXPECT_STREQ(cotan_last_error(), "f: an exception of unknown type");
}

TEST(GuardTest, SuccessKeepsTheTextOfTheLastFailure) {
  EXPECT_EQ(Guarded("f", [] { return absl::NotFoundError("gone"); }), COTAN_NOT_FOUND);
  EXPECT_EQ(Guarded("g", [] { return absl::OkStatus(); }), COTAN_OK);
  EXPECT_STREQ(cotan_last_error(), "f: gone");
  EXPECT_EQ(cotan_last_error_code(), COTAN_NOT_FOUND);
}

// A struct as three versions of the header declare it.
struct First {
  size_t struct_size;
  int64_t a;
};
struct Current {
  size_t struct_size;
  int64_t a;
  int64_t b;
};
struct Next {
  size_t struct_size;
  int64_t a;
  int64_t b;
  int64_t c;
};

TEST(GuardTest, FieldsThatAnOlderCallerLacksAreZero) {
  struct {
    First first = {sizeof(First), 1};
    int64_t other = 2;  // not of the caller's struct
  } memory;
  const absl::StatusOr<Current> read =
      ReadStruct(reinterpret_cast<const Current*>(&memory.first), sizeof(First), "options");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->a, 1);
  EXPECT_EQ(read->b, 0);
}

TEST(GuardTest, FieldsOfANewerCallerMustBeZero) {
  Next next = {sizeof(Next), 1, 2, 0};
  const absl::StatusOr<Current> read = ReadStruct(reinterpret_cast<const Current*>(&next), sizeof(First), "options");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->b, 2);
  next.c = 1;
  const absl::Status status = ReadStruct(reinterpret_cast<const Current*>(&next), sizeof(First), "options").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(status.message(), HasSubstr("options has a field that cotan"));
}

// Nothing behind the struct is read.
TEST(GuardTest, AStructWhoseSizeIsNotInitializedIsRefused) {
  const auto current = std::make_unique<Current>(Current{~size_t{0} / 2, 1, 2});
  EXPECT_THAT(ReadStruct(current.get(), sizeof(First), "options").status().message(),
              HasSubstr("options.struct_size is 9223372036854775807, expected at least 16 and at most 4096"));
}

TEST(GuardTest, AStructWithoutSizeIsRefused) {
  Current current = {0, 1, 2};
  EXPECT_THAT(ReadStruct(&current, sizeof(Current), "options").status().message(),
              HasSubstr("options.struct_size is 0, expected at least 24"));
  EXPECT_EQ(WriteStruct(Current{0, 3, 4}, sizeof(Current), "info", &current).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(current.a, 1);
}

TEST(GuardTest, OnlyTheCallersBytesAreWritten) {
  struct {
    char bytes[sizeof(Current)];
    char behind[8];
  } memory;
  std::memset(&memory, 7, sizeof(memory));
  auto* out = reinterpret_cast<Current*>(memory.bytes);
  out->struct_size = sizeof(First);
  ASSERT_TRUE(WriteStruct(Current{0, 3, 4}, sizeof(First), "info", out).ok());
  EXPECT_EQ(out->a, 3);
  EXPECT_EQ(out->b, 0x0707070707070707);
  EXPECT_EQ(out->struct_size, sizeof(First));
}

}  // namespace
}  // namespace cotan::capi
