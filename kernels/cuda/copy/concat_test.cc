// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/copy/concat.h"

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/test_seed.h"
#include "gtest/gtest.h"
#include "kernels/cuda/copy/byte_tensor.h"
#include "kernels/cuda/testing/run_plan.h"
#include "kernels/testing/random_case.h"

namespace cotan::cuda {
namespace {

using cotan::testing::DenseLayout;
using cotan::testing::HostTensor;
using cotan::testing::RandomLayout;
using cotan::testing::TestSeed;
using testing::AllBytes;
using testing::kAllDTypes;
using testing::RandomBytes;
using testing::RunOptions;
using testing::RunPlan;
using testing::RunResult;

serialization::Op ConcatOp(int64_t dim) {
  serialization::Op op;
  op.mutable_concat()->set_dim(dim);
  return op;
}

// Returns the part of `output` that begins at `begin` of dimension `dim` and has the sizes `sizes`, row-major.
std::string PartBytes(const HostTensor& output, size_t dim, int64_t begin, const DimVector& sizes) {
  HostTensor part(output.dtype(), {sizes, output.layout().strides, 0});
  const auto offset = static_cast<size_t>(begin * output.layout().strides[dim]) * ByteSize(output.dtype());
  std::copy_n(output.bytes().begin() + static_cast<int64_t>(offset), part.bytes().size(),
              static_cast<char*>(part.data()));
  return AllBytes(part);
}

RunResult ExpectConcatenated(const std::vector<HostTensor*>& inputs, int64_t dim, HostTensor& output,
                             const RunOptions& options) {
  const absl::StatusOr<RunResult> result = RunPlan(PlanConcat, ConcatOp(dim), inputs, {&output}, options);
  EXPECT_TRUE(result.ok()) << result.status();
  if (!result.ok()) return {};
  int64_t begin = 0;
  const auto d = static_cast<size_t>(dim);
  for (const HostTensor* input : inputs) {
    const DimVector& sizes = input->layout().sizes;
    if (input->numel() > 0) {
      EXPECT_EQ(PartBytes(output, d, begin, sizes), AllBytes(*input)) << ToString(input->layout());
    }
    begin += sizes[d];
  }
  return *result;
}

TEST(CudaConcatTest, RandomGeometriesOfAllDTypes) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 60; ++round) {
    const DType dtype = kAllDTypes[round % 12];
    DimVector sizes(1 + random() % 4);
    for (int64_t& size : sizes) size = static_cast<int64_t>(random() % 12);
    const size_t dim = random() % sizes.size();
    sizes[dim] = 0;
    std::vector<std::unique_ptr<HostTensor>> tensors;
    std::vector<HostTensor*> inputs;
    for (uint64_t n = 1 + random() % 5; n > 0; --n) {
      DimVector part = sizes;
      part[dim] = static_cast<int64_t>(random() % 4) * static_cast<int64_t>(random() % 5);
      sizes[dim] += part[dim];
      tensors.push_back(std::make_unique<HostTensor>(
          RandomBytes(dtype, RandomLayout(part, random, random() % 2 == 0, random() % 2 == 0), random)));
      inputs.push_back(tensors.back().get());
    }
    HostTensor output(dtype, RandomLayout(sizes, random, random() % 2 == 0, false));
    ExpectConcatenated(inputs, static_cast<int64_t>(dim), output,
                       {.guarded_outputs = random() % 2 == 0, .seed = random()});
  }
}

TEST(CudaConcatTest, InputsShareALaunchAndAreLoadedOnce) {
  std::mt19937_64 random(TestSeed());
  HostTensor a = RandomBytes(DType::kFloat32, DenseLayout({16, 64}), random);
  HostTensor b = RandomBytes(DType::kFloat32, DenseLayout({16, 32}), random);
  HostTensor output(DType::kFloat32, DenseLayout({16, 160}));
  const RunResult result = ExpectConcatenated({&a, &b, &a}, 1, output, {});
  EXPECT_EQ(result.launches, 1);
  EXPECT_EQ(result.counters.global_load_sectors * 32, 16u * 160 * 4);
  EXPECT_EQ(result.counters.global_store_sectors * 32, 16u * 160 * 4);
}

TEST(CudaConcatTest, ManyInputsHaveFewLaunches) {
  std::mt19937_64 random(TestSeed());
  HostTensor a = RandomBytes(DType::kInt16, DenseLayout({2, 3}), random);
  HostTensor empty(DType::kInt16, DenseLayout({0, 3}));
  std::vector<HostTensor*> inputs(100, &a);
  inputs[50] = &empty;
  HostTensor output(DType::kInt16, DenseLayout({198, 3}));
  EXPECT_EQ(ExpectConcatenated(inputs, 0, output, {}).launches, 2);
}

TEST(CudaConcatTest, TransposedInputsGoThroughTiles) {
  std::mt19937_64 random(TestSeed());
  HostTensor a = RandomBytes(DType::kFloat32, DenseLayout({64, 64}, {1, 0}), random);
  HostTensor b = RandomBytes(DType::kFloat32, DenseLayout({64, 32}), random);
  HostTensor output(DType::kFloat32, DenseLayout({64, 160}));
  const RunResult result = ExpectConcatenated({&a, &b, &a}, 1, output, {.seed = 9});
  EXPECT_EQ(result.counters.global_load_sectors * 32, 64u * 160 * 4);
}

TEST(CudaConcatTest, GuardedOutputsAreKeptAfterAnError) {
  std::mt19937_64 random(TestSeed());
  HostTensor a = RandomBytes(DType::kFloat32, DenseLayout({5, 6}), random);
  HostTensor output(DType::kFloat32, DenseLayout({10, 6}));
  const std::string before = AllBytes(output);
  const auto result =
      RunPlan(PlanConcat, ConcatOp(0), {&a, &a}, {&output}, {.guarded_outputs = true, .failed_before = true});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(AllBytes(output), before);
}

}  // namespace
}  // namespace cotan::cuda
