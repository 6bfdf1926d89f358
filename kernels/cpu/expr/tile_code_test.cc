// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/expr/tile_code.h"

#include <sys/prctl.h>
#include <sys/wait.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/expr/tile_ops.h"
#include "kernels/cpu/expr/tile_ops_isa.h"

namespace cotan::cpu::expr {
namespace {

using namespace serialization;  // NOLINT: the enumerators of ScalarFn are many

class TileCodeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (BestIsa() < Isa::kAvx512) GTEST_SKIP() << "the processor has no AVX-512";
  }
};

// Runs `loop` with slots at these addresses.
void RunLoop(const TileLoop& loop, std::vector<char*> slots, char* totals = nullptr) {
  const std::vector<int64_t> no_registers(slots.size(), -1);
  const auto code = GenerateTileCode({loop}, no_registers);
  ASSERT_EQ(code->loops.size(), 1u);
  ASSERT_NE(code->loops[0], nullptr);
  code->loops[0](slots.data(), nullptr, totals);
}

template <typename T>
char* Bytes(std::vector<T>& values) {
  return reinterpret_cast<char*>(values.data());
}

// Returns floats of all exponents and signs, 1024 a tile, with infinities, NaN and subnormals.
std::vector<float> Floats(uint32_t seed, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  for (float& x : values) {
    seed = seed * 1664525u + 1013904223u;
    x = std::bit_cast<float>(seed);
    if (seed % 3 == 0) x = std::ldexp(x, 0) == x ? static_cast<float>(static_cast<int32_t>(seed)) * 4e-9f : x;
  }
  const float special[] = {0.0f,
                           -0.0f,
                           1.0f,
                           -1.0f,
                           std::numeric_limits<float>::infinity(),
                           -std::numeric_limits<float>::infinity(),
                           std::numeric_limits<float>::quiet_NaN(),
                           std::numeric_limits<float>::denorm_min(),
                           1e-39f,
                           -1e-39f,
                           88.5f,
                           -104.0f};
  for (size_t k = 0; k < std::size(special) && k < values.size(); ++k) values[k] = special[k];
  return values;
}

// Expects the same bits, or NaN in both.
void ExpectSame(const std::vector<float>& actual, const std::vector<float>& expected, const std::vector<float>& x) {
  for (size_t k = 0; k < actual.size(); ++k) {
    if (std::isnan(expected[k]) && std::isnan(actual[k])) continue;
    ASSERT_EQ(std::bit_cast<uint32_t>(actual[k]), std::bit_cast<uint32_t>(expected[k]))
        << "of " << x[k] << ": " << actual[k] << " instead of " << expected[k];
  }
}

struct FunctionCase {
  LoopFn loop_fn;
  ScalarFn fn;
};

TEST_F(TileCodeTest, FunctionsHaveTheBitsOfTheTileFunctions) {
  const FunctionCase cases[] = {
      {LoopFn::kNeg, FN_NEG},           {LoopFn::kAbs, FN_ABS},     {LoopFn::kRelu, FN_RELU},
      {LoopFn::kSqrt, FN_SQRT},         {LoopFn::kRsqrt, FN_RSQRT}, {LoopFn::kReciprocal, FN_RECIPROCAL},
      {LoopFn::kExp, FN_EXP},           {LoopFn::kExpm1, FN_EXPM1}, {LoopFn::kLog, FN_LOG},
      {LoopFn::kLog1p, FN_LOG1P},       {LoopFn::kTanh, FN_TANH},   {LoopFn::kErf, FN_ERF},
      {LoopFn::kLogistic, FN_LOGISTIC},
  };
  for (const FunctionCase& c : cases) {
    SCOPED_TRACE(ScalarFn_Name(c.fn));
    const TileFn expected_fn = Avx512TileOps().find(c.fn, DType::kFloat32, 0);
    for (const int64_t count : {1024, 37, 5}) {
      for (uint32_t seed = 0; seed < 200; ++seed) {
        std::vector<float> x = Floats(seed, count);
        std::vector<float> actual(x.size()), expected(x.size());
        TileLoop loop{.cols = count,
                      .ops = {{.fn = LoopFn::kLoad, .slot = 0},
                              {.fn = c.loop_fn, .args = {0, -1, -1}},
                              {.fn = LoopFn::kStore, .slot = 1, .args = {1, -1, -1}}}};
        ASSERT_NO_FATAL_FAILURE(RunLoop(loop, {Bytes(x), Bytes(actual)}));
        expected_fn(expected.data(), x.data(), nullptr, nullptr, count);
        ASSERT_NO_FATAL_FAILURE(ExpectSame(actual, expected, x));
      }
    }
  }
}

TileLoop CopyLoop(int64_t count) {
  return {.cols = count,
          .ops = {{.fn = LoopFn::kLoad, .slot = 0}, {.fn = LoopFn::kStore, .slot = 1, .args = {0, -1, -1}}}};
}

TEST_F(TileCodeTest, EqualLoopsShareTheirCode) {
  const std::vector<int64_t> no_registers = {-1, -1};
  const auto first = GenerateTileCode({CopyLoop(48)}, no_registers);
  EXPECT_EQ(GenerateTileCode({CopyLoop(48)}, no_registers), first);
  EXPECT_NE(GenerateTileCode({CopyLoop(64)}, no_registers), first);
}

TEST_F(TileCodeTest, LoopsThatNeedTooManyRegistersHaveNoCode) {
  std::vector<int64_t> no_registers;
  TileLoop loop{.cols = 64};
  for (int k = 0; k < 40; ++k) {
    no_registers.push_back(-1);
    loop.ops.push_back({.fn = LoopFn::kLoad, .slot = static_cast<uint16_t>(k)});
  }
  const auto code = GenerateTileCode({loop, CopyLoop(64)}, no_registers);
  EXPECT_EQ(code->loops[0], nullptr);
  EXPECT_NE(code->loops[1], nullptr);
}

#ifdef PR_SET_MDWE
TEST_F(TileCodeTest, ThereIsNoCodeWhereTheSystemRefusesMemoryForIt) {
  // In a process of its own, because a policy cannot be taken back.
  const auto try_to_generate = [] {
    if (::prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) != 0) std::_Exit(2);  // older than Linux 6.3
    const std::vector<int64_t> no_registers = {-1, -1};
    std::_Exit(GenerateTileCode({CopyLoop(80)}, no_registers)->loops[0] == nullptr ? 0 : 1);
  };
  EXPECT_EXIT(
      try_to_generate(), [](int status) { return WIFEXITED(status) && WEXITSTATUS(status) != 1; }, "");
}
#endif

}  // namespace
}  // namespace cotan::cpu::expr
