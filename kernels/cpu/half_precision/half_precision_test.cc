// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/half_precision/half_precision.h"

#include <random>
#include <vector>

#include "base/test_seed.h"
#include "gtest/gtest.h"
#include "kernels/cpu/indexing/gather.h"
#include "kernels/cpu/pool/pool.h"
#include "kernels/testing/host_tensor.h"
#include "kernels/testing/random_case.h"

namespace cotan::cpu {
namespace {

using serialization::Op;
using testing::HostTensor;
using testing::RandomLayout;
using testing::RandomTensor;
using testing::RunOp;
using testing::TestSeed;

// Returns the values of an f32 result, rounded to `dtype`.
std::vector<double> Rounded(const HostTensor& wide, DType dtype) {
  HostTensor half(dtype, wide.layout().sizes);
  half.SetValues(wide.Values());
  return half.Values();
}

HostTensor Wide(const HostTensor& half) {
  HostTensor wide(DType::kFloat32, half.layout().sizes);
  wide.SetValues(half.Values());
  return wide;
}

TEST(WidenTest, CastsBetweenAnyLayouts) {
  std::mt19937_64 random(TestSeed());
  for (int i = 0; i < 50; ++i) {
    const DimVector sizes = {static_cast<int64_t>(random() % 5), 1 + static_cast<int64_t>(random() % 7), 3};
    HostTensor from = RandomTensor(DType::kFloat32, RandomLayout(sizes, random, true, true), random);
    HostTensor to(DType::kBFloat16, RandomLayout(sizes, random, true, false));
    const TensorSpec from_spec = from.spec(), to_spec = to.spec();
    auto kernel = MakeCastKernel(from_spec, to_spec, 1 + static_cast<int>(random() % 3));
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    std::vector<char> scratch((*kernel)->scratch_bytes() + 64);
    void* input = from.data();
    void* output = to.data();
    void* aligned = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(scratch.data()) + 63) / 64 * 64);
    ASSERT_TRUE((*kernel)->Run({&input, &output, aligned}).ok());
    EXPECT_EQ(to.Values(), Rounded(from, DType::kBFloat16));
    EXPECT_TRUE(testing::GapsAreUntouched(to));
  }
}

TEST(WidenTest, AveragePoolsAreThoseOfF32Rounded) {
  std::mt19937_64 random(TestSeed());
  Op op;
  serialization::Pool& pool = *op.mutable_avg_pool();
  for (int d = 0; d < 2; ++d) {
    pool.add_kernel(3);
    pool.add_stride(2);
    pool.add_padding(1);
    pool.add_dilation(1);
  }
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    HostTensor input = RandomTensor(dtype, RandomLayout({2, 3, 9, 8}, random, true, false), random);
    HostTensor result(dtype, RandomLayout({2, 3, 5, 4}, random, true, false));
    ASSERT_TRUE(RunOp(MakeWidened<MakeAvgPool>, op, {&input}, {&result}).ok());
    HostTensor wide = Wide(input);
    HostTensor expected(DType::kFloat32, {2, 3, 5, 4});
    ASSERT_TRUE(RunOp(MakeAvgPool, op, {&wide}, {&expected}).ok());
    EXPECT_EQ(result.Values(), Rounded(expected, dtype));
  }
}

// Only the half-precision operands are converted; the index is not.
TEST(WidenTest, ScatteredRowsAddUpInF32) {
  std::mt19937_64 random(TestSeed());
  Op op;
  op.mutable_scatter_add()->set_padding_index(-1);
  HostTensor rows = RandomTensor(DType::kBFloat16, RandomLayout({300, 5}, random, true, false), random);
  HostTensor index(DType::kInt64, {300}, std::vector<double>(300, 1));
  HostTensor result(DType::kBFloat16, {3, 5});
  ASSERT_TRUE(RunOp(MakeWidened<MakeScatterAdd>, op, {&rows, &index}, {&result}).ok());
  HostTensor wide = Wide(rows);
  HostTensor expected(DType::kFloat32, {3, 5});
  ASSERT_TRUE(RunOp(MakeScatterAdd, op, {&wide, &index}, {&expected}).ok());
  EXPECT_EQ(result.Values(), Rounded(expected, DType::kBFloat16));
}

TEST(WidenTest, ErrorsOfTheKernelPass) {
  Op op;
  op.mutable_avg_pool()->add_kernel(3);
  HostTensor input(DType::kBFloat16, {2, 3});
  HostTensor output(DType::kBFloat16, {2, 3});
  EXPECT_EQ(RunOp(MakeWidened<MakeAvgPool>, op, {&input}, {&output}).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace cotan::cpu
