// SPDX-License-Identifier: Apache-2.0

#include "aot/decompositions/quantized_weights.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace cotan::aot {
namespace {

// Returns the weight after quantization.
at::Tensor RoundTrip(const at::Tensor& weight, int bits, int64_t groups) {
  const QuantizedData quantized = Quantize(weight, bits, groups);
  return Dequantize(quantized.data, quantized.scale, bits, weight.scalar_type());
}

TEST(QuantizedWeightsTest, MultiplesOfAStepAreExact) {
  const at::Tensor bytes = at::arange(-127, 128, at::kFloat).reshape({1, 255}) * 0.25;
  EXPECT_EQ(Quantize(bytes, 8, 1).data.scalar_type(), at::kChar);
  EXPECT_TRUE(RoundTrip(bytes, 8, 1).equal(bytes));
  const at::Tensor halves = (at::arange(0, 32, at::kFloat).remainder(15) - 7).reshape({1, 32}) * 0.5;
  EXPECT_TRUE(RoundTrip(halves, 4, 1).equal(halves));
}

TEST(QuantizedWeightsTest, TheFirstHalfOfAGroupIsInTheLowBits) {
  const QuantizedData quantized = Quantize(at::tensor({-7.0F, -6.0F, 7.0F, 0.0F}).reshape({1, 4}), 4, 1);
  ASSERT_EQ(quantized.data.sizes(), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(quantized.data[0][0].item<int>(), (-7 + 8) + 16 * (7 + 8));
  EXPECT_EQ(quantized.data[0][1].item<int>(), (-6 + 8) + 16 * (0 + 8));
}

TEST(QuantizedWeightsTest, ErrorsAreHalfAStepOfTheGroup) {
  const at::Tensor weight = at::randn({6, 96}) * at::tensor({1e-6F, 1.0F, 10.0F, 1e3F, 0.0F, 3e-3F}).unsqueeze(1);
  for (const auto& [bits, groups] : {std::pair(8, 1), std::pair(8, 3), std::pair(4, 3), std::pair(4, 6)}) {
    const at::Tensor step = weight.abs().reshape({6, groups, -1}).amax(2, true) / (bits == 8 ? 127 : 7);
    const at::Tensor error = (RoundTrip(weight, bits, groups) - weight).abs().reshape({6, groups, -1});
    EXPECT_TRUE((error <= step * 0.5001).all().item<bool>()) << bits << " bits, " << groups << " groups";
  }
}

TEST(QuantizedWeightsTest, RowsOfZerosAndHalfPrecisionRemain) {
  EXPECT_TRUE(RoundTrip(at::zeros({2, 8}), 8, 1).equal(at::zeros({2, 8})));
  EXPECT_EQ(RoundTrip(at::zeros({2, 8}).to(at::kBFloat16), 4, 1).scalar_type(), at::kBFloat16);
}

}  // namespace
}  // namespace cotan::aot
