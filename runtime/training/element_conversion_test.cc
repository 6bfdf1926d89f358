// SPDX-License-Identifier: Apache-2.0

#include "runtime/training/element_conversion.h"

#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan::training {
namespace {

using ::testing::ElementsAre;

template <typename From, typename To>
std::vector<To> Converted(DType from, DType to, const std::vector<From>& values, double mean = 0,
                          double deviation = 1) {
  std::vector<To> result(values.size());
  FindConversion(from, to).convert(reinterpret_cast<const char*>(values.data()), reinterpret_cast<char*>(result.data()),
                                   values.size(), mean, deviation);
  return result;
}

template <typename From>
int64_t FirstInexact(DType from, DType to, const std::vector<From>& values) {
  return FindConversion(from, to).first_inexact(reinterpret_cast<const char*>(values.data()), values.size());
}

TEST(ElementConversionTest, FloatsAreNormalizedAndIntegersKept) {
  EXPECT_THAT((Converted<uint8_t, float>(DType::kUInt8, DType::kFloat32, {0, 255}, 51, 102)), ElementsAre(-0.5f, 2));
  EXPECT_THAT((Converted<int16_t, int64_t>(DType::kInt16, DType::kInt64, {-3, 7}, 51, 102)), ElementsAre(-3, 7));
  EXPECT_THAT((Converted<double, float>(DType::kFloat64, DType::kFloat32, {0.1})), ElementsAre(0.1f));
}

TEST(ElementConversionTest, ElementsThatAnIntegerCannotHoldAreFound) {
  EXPECT_EQ((FirstInexact<double>(DType::kFloat64, DType::kInt32, {1, -2147483648.0, 2147483647.0})), -1);
  EXPECT_EQ((FirstInexact<double>(DType::kFloat64, DType::kInt32, {1, 2147483648.0})), 1);
  EXPECT_EQ((FirstInexact<double>(DType::kFloat64, DType::kInt64, {9223372036854775808.0})), 0);
  EXPECT_EQ((FirstInexact<float>(DType::kFloat32, DType::kInt64, {1, 0.5f})), 1);
  EXPECT_EQ((FirstInexact<float>(DType::kFloat32, DType::kInt64, {std::numeric_limits<float>::quiet_NaN()})), 0);
  EXPECT_EQ((FirstInexact<int64_t>(DType::kInt64, DType::kUInt8, {0, 255, 256})), 2);
  EXPECT_EQ((FirstInexact<uint8_t>(DType::kBool, DType::kBool, {0, 1, 2})), 2);
  EXPECT_EQ((FirstInexact<double>(DType::kFloat64, DType::kFloat32, {1e300})), -1);
}

TEST(ElementConversionTest, OtherDTypesHaveNone) {
  EXPECT_EQ(FindConversion(DType::kFloat16, DType::kFloat32).convert, nullptr);
  EXPECT_EQ(FindConversion(DType::kFloat32, DType::kBFloat16).convert, nullptr);
  EXPECT_EQ(FindConversion(DType::kComplex64, DType::kInt64).first_inexact, nullptr);
}

}  // namespace
}  // namespace cotan::training
