// SPDX-License-Identifier: Apache-2.0

#include "kernels/reference/scalar_functions.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace cotan::reference {
namespace {

using namespace serialization;  // NOLINT: the enumerators of ScalarFn are many

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();

double Float(ScalarFn fn, double a, double b = 0) { return Apply(fn, DType::kFloat64, {a, 0}, {b, 0}, {}).f; }
int64_t Integer(ScalarFn fn, int64_t a, int64_t b = 0, DType dtype = DType::kInt64) {
  return Apply(fn, dtype, {0, a}, {0, b}, {}).i;
}

TEST(ScalarFunctionsTest, DivisionsRoundAsTheirNamesSay) {
  EXPECT_EQ(Float(FN_FLOOR_DIV, -7, 2), -4);
  EXPECT_EQ(Float(FN_TRUNC_DIV, -7, 2), -3);
  EXPECT_EQ(Float(FN_REMAINDER, -7, 2), 1);
  EXPECT_EQ(Float(FN_REMAINDER, 7, -2), -1);
  EXPECT_EQ(Float(FN_FMOD, -7, 2), -1);
  EXPECT_EQ(Integer(FN_FLOOR_DIV, -7, 2), -4);
  EXPECT_EQ(Integer(FN_TRUNC_DIV, -7, 2), -3);
  EXPECT_EQ(Integer(FN_REMAINDER, -7, 2), 1);
  EXPECT_EQ(Integer(FN_FMOD, -7, 2), -1);
}

TEST(ScalarFunctionsTest, IntegerDivisionNeverTraps) {
  for (const ScalarFn fn : {FN_FLOOR_DIV, FN_TRUNC_DIV, FN_REMAINDER, FN_FMOD}) EXPECT_EQ(Integer(fn, 5, 0), 0) << fn;
  EXPECT_EQ(Integer(FN_TRUNC_DIV, kLowest, -1), kLowest);
  EXPECT_EQ(Integer(FN_FLOOR_DIV, kLowest, -1), kLowest);
  EXPECT_EQ(Integer(FN_REMAINDER, kLowest, -1), 0);
}

TEST(ScalarFunctionsTest, IntegersWrapAtTheWidthOfTheirDType) {
  EXPECT_EQ(Integer(FN_ADD, 127, 1, DType::kInt8), -128);
  EXPECT_EQ(Integer(FN_SUB, 0, 1, DType::kUInt8), 255);
  EXPECT_EQ(Integer(FN_NEG, kLowest), kLowest);
  EXPECT_EQ(Integer(FN_ABS, -128, 0, DType::kInt8), -128);
  EXPECT_EQ(Integer(FN_POW, 2, 8, DType::kUInt8), 0);
  EXPECT_EQ(Integer(FN_POW, -1, -3), -1);
  EXPECT_EQ(Integer(FN_POW, 2, -1), 0);
}

TEST(ScalarFunctionsTest, ShiftsBeyondTheWidthLeaveNothing) {
  EXPECT_EQ(Integer(FN_SHIFT_LEFT, 1, 31, DType::kInt32), std::numeric_limits<int32_t>::min());
  EXPECT_EQ(Integer(FN_SHIFT_LEFT, 1, 32, DType::kInt32), 0);
  EXPECT_EQ(Integer(FN_SHIFT_RIGHT, -8, 1), -4);
  EXPECT_EQ(Integer(FN_SHIFT_RIGHT, -8, 64), -1);
  EXPECT_EQ(Integer(FN_SHIFT_RIGHT, 8, -1), 0);
}

TEST(ScalarFunctionsTest, NanWinsInMaximumAndLosesInFmax) {
  for (const auto& [a, b] : {std::pair{kNan, 1.0}, std::pair{1.0, kNan}}) {
    EXPECT_TRUE(std::isnan(Float(FN_MAXIMUM, a, b)));
    EXPECT_TRUE(std::isnan(Float(FN_MINIMUM, a, b)));
    EXPECT_EQ(Float(FN_FMAX, a, b), 1);
    EXPECT_EQ(Float(FN_FMIN, a, b), 1);
  }
  EXPECT_TRUE(std::isnan(Float(FN_RELU, kNan)));
}

TEST(ScalarFunctionsTest, RoundGoesToTheEvenNeighbour) {
  EXPECT_EQ(Float(FN_ROUND, 0.5), 0);
  EXPECT_EQ(Float(FN_ROUND, 1.5), 2);
  EXPECT_EQ(Float(FN_ROUND, -2.5), -2);
}

TEST(ScalarFunctionsTest, ResultsAreRoundedToTheDType) {
  EXPECT_EQ(Apply(FN_ADD, DType::kFloat32, {1, 0}, {1e-9, 0}, {}).f, 1);
  EXPECT_EQ(Apply(FN_ADD, DType::kBFloat16, {256, 0}, {1, 0}, {}).f, 256);
  EXPECT_EQ(Apply(FN_MUL, DType::kFloat16, {300, 0}, {300, 0}, {}).f, kInfinity);
}

TEST(ScalarFunctionsTest, ComparisonsAndTestsAreBools) {
  EXPECT_EQ(Apply(FN_LT, DType::kFloat32, {kNan, 0}, {1, 0}, {}).i, 0);
  EXPECT_EQ(Apply(FN_NE, DType::kFloat32, {kNan, 0}, {kNan, 0}, {}).i, 1);
  EXPECT_EQ(Apply(FN_GE, DType::kInt64, {0, 3}, {0, 3}, {}).i, 1);
  EXPECT_EQ(Apply(FN_ISNAN, DType::kFloat32, {kNan, 0}, {}, {}).i, 1);
  EXPECT_EQ(Apply(FN_ISINF, DType::kFloat32, {-kInfinity, 0}, {}, {}).i, 1);
  EXPECT_EQ(Apply(FN_BITWISE_NOT, DType::kBool, {0, 1}, {}, {}).i, 0);
}

TEST(ScalarFunctionsTest, CastsTruncateWrapAndTestForZero) {
  EXPECT_EQ(Cast(DType::kFloat32, DType::kInt32, {-2.9, 0}).i, -2);
  EXPECT_EQ(Cast(DType::kFloat64, DType::kInt64, {1e30, 0}).i, kLowest);
  EXPECT_EQ(Cast(DType::kFloat64, DType::kInt64, {kNan, 0}).i, kLowest);
  EXPECT_EQ(Cast(DType::kInt64, DType::kUInt8, {0, 257}).i, 1);
  EXPECT_EQ(Cast(DType::kInt64, DType::kFloat32, {0, 16777217}).f, 16777216);
  EXPECT_EQ(Cast(DType::kFloat32, DType::kBool, {0.25, 0}).i, 1);
  EXPECT_EQ(Cast(DType::kFloat32, DType::kBool, {-0.0, 0}).i, 0);
}

TEST(ScalarFunctionsTest, ReductionsStartAtTheirNeutralElement) {
  for (const DType dtype : {DType::kBool, DType::kUInt8, DType::kInt16, DType::kInt64, DType::kFloat32}) {
    for (const ScalarFn fn : {FN_REDUCE_SUM, FN_REDUCE_PROD, FN_REDUCE_MAX, FN_REDUCE_MIN}) {
      const Scalar value = {1, 1};
      const Scalar total = ReduceStep(fn, dtype, ReduceStart(fn, dtype), value);
      EXPECT_EQ(IsFloatingPoint(dtype) ? total.f : static_cast<double>(total.i), 1) << fn << " " << DTypeName(dtype);
    }
  }
  EXPECT_EQ(ReduceStart(FN_REDUCE_MAX, DType::kInt16).i, -32768);
  EXPECT_EQ(ReduceStart(FN_REDUCE_MIN, DType::kFloat32).f, kInfinity);
  EXPECT_TRUE(std::isnan(ReduceStep(FN_REDUCE_MAX, DType::kFloat32, {kNan, 0}, {1, 0}).f));
}

}  // namespace
}  // namespace cotan::reference
