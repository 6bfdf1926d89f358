// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/portable/portable.h"

#include <random>
#include <vector>

#include "base/test_seed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/api/op_check.h"
#include "kernels/reference/ops.h"
#include "kernels/testing/host_tensor.h"
#include "kernels/testing/random_case.h"
#include "testing/tolerance.h"

namespace cotan::cpu {
namespace {

using serialization::Convolution;
using serialization::Op;
using testing::DenseLayout;
using testing::ErrorInUnits;
using testing::GapsAreUntouched;
using testing::HostTensor;
using testing::RandomLayout;
using testing::RandomTensor;
using testing::RunOp;
using testing::TestSeed;

int64_t Pick(std::mt19937_64& random, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
}

HostTensor Random(DType dtype, const DimVector& sizes, std::mt19937_64& random) {
  const double range = IsFloatingPoint(dtype) ? 1 : 9;
  return RandomTensor(dtype, RandomLayout(sizes, random, random() % 2 == 0, random() % 4 == 0), random, -range, range);
}

// Expects the kernel's results to agree with the reference's, and to be equal for several thread counts.
void ExpectAgrees(KernelFactory factory, KernelFactory reference, const Op& op, const std::vector<HostTensor*>& inputs,
                  DType dtype, const DimVector& sizes, std::mt19937_64& random) {
  HostTensor expected(dtype, DenseLayout(sizes));
  const absl::Status reference_status = RunOp(reference, op, inputs, {&expected});
  ASSERT_TRUE(reference_status.ok()) << reference_status;
  HostTensor result(dtype, RandomLayout(sizes, random, random() % 2 == 0, false));
  const absl::Status status = RunOp(factory, op, inputs, {&result});
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_LE(ErrorInUnits(result, expected.Values()), IsFloatingPoint(dtype) ? testing::kMatmul : 0)
      << ToString(inputs[0]->layout()) << " " << ToString(inputs[1]->layout()) << " " << ToString(result.layout());
  EXPECT_TRUE(GapsAreUntouched(result));
  HostTensor again(dtype, result.layout());
  ASSERT_TRUE(RunOp(factory, op, inputs, {&again}, 3).ok());
  EXPECT_EQ(result.bytes(), again.bytes()) << "3 threads";
}

TEST(PortableTest, MatmulOfRandomSizesAgreesWithTheReference) {
  std::mt19937_64 random(TestSeed());
  Op op;
  op.mutable_matmul();
  for (int round = 0; round < 200; ++round) {
    const DType dtype = std::array{DType::kFloat32, DType::kFloat64, DType::kInt32, DType::kInt64}[random() % 4];
    const int64_t m = Pick(random, 0, 50);
    const int64_t k = Pick(random, 0, 50);
    const int64_t n = Pick(random, 0, 50);
    DimVector batch(random() % 3);
    for (int64_t& size : batch) size = Pick(random, 0, 3);
    DimVector a = batch;
    DimVector b = batch;
    DimVector c = batch;
    if (!batch.empty() && random() % 3 == 0) a[0] = 1;
    if (!batch.empty() && random() % 3 == 0 && a[0] == batch[0]) b[0] = 1;
    a.insert(a.end(), {m, k});
    b.insert(b.end(), {k, n});
    c.insert(c.end(), {m, n});
    HostTensor left = Random(dtype, a, random);
    HostTensor right = Random(dtype, b, random);
    HostTensor bias = Random(dtype, {n}, random);
    std::vector<HostTensor*> inputs = {&left, &right};
    if (random() % 2 == 0) inputs.push_back(&bias);
    ExpectAgrees(MakePortableMatmul, reference::MakeMatmul, op, inputs, dtype, c, random);
  }
}

TEST(PortableTest, MatmulOfSeveralBlocksAgreesWithTheReference) {
  std::mt19937_64 random(TestSeed());
  Op op;
  op.mutable_matmul();
  HostTensor a = RandomTensor(DType::kFloat64, DenseLayout({130, 600}, {1, 0}), random);
  HostTensor b = RandomTensor(DType::kFloat64, DenseLayout({600, 150}), random);
  ExpectAgrees(MakePortableMatmul, reference::MakeMatmul, op, {&a, &b}, DType::kFloat64, {130, 150}, random);
}

TEST(PortableTest, ConvolutionsAgreeWithTheReference) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 60; ++round) {
    Convolution attributes;
    const int spatial = static_cast<int>(Pick(random, 1, 3));
    const int64_t groups = Pick(random, 1, 3);
    const bool transposed = random() % 3 == 0;
    const int64_t in = groups * Pick(random, 0, 3);
    const int64_t out = groups * Pick(random, 1, 4);
    attributes.set_groups(groups);
    attributes.set_transposed(transposed);
    DimVector x = {Pick(random, 0, 3), in};
    DimVector w = transposed ? DimVector{in, out / groups} : DimVector{out, in / groups};
    DimVector y = {x[0], out};
    for (int d = 0; d < spatial; ++d) {
      attributes.add_stride(Pick(random, 1, 2));
      attributes.add_dilation(Pick(random, 1, 2));
      attributes.add_padding(Pick(random, 0, 2));
      if (transposed) attributes.add_output_padding(attributes.stride(d) - 1);
      x.push_back(Pick(random, 5, 7));
      w.push_back(Pick(random, 1, 3));
      y.push_back(ConvolutionOutputSize(attributes, d, x.back(), w.back()));
    }
    const DType dtype = random() % 2 == 0 ? DType::kFloat32 : DType::kFloat64;
    HostTensor input = Random(dtype, x, random);
    HostTensor weight = Random(dtype, w, random);
    HostTensor gradient = Random(dtype, y, random);
    HostTensor bias = Random(dtype, {out}, random);
    std::vector<HostTensor*> inputs = {&input, &weight};
    if (random() % 2 == 0) inputs.push_back(&bias);
    Op op;
    *op.mutable_convolution() = attributes;
    ExpectAgrees(MakePortableConvolution, reference::MakeConvolution, op, inputs, dtype, y, random);
    *op.mutable_convolution_backward_input()->mutable_forward() = attributes;
    ExpectAgrees(MakePortableConvolution, reference::MakeConvolutionBackwardInput, op, {&gradient, &weight}, dtype, x,
                 random);
    *op.mutable_convolution_backward_weight()->mutable_forward() = attributes;
    ExpectAgrees(MakePortableConvolution, reference::MakeConvolutionBackwardWeight, op, {&gradient, &input}, dtype, w,
                 random);
  }
}

TEST(PortableTest, OtherElementTypesAreRejected) {
  Op op;
  op.mutable_matmul();
  HostTensor a(DType::kInt16, {2, 2});
  HostTensor c(DType::kInt16, {2, 2});
  const absl::Status status = RunOp(MakePortableMatmul, op, {&a, &a}, {&c});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(status.message(), ::testing::HasSubstr("matmul: dtype i16 is not supported"));
}

}  // namespace
}  // namespace cotan::cpu
