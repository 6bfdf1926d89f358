// SPDX-License-Identifier: Apache-2.0

#include "base/dtype.h"

#include <limits>

#include "gtest/gtest.h"

namespace cotan {
namespace {

TEST(DTypeTest, NamesRoundTrip) {
  for (int i = 1; i < kNumDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    const absl::StatusOr<DType> parsed = ParseDType(DTypeName(dtype));
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, dtype);
  }
}

TEST(DTypeTest, UnknownNameListsTheKnownOnes) {
  const absl::Status status = ParseDType("f8").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("bf16"), absl::string_view::npos);
}

TEST(DTypeTest, EpsilonIsThatOfTheFormat) {
  EXPECT_EQ(Epsilon(DType::kFloat32), std::numeric_limits<float>::epsilon());
  EXPECT_EQ(Epsilon(DType::kFloat64), std::numeric_limits<double>::epsilon());
  EXPECT_EQ(Epsilon(DType::kBFloat16), 0.0078125);
  EXPECT_EQ(Epsilon(DType::kInt64), 0);
  EXPECT_EQ(Epsilon(DType::kFloat8E4m3fn), 0.125);
  EXPECT_EQ(Epsilon(DType::kFloat8E5m2), 0.25);
}

TEST(DTypeTest, OnlyTheEightBitFloatsAreForStorageAlone) {
  for (int i = 0; i < kNumDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(IsStorageOnly(dtype), IsFloatingPoint(dtype) && ByteSize(dtype) == 1) << DTypeName(dtype);
  }
}

TEST(DTypeTest, OutOfRangeValueIsUndefined) { EXPECT_EQ(ByteSize(static_cast<DType>(200)), 0u); }

}  // namespace
}  // namespace cotan
