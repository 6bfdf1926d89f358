// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/convolution/convolution_problem.h"

#include <array>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/testing/random_case.h"

namespace cotan::cpu {
namespace {

using testing::DenseLayout;
using ::testing::ElementsAre;

serialization::Op Convolution(bool transposed) {
  serialization::Op op;
  serialization::Convolution& attributes = *op.mutable_convolution();
  attributes.add_stride(2);
  attributes.add_padding(1);
  attributes.add_dilation(1);
  attributes.set_groups(1);
  attributes.set_transposed(transposed);
  if (transposed) attributes.add_output_padding(1);
  return op;
}

ConvolutionProblem Describe(const serialization::Op& op, const DimVector& x, const DimVector& w, const DimVector& y) {
  const std::array inputs = {TensorSpec{DType::kFloat32, DenseLayout(x)}, TensorSpec{DType::kFloat32, DenseLayout(w)}};
  const std::array outputs = {TensorSpec{DType::kFloat32, DenseLayout(y)}};
  const auto problem = DescribeConvolution({op, inputs, outputs, {}, 1, nullptr});
  EXPECT_TRUE(problem.ok()) << problem.status();
  return problem.value_or(ConvolutionProblem{});
}

TEST(ConvolutionProblemTest, PaddingAfterFollowsFromTheWindows) {
  const ConvolutionProblem problem = Describe(Convolution(false), {1, 2, 8}, {3, 2, 3}, {1, 3, 4});
  EXPECT_EQ(problem.product, ConvolutionProduct::kForward);
  EXPECT_THAT(problem.padding_before, ElementsAre(1));
  EXPECT_THAT(problem.padding_after, ElementsAre(0));
  EXPECT_EQ(problem.Flops(), 2.0 * 3 * 4 * 2 * 3);
}

TEST(ConvolutionProblemTest, TransposedIsBackwardOfData) {
  const ConvolutionProblem problem = Describe(Convolution(true), {1, 2, 4}, {2, 3, 3}, {1, 3, 8});
  EXPECT_EQ(problem.product, ConvolutionProduct::kBackwardData);
  EXPECT_THAT(problem.source.layout.sizes, ElementsAre(1, 3, 8));
  EXPECT_EQ(problem.Result().slot.memory, Slot::Memory::kOutput);
}

TEST(ConvolutionProblemTest, PixelsBehindTheLastKernelAreCropped) {
  serialization::Op op = Convolution(true);
  op.mutable_convolution()->set_dilation(0, 2);
  ConvolutionProblem strided = Describe(op, {1, 2, 4}, {2, 3, 3}, {1, 3, 10});
  EXPECT_FALSE(CropUnmetPixels(strided));
  op.mutable_convolution()->set_stride(0, 1);
  ConvolutionProblem problem = Describe(op, {1, 2, 4}, {2, 3, 3}, {1, 3, 7});
  EXPECT_THAT(problem.padding_after, ElementsAre(0));
  EXPECT_FALSE(CropUnmetPixels(problem)) << "the padding before takes a pixel of the output, too";
  op.mutable_convolution()->set_padding(0, 0);
  problem = Describe(op, {1, 2, 4}, {2, 3, 3}, {1, 3, 9});
  EXPECT_THAT(problem.padding_after, ElementsAre(-1));
  EXPECT_TRUE(CropUnmetPixels(problem));
  EXPECT_THAT(problem.source.layout.sizes, ElementsAre(1, 3, 8));
  EXPECT_THAT(problem.source.layout.strides, ElementsAre(27, 9, 1));
  EXPECT_THAT(problem.padding_after, ElementsAre(0));
}

TEST(ConvolutionProblemTest, BiasKernelAddsPerChannel) {
  float bias[] = {1, 0, 2};  // stride 2
  float result[] = {10, 20, 30, 40};
  void* in = bias;
  void* out = result;
  const auto kernel = MakeBiasKernel(DType::kFloat32, DenseLayout({1, 2, 2}), 2, 1);
  ASSERT_TRUE(kernel->Run({&in, &out, nullptr}).ok());
  EXPECT_THAT(result, ElementsAre(11, 21, 32, 42));
}

}  // namespace
}  // namespace cotan::cpu
