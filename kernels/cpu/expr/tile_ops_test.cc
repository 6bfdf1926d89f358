// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/expr/tile_ops.h"

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/float8.h"
#include "base/half.h"
#include "base/philox.h"
#include "gtest/gtest.h"
#include "kernels/api/expr_program.h"

namespace cotan::cpu::expr {
namespace {

using namespace serialization;  // NOLINT

constexpr DType kRegisterDTypes[] = {DType::kBool,  DType::kUInt8, DType::kInt8,    DType::kInt16,
                                     DType::kInt32, DType::kInt64, DType::kFloat32, DType::kFloat64};
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Returns the error in units in the last place of the exact result.
double UlpError(float actual, double exact) {
  if (std::isnan(exact)) return std::isnan(actual) ? 0 : INFINITY;
  const auto rounded = static_cast<float>(exact);
  if (actual == rounded) return 0;
  if (!std::isfinite(rounded) || !std::isfinite(actual)) return INFINITY;
  const double ulp = std::max<double>(std::abs(std::nextafter(rounded, kInfinity) - rounded),
                                      std::numeric_limits<float>::denorm_min());
  return std::abs(actual - exact) / ulp;
}

class TileOpsTest : public ::testing::TestWithParam<const TileOps*> {
 protected:
  const TileOps& ops() const { return *GetParam(); }

  std::vector<float> Apply(ScalarFn fn, std::vector<float> x) {
    std::vector<float> y(x.size());
    ops().find(fn, DType::kFloat32, 0)(y.data(), x.data(), nullptr, nullptr, static_cast<int64_t>(x.size()));
    return y;
  }

  // Expects an error of at most `limit` ulp over a dense sweep of [low, high] and a logarithmic sweep near 0.
  void ExpectAccurate(ScalarFn fn, double (*exact)(double), float low, float high, double limit = 4) {
    std::vector<float> x;
    for (int i = 0; i <= 40'000; ++i) x.push_back(low + (high - low) * static_cast<float>(i) / 40'000);
    float v = 1e-30f;
    while (v < 1e3f) {
      if (v <= high) x.push_back(v);
      if (-v >= low) x.push_back(-v);
      v *= 1.01f;
    }
    const std::vector<float> y = Apply(fn, x);
    double worst = 0;
    float at = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double error = UlpError(y[i], exact(x[i]));
      if (error > worst) {
        worst = error;
        at = x[i];
      }
    }
    EXPECT_LE(worst, limit) << ExprFnName(fn) << " at " << at;
  }
};

TEST_P(TileOpsTest, TranscendentalsAreAccurate) {
  ExpectAccurate(FN_EXP, std::exp, -87, 88.7f);
  ExpectAccurate(FN_EXPM1, std::expm1, -87, 88.7f);
  ExpectAccurate(FN_LOG, std::log, 0, 1e6f);
  ExpectAccurate(FN_LOG, std::log, 0.5f, 2);
  ExpectAccurate(FN_LOG1P, std::log1p, -0.999999f, 100);
  ExpectAccurate(FN_LOG1P, std::log1p, -0.5f, 0.5f);
  ExpectAccurate(FN_TANH, std::tanh, -12, 12);
  ExpectAccurate(FN_ERF, std::erf, -5, 5, 6);  // see Erf()
  ExpectAccurate(FN_ERF, std::erf, -1, 1);
  ExpectAccurate(
      FN_LOGISTIC, [](double x) { return 1 / (1 + std::exp(-x)); }, -80, 80);
  ExpectAccurate(FN_SIN, std::sin, -100, 100);
  ExpectAccurate(FN_COS, std::cos, -100, 100);
  ExpectAccurate(FN_SIN, std::sin, -99'000, 99'000);
  ExpectAccurate(FN_COS, std::cos, 1e5f, 1e7f);
}

TEST_P(TileOpsTest, TranscendentalsAtTheEdges) {
  EXPECT_EQ(Apply(FN_EXP, {-kInfinity, kInfinity, -200, 200, 0}), (std::vector<float>{0, kInfinity, 0, kInfinity, 1}));
  EXPECT_EQ(Apply(FN_EXPM1, {-kInfinity, kInfinity, 0}), (std::vector<float>{-1, kInfinity, 0}));
  EXPECT_EQ(Apply(FN_LOG, {0, kInfinity, 1}), (std::vector<float>{-kInfinity, kInfinity, 0}));
  EXPECT_EQ(Apply(FN_LOG1P, {-1, kInfinity, 0}), (std::vector<float>{-kInfinity, kInfinity, 0}));
  EXPECT_EQ(Apply(FN_TANH, {-kInfinity, kInfinity, 0}), (std::vector<float>{-1, 1, 0}));
  EXPECT_EQ(Apply(FN_ERF, {-kInfinity, kInfinity, 0}), (std::vector<float>{-1, 1, 0}));
  EXPECT_EQ(Apply(FN_LOGISTIC, {-kInfinity, kInfinity, 0}), (std::vector<float>{0, 1, 0.5f}));
  EXPECT_NEAR(Apply(FN_LOG, {1e-40f})[0], std::log(1e-40f), 1e-5);
  EXPECT_NEAR(Apply(FN_EXP, {-100})[0], 3.78e-44, 2e-45);
  EXPECT_GT(Apply(FN_EXP, {-103.9f})[0], 0);
  EXPECT_EQ(Apply(FN_EXP, {-104, -104.5f, -500, -999, -1000, -1e9f}), std::vector<float>(6, 0));
  for (const ScalarFn fn : {FN_EXP, FN_EXPM1, FN_LOG, FN_LOG1P, FN_TANH, FN_ERF, FN_LOGISTIC, FN_SIN, FN_COS}) {
    EXPECT_TRUE(std::isnan(Apply(fn, {kNan})[0])) << ExprFnName(fn);
  }
  EXPECT_TRUE(std::isnan(Apply(FN_LOG, {-1})[0]));
  EXPECT_TRUE(std::isnan(Apply(FN_SIN, {kInfinity})[0]));
}

TEST_P(TileOpsTest, EveryFunctionThatADTypeAllowsIsThere) {
  const auto expect = [&](ScalarFn fn, DType dtype) {
    EXPECT_NE(ops().find(fn, dtype, 0), nullptr) << ExprFnName(fn) << " of " << DTypeName(dtype);
  };
  for (int fn = FN_NEG; fn <= FN_SELECT; ++fn) {
    if (!ScalarFn_IsValid(fn) || fn == FN_GT || fn == FN_GE) continue;
    const auto scalar_fn = static_cast<ScalarFn>(fn);
    const bool bitwise = (fn >= FN_AND && fn <= FN_SHIFT_RIGHT) || fn == FN_BITWISE_NOT || fn == FN_LOGICAL_NOT;
    if (!bitwise) {
      expect(scalar_fn, DType::kFloat32);
      expect(scalar_fn, DType::kFloat64);
    }
  }
  for (const DType dtype : {DType::kUInt8, DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64}) {
    for (const ScalarFn fn :
         {FN_NEG,       FN_ABS,       FN_SIGN, FN_RELU, FN_BITWISE_NOT, FN_ADD,         FN_SUB,   FN_MUL, FN_FLOOR_DIV,
          FN_TRUNC_DIV, FN_REMAINDER, FN_FMOD, FN_POW,  FN_MAXIMUM,     FN_MINIMUM,     FN_EQ,    FN_NE,  FN_LT,
          FN_LE,        FN_AND,       FN_OR,   FN_XOR,  FN_SHIFT_LEFT,  FN_SHIFT_RIGHT, FN_SELECT}) {
      expect(fn, dtype);
    }
  }
  for (const ScalarFn fn : {FN_LOGICAL_NOT, FN_BITWISE_NOT, FN_ADD, FN_MUL, FN_MAXIMUM, FN_MINIMUM, FN_EQ, FN_NE, FN_LT,
                            FN_LE, FN_AND, FN_OR, FN_XOR, FN_SELECT}) {
    expect(fn, DType::kBool);
  }
  for (const DType from : kRegisterDTypes) {
    for (const DType to : kRegisterDTypes) EXPECT_NE(ops().find_cast(from, to), nullptr);
  }
}

TEST_P(TileOpsTest, ContractionsAreProductsAndSums) {
  const float a[] = {2, 3, -4}, b[] = {5, 0.5, 8}, c[] = {1, -2, 0.25};
  const auto run = [&](Contraction contraction, int scalars) {
    std::vector<float> out(3);
    GetParam()->find_contraction(contraction, DType::kFloat32, scalars)(out.data(), a, b, c, 3);
    return out;
  };
  EXPECT_EQ(run(Contraction::kMulAdd, 0), (std::vector<float>{11, -0.5, -31.75}));
  EXPECT_EQ(run(Contraction::kMulSub, 1), (std::vector<float>{9, 3, 15.75}));
  EXPECT_EQ(run(Contraction::kSubMul, 4), (std::vector<float>{-9, -0.5, 33}));
  EXPECT_EQ(run(Contraction::kMulAdd, 5), (std::vector<float>{11, 2, 17}));
  EXPECT_EQ(GetParam()->find_contraction(Contraction::kMulAdd, DType::kInt32, 0), nullptr);
}

TEST_P(TileOpsTest, HalfConversionsAgreeWithBase) {
  std::mt19937 random(1);
  std::vector<float> values = {0.0f, -0.0f, 65504, 65519, 65520, -65536, 1e-8f, 6e-8f, 3e-5f, kInfinity, -kInfinity};
  for (int i = 0; i < 50'000; ++i) values.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  const auto n = static_cast<int64_t>(values.size());
  std::vector<uint16_t> stored(values.size());
  std::vector<float> loaded(values.size()), rounded(values.size());
  for (const bool brain : {false, true}) {
    const DType dtype = brain ? DType::kBFloat16 : DType::kFloat16;
    ops().find_store(dtype)(stored.data(), values.data(), 1, n, 0, 1);
    ops().find_load(dtype)(loaded.data(), stored.data(), 1, n, 0, 1);
    ops().find_round(dtype)(rounded.data(), values.data(), nullptr, nullptr, n);
    for (size_t i = 0; i < values.size(); ++i) {
      const float exact =
          brain ? BFloat16ToFloat(FloatToBFloat16(values[i])) : Float16ToFloat(FloatToFloat16(values[i]));
      if (std::isnan(exact)) {
        ASSERT_TRUE(std::isnan(loaded[i]) && std::isnan(rounded[i])) << values[i];
      } else {
        ASSERT_EQ(loaded[i], exact) << values[i];
        ASSERT_EQ(rounded[i], exact) << values[i];
      }
    }
  }
}

TEST_P(TileOpsTest, Float8ConversionsAgreeWithBase) {
  std::mt19937 random(1);
  std::vector<float> values = {0.0f,    -0.0f,   448,       449,        464,    465,    480,
                               -1e9f,   57344,   61439,     61440,      65536,  1e-3f,  2e-6f,
                               7.6e-6f, 7.7e-6f, kInfinity, -kInfinity, 1e-30f, 1e-40f, 0.0156f};
  for (uint32_t half = 0; half < 0x10000; ++half) values.push_back(BFloat16ToFloat(static_cast<uint16_t>(half)));
  for (int i = 0; i < 200'000; ++i) values.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  const auto n = static_cast<int64_t>(values.size());
  std::vector<uint8_t> stored(values.size());
  std::vector<float> loaded(values.size()), rounded(values.size());
  for (const bool e4m3 : {false, true}) {
    const DType dtype = e4m3 ? DType::kFloat8E4m3fn : DType::kFloat8E5m2;
    ops().find_store(dtype)(stored.data(), values.data(), 1, n, 0, 1);
    ops().find_load(dtype)(loaded.data(), stored.data(), 1, n, 0, 1);
    ops().find_round(dtype)(rounded.data(), values.data(), nullptr, nullptr, n);
    for (size_t i = 0; i < values.size(); ++i) {
      const uint8_t bits = e4m3 ? FloatToFloat8E4m3fn(values[i]) : FloatToFloat8E5m2(values[i]);
      const float exact = e4m3 ? Float8E4m3fnToFloat(bits) : Float8E5m2ToFloat(bits);
      ASSERT_EQ(stored[i], bits) << values[i];
      if (std::isnan(exact)) {
        ASSERT_TRUE(std::isnan(loaded[i]) && std::isnan(rounded[i])) << values[i];
      } else {
        ASSERT_EQ(std::bit_cast<uint32_t>(loaded[i]), std::bit_cast<uint32_t>(exact)) << values[i];
        ASSERT_EQ(std::bit_cast<uint32_t>(rounded[i]), std::bit_cast<uint32_t>(exact)) << values[i];
      }
    }
  }
}

TEST_P(TileOpsTest, DrawsArePhilox) {
  const uint64_t seed = 0x123456789abcdefu;
  const uint64_t first = 0xffffffffu - 5;  // the counter's low word overflows
  for (const int64_t start : {0, 1, 3, 4, 63, 64, 1000}) {
    for (const int64_t count : {1, 3, 64, 65, 200}) {
      std::vector<float> out(static_cast<size_t>(count));
      ops().random(out.data(), {seed, first, start, 1, count, 0, 1});
      for (int64_t i = 0; i < count; ++i) {
        const auto element = static_cast<uint64_t>(start + i);
        ASSERT_EQ(out[static_cast<size_t>(i)], UniformFloat(Philox(seed, first + element / 4).lane[element % 4]));
      }
    }
  }
}

TEST_P(TileOpsTest, DrawsOfAnyStridesArePhilox) {
  const uint64_t seed = 0x123456789abcdefu;
  const uint64_t first = 77;
  struct Tile {
    int64_t rows, cols, row_stride, col_stride;
  };
  const Tile tiles[] = {
      {3, 5, 5, 1},    {2, 100, 300, 1},  // along the columns
      {100, 3, 1, 40}, {9, 16, 1, 1000},  // along the rows
      {7, 9, 50, 3},   {5, 4, 2, 11},    {1, 33, 0, 2}, {4, 1, 64, 7},
  };
  for (const Tile& tile : tiles) {
    for (const int64_t start : {0, 2, 4, 999}) {
      std::vector<float> out(static_cast<size_t>(tile.rows * tile.cols), -1.0f);
      ops().random(out.data(), {seed, first, start, tile.rows, tile.cols, tile.row_stride, tile.col_stride});
      for (size_t i = 0; i < out.size(); ++i) {
        const auto row = static_cast<int64_t>(i) / tile.cols;
        const auto col = static_cast<int64_t>(i) % tile.cols;
        const auto element = static_cast<uint64_t>(start + row * tile.row_stride + col * tile.col_stride);
        ASSERT_EQ(out[i], UniformFloat(Philox(seed, first + element / 4).lane[element % 4])) << i;
      }
    }
  }
}

TEST_P(TileOpsTest, SumsOfLongRunsAreAccurate) {
  std::mt19937 random(2);
  std::vector<float> x(1024);
  double exact = 0;
  double magnitude = 0;
  for (float& v : x) {
    v = static_cast<float>(random()) * 0x1p-32f;
    exact += v;
    magnitude += std::abs(v);
  }
  const ReduceFns sum = ops().find_reduce(FN_REDUCE_SUM, DType::kFloat32);
  for (const int64_t cols : {1, 3, 16, 100, 1024}) {
    const int64_t rows = 1024 / cols;
    double by_rows = 0, by_cols = 0;
    std::vector<double> totals(1024);
    sum.init(totals.data(), 1024);
    sum.rows(totals.data(), x.data(), rows, cols);
    for (const double total : totals) by_rows += total;
    sum.init(totals.data(), 1024);
    sum.cols(totals.data(), x.data(), rows, cols);
    for (const double total : totals) by_cols += total;
    double part = 0;
    for (int64_t i = 0; i < rows * cols; ++i) part += x[static_cast<size_t>(i)];
    EXPECT_NEAR(by_rows, part, 4 * 0x1p-24 * magnitude) << cols;
    EXPECT_NEAR(by_cols, part, 4 * 0x1p-24 * magnitude) << cols;
  }
}

// Rows and columns of every remainder of a vector, with as many rows as a vector has lanes and fewer.
TEST_P(TileOpsTest, ReductionsOfAnyTileAreExact) {
  std::mt19937 random(3);
  std::vector<float> x(kMaxTile), y(kMaxTile);  // small integers: every order of additions gives the same sum
  for (float& v : x) v = static_cast<float>(random() % 17) - 8;
  for (float& v : y) v = static_cast<float>(random() % 9) - 4;
  const ReduceFns sum = ops().find_reduce(FN_REDUCE_SUM, DType::kFloat32);
  const ReduceFns max = ops().find_reduce(FN_REDUCE_MAX, DType::kFloat32);
  for (const int64_t cols : {1, 2, 3, 5, 7, 8, 10, 15, 16, 17, 31, 33, 49, 63, 64, 65, 100, 200, 768, 1000, 1024}) {
    for (const int64_t rows :
         {int64_t{1}, int64_t{2}, int64_t{5}, int64_t{15}, int64_t{16}, int64_t{33}, kMaxTile / cols}) {
      if (rows * cols > kMaxTile) continue;
      std::vector<double> row(kMaxTile), col(kMaxTile), row_product(kMaxTile), col_product(kMaxTile);
      std::vector<float> row_max(kMaxTile), col_max(kMaxTile);
      max.init(row_max.data(), kMaxTile);
      max.init(col_max.data(), kMaxTile);
      std::vector<double> row2 = row, col2 = col, row_product2 = row, col_product2 = col;
      std::vector<float> row_max2 = row_max, col_max2 = col_max;
      sum.rows(row.data(), x.data(), rows, cols);
      sum.cols(col.data(), x.data(), rows, cols);
      sum.row_products(row_product.data(), x.data(), y.data(), rows, cols);
      sum.col_products(col_product.data(), x.data(), y.data(), rows, cols);
      max.rows(row_max.data(), x.data(), rows, cols);
      max.cols(col_max.data(), x.data(), rows, cols);
      for (int64_t i = 0; i < rows * cols; ++i) {
        const auto r = static_cast<size_t>(i / cols), c = static_cast<size_t>(i % cols), k = static_cast<size_t>(i);
        row2[r] += x[k];
        col2[c] += x[k];
        row_product2[r] += x[k] * y[k];
        col_product2[c] += x[k] * y[k];
        row_max2[r] = std::max(row_max2[r], x[k]);
        col_max2[c] = std::max(col_max2[c], x[k]);
      }
      SCOPED_TRACE(testing::Message() << rows << " x " << cols);
      ASSERT_EQ(row, row2);
      ASSERT_EQ(col, col2);
      ASSERT_EQ(row_product, row_product2);
      ASSERT_EQ(col_product, col_product2);
      ASSERT_EQ(row_max, row_max2);
      ASSERT_EQ(col_max, col_max2);
    }
  }
}

// The product is rounded, as if it were stored: (1 + e)^2 - (1 + 2e) is 0, not e^2.
TEST_P(TileOpsTest, SumsOfProductsRoundTheProducts) {
  const float e = 0x1p-13f;
  const ReduceFns sum = ops().find_reduce(FN_REDUCE_SUM, DType::kFloat32);
  for (const int64_t n : {2, 40, 128, 1024}) {
    std::vector<float> a(static_cast<size_t>(n), 1 + e), b(static_cast<size_t>(n), 1 + e);
    for (size_t i = a.size() / 2; i < a.size(); ++i) {
      a[i] = -1;
      b[i] = 1 + 2 * e;
    }
    double rows = 0;
    sum.row_products(&rows, a.data(), b.data(), 1, n);
    EXPECT_EQ(rows, 0) << n;
    double cols = 0;
    sum.col_products(&cols, a.data(), b.data(), n, 1);
    EXPECT_EQ(cols, 0) << n;
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, TileOpsTest, ::testing::ValuesIn(RunnableTileOps().begin(), RunnableTileOps().end()),
                         [](const auto& info) { return info.param->name; });

}  // namespace
}  // namespace cotan::cpu::expr
