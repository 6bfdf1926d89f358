// SPDX-License-Identifier: Apache-2.0

#include "runtime/tensor/scalar.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace cotan {
namespace {

TEST(ScalarTest, EveryDTypeHoldsSmallNumbers) {
  for (int i = 1; i < kNumDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    const absl::StatusOr<std::string> bytes = EncodeScalar(1, dtype);
    ASSERT_TRUE(bytes.ok()) << DTypeName(dtype);
    EXPECT_EQ(bytes->size(), ByteSize(dtype));
    EXPECT_EQ(*DecodeScalar(*bytes, dtype), 1) << DTypeName(dtype);
  }
}

TEST(ScalarTest, NumbersAreRoundedToTheDType) {
  EXPECT_EQ(*DecodeScalar(*EncodeScalar(0.1, DType::kFloat32), DType::kFloat32), 0.1f);
  EXPECT_EQ(*DecodeScalar(*EncodeScalar(2.75, DType::kInt32), DType::kInt32), 2);
  EXPECT_EQ(*DecodeScalar(*EncodeScalar(-2.75, DType::kInt32), DType::kInt32), -2);
  EXPECT_EQ(*DecodeScalar(*EncodeScalar(1.0 + 1.0 / 256, DType::kBFloat16), DType::kBFloat16), 1.0);
}

TEST(ScalarTest, IntegersThatDoNotFitAreRefused) {
  EXPECT_TRUE(EncodeScalar(255, DType::kUInt8).ok());
  EXPECT_TRUE(EncodeScalar(-128, DType::kInt8).ok());
  EXPECT_TRUE(EncodeScalar(-9223372036854775808.0, DType::kInt64).ok());
  for (double value : {256.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(EncodeScalar(value, DType::kUInt8).status().code(), absl::StatusCode::kOutOfRange) << value;
  }
  EXPECT_FALSE(EncodeScalar(9223372036854775808.0, DType::kInt64).ok());
  EXPECT_FALSE(EncodeScalar(128, DType::kInt8).ok());
}

TEST(ScalarTest, WrongSizesAreRefused) {
  EXPECT_FALSE(DecodeScalar("abc", DType::kFloat32).ok());
  EXPECT_FALSE(EncodeScalar(1, DType::kUndefined).ok());
}

}  // namespace
}  // namespace cotan
