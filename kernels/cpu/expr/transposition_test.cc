// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/expr/transposition.h"

#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "base/test_seed.h"
#include "gtest/gtest.h"
#include "kernels/cpu/expr/expr_kernel.h"
#include "kernels/testing/expr_builder.h"
#include "kernels/testing/host_tensor.h"
#include "kernels/testing/random_case.h"

namespace cotan::cpu {
namespace {

using testing::DenseLayout;
using testing::ExprBuilder;
using testing::HostTensor;
using testing::RandomTensor;
using testing::RunOp;
using testing::TestSeed;

const DimVector kSizes = {3, 40, 120};
const DimVector kWeightSizes = {40, 120};

// Returns the layout of kSizes with the last two dimensions transposed.
StridedLayout Across(const DimVector& sizes) {
  DimVector order;
  for (size_t d = 0; d < sizes.size(); ++d) order.push_back(static_cast<int64_t>(d));
  std::swap(order[order.size() - 2], order.back());
  return DenseLayout(sizes, order);
}

HostTensor Copy(const HostTensor& tensor, const StridedLayout& layout) {
  HostTensor copy(tensor.dtype(), layout);
  copy.SetValues(tensor.Values());
  return copy;
}

class TranspositionTest : public ::testing::TestWithParam<DType> {};

TEST_P(TranspositionTest, OperandsHaveTheValuesOfDenseOnes) {
  std::mt19937_64 random(TestSeed());
  ExprBuilder b(kSizes);
  const int x = b.Input(0, GetParam()), y = b.Input(1, GetParam()), weight = b.Input(2, GetParam());
  b.Output(b.Add(b.Mul(x, weight), y));
  b.Output(b.Sub(x, y));
  HostTensor in = RandomTensor(GetParam(), DenseLayout(kSizes), random);
  HostTensor other = RandomTensor(GetParam(), DenseLayout(kSizes), random);
  HostTensor factors = RandomTensor(GetParam(), DenseLayout(kWeightSizes), random);
  HostTensor sum(GetParam(), kSizes), difference(GetParam(), kSizes);
  ASSERT_TRUE(RunOp(MakeExpr, b.Build(), {&in, &other, &factors}, {&sum, &difference}).ok());

  HostTensor other_across = Copy(other, Across(kSizes));
  HostTensor factors_across = Copy(factors, Across(kWeightSizes));
  HostTensor same_sum(GetParam(), kSizes), difference_across(GetParam(), Across(kSizes));
  for (const int threads : {1, 2}) {
    ASSERT_TRUE(
        RunOp(MakeExpr, b.Build(), {&in, &other_across, &factors_across}, {&same_sum, &difference_across}, threads)
            .ok());
    EXPECT_EQ(same_sum.Values(), sum.Values());
    EXPECT_EQ(difference_across.Values(), difference.Values());
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, TranspositionTest,
                         ::testing::Values(DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kInt64));

TEST(TranspositionTest, ReducedOutputsHaveTheValuesOfDenseOnes) {
  std::mt19937_64 random(TestSeed());
  const int images[] = {0};
  ExprBuilder b(kSizes, images);
  b.Output(b.Sum(b.Input(0, DType::kFloat32)));
  HostTensor in = RandomTensor(DType::kFloat32, DenseLayout(kSizes), random);
  HostTensor sum(DType::kFloat32, {1, 40, 120}), sum_across(DType::kFloat32, Across({1, 40, 120}));
  ASSERT_TRUE(RunOp(MakeExpr, b.Build(), {&in}, {&sum}).ok());
  ASSERT_TRUE(RunOp(MakeExpr, b.Build(), {&in}, {&sum_across}).ok());
  EXPECT_EQ(sum_across.Values(), sum.Values());
}

// An update writes the memory that it reads.
TEST(TranspositionTest, OutputInTheMemoryOfItsOperand) {
  std::mt19937_64 random(TestSeed());
  ExprBuilder b(kSizes);
  const int x = b.Input(0, DType::kFloat32), z = b.Input(1, DType::kFloat32), y = b.Input(2, DType::kFloat32);
  b.Output(b.Add(b.Mul(x, z), y));
  b.Output(b.Sub(y, x));
  HostTensor in = RandomTensor(DType::kFloat32, DenseLayout(kSizes), random);
  HostTensor state = RandomTensor(DType::kFloat32, Across(kSizes), random);
  HostTensor result(DType::kFloat32, kSizes), updated(DType::kFloat32, Across(kSizes));
  ASSERT_TRUE(RunOp(MakeExpr, b.Build(), {&in, &in, &state}, {&result, &updated}).ok());

  const TensorSpec inputs[] = {in.spec(), in.spec(), state.spec()}, outputs[] = {result.spec(), state.spec()};
  const serialization::Op op = b.Build();
  const auto kernel = MakeExpr({op, inputs, outputs, {}, 1});
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  HostTensor same_result(DType::kFloat32, kSizes);
  void* const in_memory[] = {in.data(), in.data(), state.data()};
  void* const out_memory[] = {same_result.data(), state.data()};
  std::vector<std::max_align_t> scratch((*kernel)->scratch_bytes() / sizeof(std::max_align_t) + 8);
  const auto address = (reinterpret_cast<uintptr_t>(scratch.data()) + 63) / 64 * 64;
  ASSERT_TRUE((*kernel)->Run({in_memory, out_memory, reinterpret_cast<void*>(address)}).ok());
  EXPECT_EQ(same_result.Values(), result.Values());
  EXPECT_EQ(state.Values(), updated.Values());
}

// Returns the bytes of scratch of a sum of a dense operand and one that is transposed.
size_t ScratchOf(const DimVector& sizes) {
  ExprBuilder b(sizes);
  b.Output(b.Add(b.Input(0, DType::kFloat32), b.Input(1, DType::kFloat32)));
  const serialization::Op op = b.Build();
  const TensorSpec inputs[] = {{DType::kFloat32, DenseLayout(sizes)}, {DType::kFloat32, Across(sizes)}};
  const TensorSpec output = {DType::kFloat32, DenseLayout(sizes)};
  return (*MakeExpr({op, inputs, {&output, 1}, {}, 1}))->scratch_bytes();
}

TEST(TranspositionTest, OnlyLargeOperandsWithManyColumnsAreCopied) {
  const size_t without = ScratchOf({3, 10, 12});
  EXPECT_GE(ScratchOf(kSizes), 3 * 40 * 120 * sizeof(float));
  EXPECT_LE(without, 3 * 40 * 120 * sizeof(float));
  EXPECT_LE(ScratchOf({1000, 10, 3}), 1000 * 10 * 3 * sizeof(float)) << "three columns";
  EXPECT_LE(ScratchOf({1000, 3, 10}), 1000 * 10 * 3 * sizeof(float)) << "three dense elements";
}

}  // namespace
}  // namespace cotan::cpu
