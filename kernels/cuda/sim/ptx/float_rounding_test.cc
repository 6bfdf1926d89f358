// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/ptx/float_rounding.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include "gtest/gtest.h"

namespace cotan::cuda::ptx {
namespace {

constexpr ScalarType kHalf = {TypeClass::kFloat, 16};
constexpr ScalarType kBfloat = {TypeClass::kBfloat, 16};
constexpr ScalarType kSingle = {TypeClass::kFloat, 32};

TEST(FloatRoundingTest, HalvesSurviveDecodingAndEncoding) {
  for (const ScalarType type : {kHalf, kBfloat}) {
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      const double value = DecodeFloat(bits, type);
      for (const Rounding rounding : {Rounding::kNearestEven, Rounding::kZero, Rounding::kDown, Rounding::kUp}) {
        EXPECT_EQ(EncodeFloat(value, type, rounding), std::isnan(value) ? 0x7fff : bits);
      }
    }
  }
}

#ifdef __aarch64__
using CompilerHalf = __fp16;  // GCC 12 has no _Float16 for C++ there
#else
using CompilerHalf = _Float16;
#endif

TEST(FloatRoundingTest, AgreesWithTheCompiler) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 100000; ++i) {
    const auto value = static_cast<float>(std::bit_cast<float>(static_cast<uint32_t>(random())));
    if (std::isnan(value)) continue;
    const auto half = std::bit_cast<uint16_t>(static_cast<CompilerHalf>(value));
    EXPECT_EQ(EncodeFloat(value, kHalf, Rounding::kNearestEven), half) << value;
  }
}

TEST(FloatRoundingTest, RoundsSumsAndProductsOfSinglesAsTheProcessor) {
  std::mt19937_64 random(2);
  const auto draw = [&] {
    return std::ldexp(static_cast<float>(static_cast<int32_t>(random())), static_cast<int>(random() % 60) - 60);
  };
  for (const Rounding rounding : {Rounding::kNearestEven, Rounding::kZero, Rounding::kDown, Rounding::kUp}) {
    for (int i = 0; i < 20000; ++i) {
      const volatile float a = draw(), b = draw(), c = draw();
      float sum, fused, quotient, root;
      {
        const ScopedRounding scoped(rounding);
        const volatile float s = a + b, f = std::fma(a, b, c), q = a / b, r = std::sqrt(std::fabs(a));
        sum = s, fused = f, quotient = q, root = r;
      }
      EXPECT_EQ(EncodeFloat(AddToOdd(a, b), kSingle, rounding), std::bit_cast<uint32_t>(sum));
      EXPECT_EQ(EncodeFloat(FmaToOdd(a, b, c), kSingle, rounding), std::bit_cast<uint32_t>(fused));
      EXPECT_EQ(EncodeFloat(DivideToOdd(a, b), kSingle, rounding), std::bit_cast<uint32_t>(quotient));
      EXPECT_EQ(EncodeFloat(SqrtToOdd(std::fabs(a)), kSingle, rounding), std::bit_cast<uint32_t>(root));
    }
  }
}

TEST(FloatRoundingTest, RoundsOverflow) {
  EXPECT_EQ(EncodeFloat(65520.0, kHalf, Rounding::kNearestEven), 0x7c00);
  EXPECT_EQ(EncodeFloat(65519.0, kHalf, Rounding::kNearestEven), 0x7bff);
  EXPECT_EQ(EncodeFloat(1e9, kHalf, Rounding::kZero), 0x7bff);
  EXPECT_EQ(EncodeFloat(-1e9, kHalf, Rounding::kUp), 0xfbff);
  EXPECT_EQ(EncodeFloat(-1e9, kHalf, Rounding::kDown), 0xfc00);
}

TEST(FloatRoundingTest, RoundsWideIntegers) {
  // 2^24 + 1 + 2^-… cannot be seen in a double; the odd bit keeps it above the tie.
  const uint64_t value = (uint64_t{1} << 62) + (uint64_t{1} << 38) + 1;
  EXPECT_EQ(EncodeFloat(IntegerToOdd(value, true), kSingle, Rounding::kNearestEven),
            std::bit_cast<uint32_t>(static_cast<float>(static_cast<int64_t>(value))));
  EXPECT_EQ(EncodeFloat(IntegerToOdd(~uint64_t{0}, false), kSingle, Rounding::kZero),
            std::bit_cast<uint32_t>(std::nextafter(0x1p64f, 0.0f)));
}

}  // namespace
}  // namespace cotan::cuda::ptx
