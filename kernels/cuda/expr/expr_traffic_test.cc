// SPDX-License-Identifier: Apache-2.0

// The memory traffic of the kernels of models' expressions: sectors of 32 bytes, in units of the bytes of all operands.
// Memory moves each sector once in a launch; what more the threads ask for comes from the L2 cache.
#include <functional>
#include <ostream>
#include <random>
#include <string>

#include "base/test_seed.h"
#include "gtest/gtest.h"
#include "kernels/cuda/expr/expr_case.h"
#include "kernels/cuda/expr/model_exprs.h"
#include "kernels/cuda/testing/run_plan.h"
#include "testing/tolerance.h"

namespace cotan::cuda::testing {
namespace {

using Random = std::mt19937_64;

constexpr DType kF32 = DType::kFloat32;
constexpr DType kBf16 = DType::kBFloat16;
constexpr double kOnce = 1.1;

// Sizes are small for the interpreter, so that the GPU and the wait of blocks are, too.
constexpr expr::ScheduleOptions kSmallGpu = {.processors = 1};
constexpr expr::ScheduleOptions kShared = {.processors = 16, .wait_instructions = 2000};
// No tensor is so large that blocks share its reduction.
constexpr expr::ScheduleOptions kAlone = {.wait_instructions = int64_t{1} << 40};

struct TrafficCase {
  std::string name;
  std::function<ExprCase(Random&)> make;
  expr::ScheduleOptions schedule = {};
  double bound = kOnce;
  std::string reason = {};  // if `bound` is not kOnce
};

std::ostream& operator<<(std::ostream& out, const TrafficCase& test) { return out << test.name << " " << test.reason; }

const TrafficCase kCases[] = {
    {"softmax", [](Random& r) { return Softmax(kF32, 64, 1024, r); }},
    {"softmax_bf16", [](Random& r) { return Softmax(kBf16, 64, 1024, r); }},
    {"softmax_short_rows", [](Random& r) { return Softmax(kF32, 4096, 16, r); }},
    {"cross_entropy", [](Random& r) { return CrossEntropy(64, 1000, r); }},
    {"layer_norm", [](Random& r) { return LayerNorm(kF32, 1024, 256, r); }, kSmallGpu},
    {"layer_norm_bf16", [](Random& r) { return LayerNorm(kBf16, 1024, 256, r); }, kSmallGpu},
    {"layer_norm_768", [](Random& r) { return LayerNorm(kF32, 320, 768, r); }, kSmallGpu},
    {"layer_norm_wide", [](Random& r) { return LayerNorm(kF32, 160, 1536, r); }, kSmallGpu},
    {"layer_norm_few_rows",
     [](Random& r) { return LayerNorm(kF32, 32, 768, r); },
     {},
     2.0,
     "each row has a block of its own, which fills the GPU better, and reads weight and bias from the cache"},
    {"layer_norm_backward", [](Random& r) { return LayerNormBackward(1024, 256, r); }, kSmallGpu},
    {"batch_norm",
     [](Random& r) {
       return BatchNorm({8, 16, 16, 16}, false, r);
     }},
    {"batch_norm_nhwc",
     [](Random& r) {
       return BatchNorm({8, 16, 16, 16}, true, r);
     },
     kAlone},
    {"batch_norm_nhwc_most_registers",
     [](Random& r) {
       return BatchNorm({4, 8, 32, 32}, true, r);
     },
     kAlone},
    {"batch_norm_nhwc_shared",
     [](Random& r) {
       return BatchNorm({16, 8, 32, 32}, true, r);
     },
     kShared},
    {"batch_norm_backward",
     [](Random& r) {
       return BatchNormBackward({8, 16, 16, 16}, false, r);
     }},
    {"batch_norm_backward_nhwc",
     [](Random& r) {
       return BatchNormBackward({8, 32, 8, 8}, true, r);
     },
     kAlone, 1.3, "eight channels are 32 bytes of f32, and 8 bytes of a sector of the bool mask"},
    {"batch_norm_backward_nhwc_many_channels",
     [](Random& r) {
       return BatchNormBackward({8, 64, 8, 8}, true, r);
     },
     kSmallGpu},
    {"batch_norm_backward_shared",
     [](Random& r) {
       return BatchNormBackward({8, 4, 16, 16}, false, r);
     },
     kShared},
    {"column_sum", [](Random& r) { return ColumnSum(kF32, 512, 256, r); }, kAlone},
    {"column_sum_bf16", [](Random& r) { return ColumnSum(kBf16, 512, 256, r); }, kAlone},
    {"column_sum_shared", [](Random& r) { return ColumnSum(kF32, 2048, 256, r); }},
    {"bias_update", [](Random& r) { return BiasUpdate(2000, 40, r); }, kAlone},
    {"bias_update_shared", [](Random& r) { return BiasUpdate(4000, 64, r); }, kShared},
    {"mean_square", [](Random& r) { return MeanSquare(32768, r); }},
    {"mean_square_shared", [](Random& r) { return MeanSquare(262144, r); }},
    {"adam", [](Random& r) { return Adam(kF32, 16384, r); }},
    {"adam_bf16", [](Random& r) { return Adam(kBf16, 16384, r); }},
    {"dropout",
     [](Random& r) {
       return Dropout({64, 256}, r);
     }},
};

class ExprTrafficTest : public ::testing::TestWithParam<TrafficCase> {};

TEST_P(ExprTrafficTest, OperandsAreAccessedOnceOrWithinTheStatedBound) {
  Random random(cotan::testing::TestSeed());
  ExprCase expr = GetParam().make(random);
  expr.schedule = GetParam().schedule;
  RunResult result;
  const Tensors actual = expr.Run({}, &result);
  EXPECT_LE(LargestError(expr.Reference(), actual), cotan::testing::kReduction);
  EXPECT_EQ(result.launches, 1);
  double bytes = 0;
  for (const Tensors* tensors : {&expr.inputs, &expr.outputs}) {
    for (const auto& tensor : *tensors) bytes += static_cast<double>(tensor->bytes().size());
  }
  const uint64_t sectors = result.counters.global_load_sectors + result.counters.global_store_sectors;
  const uint64_t distinct = result.counters.distinct_load_sectors + result.counters.distinct_store_sectors;
  EXPECT_LE(static_cast<double>(sectors) * 32 / bytes, GetParam().bound) << GetParam().reason;
  EXPECT_LE(static_cast<double>(distinct) * 32 / bytes, kOnce);
  EXPECT_EQ(GetParam().reason.empty(), GetParam().bound == kOnce);
  // The order of blocks changes no bit.
  EXPECT_EQ(Difference(actual, expr.Run({.seed = 3})), "");
}

INSTANTIATE_TEST_SUITE_P(Models, ExprTrafficTest, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace cotan::cuda::testing
