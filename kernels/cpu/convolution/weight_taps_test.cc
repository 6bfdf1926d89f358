// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/convolution/weight_taps.h"

#include <numeric>
#include <vector>

#include "gtest/gtest.h"

namespace cotan::cpu {
namespace {

std::vector<float> Count(size_t size) {
  std::vector<float> values(size);
  std::iota(values.begin(), values.end(), 1.0F);
  return values;
}

void RunKernel(Kernel& kernel, std::vector<float>& input, std::vector<float>& output) {
  void* inputs[] = {input.data()};
  void* outputs[] = {output.data()};
  ASSERT_TRUE(kernel.Run({inputs, outputs, nullptr}).ok());
}

TEST(WeightTapsTest, TapsAreGatheredInTheirOrder) {
  std::vector<float> weights = Count(2 * 3 * 4);  // [out, in, taps]
  std::vector<float> matrix(2 * 2 * 3);           // [taps, out, in]
  RunKernel(*MakeTapGather({.out = 2, .in = 3, .num_taps = 4, .taps = {3, 1}, .out_stride = 3, .tap_stride = 6}, 1),
            weights, matrix);
  EXPECT_EQ(matrix, (std::vector<float>{4, 8, 12, 16, 20, 24, 2, 6, 10, 14, 18, 22}));
}

TEST(WeightTapsTest, ScatterIsTheInverseOnAnyNumberOfThreads) {
  constexpr int64_t kOut = 300, kIn = 70, kTaps = 6;
  const WeightTaps layout = {kOut, kIn, kTaps, {0, 1, 2, 3, 4, 5}, kTaps * kIn, kIn};
  for (const int threads : {1, 3}) {
    std::vector<float> weights = Count(kOut * kIn * kTaps);
    std::vector<float> matrix(weights.size());
    std::vector<float> again(weights.size());
    RunKernel(*MakeTapGather(layout, threads), weights, matrix);
    RunKernel(*MakeTapScatter(layout, threads), matrix, again);
    EXPECT_EQ(again, weights);
    EXPECT_EQ(matrix[kIn], weights[1]) << "the second tap of the first input channel";
  }
}

TEST(WeightTapsTest, ScatterLeavesOtherTaps) {
  std::vector<float> matrix = {1, 2};
  std::vector<float> weights(4, -1.0F);
  RunKernel(*MakeTapScatter({.out = 1, .in = 2, .num_taps = 2, .taps = {1}, .out_stride = 2, .tap_stride = 2}, 1),
            matrix, weights);
  EXPECT_EQ(weights, (std::vector<float>{-1, 1, -1, 2}));
}

}  // namespace
}  // namespace cotan::cpu
