// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/pool/pool.h"

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/test_seed.h"
#include "gtest/gtest.h"
#include "kernels/api/op_check.h"
#include "kernels/cpu/pool/pool.h"
#include "kernels/cuda/compile_gate/compile_gate.h"
#include "kernels/cuda/testing/run_plan.h"
#include "kernels/reference/ops.h"
#include "kernels/testing/random_case.h"
#include "testing/tolerance.h"

namespace cotan::cuda {
namespace {

using cotan::testing::DenseLayout;
using cotan::testing::ErrorInUnits;
using cotan::testing::HostTensor;
using cotan::testing::RandomLayout;
using cotan::testing::RandomTensor;
using cotan::testing::RunOp;
using cotan::testing::TestSeed;
using serialization::Op;
using serialization::Pool;
using testing::RunOptions;
using testing::RunPlan;
using testing::RunResult;

constexpr DType kFloats[] = {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64};

struct Case {
  Pool op = {};
  DimVector input;
  DimVector output;
  int spatial = 0;
};

// Appends a spatial dimension.
void AddAxis(Case& c, int64_t input, int64_t kernel, int64_t stride, int64_t padding = 0, int64_t dilation = 1) {
  c.op.add_kernel(kernel);
  c.op.add_stride(stride);
  c.op.add_padding(padding);
  c.op.add_dilation(dilation);
  c.input.push_back(input);
  c.output.push_back(PoolOutputSize(c.op, c.spatial++, input));
}

Case RandomCase(std::mt19937_64& random, bool is_max) {
  Case c;
  c.op.set_ceil_mode(random() % 2 == 0);
  c.op.set_count_include_pad(random() % 2 == 0);
  if (!is_max && random() % 4 == 0) c.op.set_divisor_override(3);
  for (uint64_t d = random() % 3; d > 0; --d) c.input.push_back(static_cast<int64_t>(random() % 4));
  if (!c.input.empty() && random() % 2 == 0) c.input.back() = 8;
  c.output = c.input;
  for (uint64_t d = 1 + random() % 3; d > 0; --d) {
    const int64_t kernel = 1 + static_cast<int64_t>(random() % 3);
    AddAxis(c, 4 + static_cast<int64_t>(random() % 4), kernel, 1 + static_cast<int64_t>(random() % 3),
            static_cast<int64_t>(random() % static_cast<uint64_t>(kernel / 2 + 1)),
            is_max ? 1 + static_cast<int64_t>(random() % 2) : 1);
  }
  return c;
}

// Returns a layout with the dimension before the spatial ones innermost.
StridedLayout ChannelsLast(const DimVector& sizes, int spatial) {
  DimVector order;
  const auto rank = static_cast<int64_t>(sizes.size());
  for (int64_t d = 0; d < rank; ++d) {
    if (d != rank - spatial - 1) order.push_back(d);
  }
  if (rank > spatial) order.push_back(rank - spatial - 1);
  return DenseLayout(sizes, order);
}

StridedLayout SomeLayout(const DimVector& sizes, int spatial, std::mt19937_64& random, bool expand = false) {
  if (random() % 2 == 0) return RandomLayout(sizes, random, random() % 2 == 0, expand);
  return ChannelsLast(sizes, spatial);
}

double Bound(DType dtype) {
  const bool is_half = dtype == DType::kFloat16 || dtype == DType::kBFloat16;
  return is_half ? cotan::testing::kRounding : cotan::testing::kReduction;
}

using Factory = absl::StatusOr<std::unique_ptr<Kernel>> (*)(const KernelRequest&);

RunResult ExpectReference(Factory factory, PlanKernel plan, const Op& op, const std::vector<HostTensor*>& inputs,
                          const std::vector<HostTensor*>& outputs, double bound, const RunOptions& options) {
  std::vector<HostTensor> expected;
  std::vector<HostTensor*> references;
  for (const HostTensor* output : outputs) expected.emplace_back(output->dtype(), output->layout());
  for (HostTensor& tensor : expected) references.push_back(&tensor);
  const absl::Status status = RunOp(factory, op, inputs, references);
  EXPECT_TRUE(status.ok()) << status;
  const absl::StatusOr<RunResult> result = RunPlan(plan, op, inputs, outputs, options);
  EXPECT_TRUE(result.ok()) << result.status();
  if (!result.ok()) return {};
  for (size_t i = 0; i < outputs.size(); ++i) {
    EXPECT_LE(ErrorInUnits(*outputs[i], expected[i].Values()), bound)
        << "output " << i << " " << DTypeName(outputs[0]->dtype()) << " from " << ToString(inputs[0]->layout())
        << " to " << ToString(outputs[i]->layout()) << " " << op.ShortDebugString();
  }
  return *result;
}

void ExpectMaxPool(const Case& c, HostTensor& input, std::mt19937_64& random, const RunOptions& options) {
  HostTensor output(input.dtype(), SomeLayout(c.output, c.spatial, random));
  HostTensor indices(DType::kInt64, random() % 2 == 0 ? output.layout() : SomeLayout(c.output, c.spatial, random));
  Op op;
  *op.mutable_max_pool() = c.op;
  ExpectReference(reference::MakeMaxPool, PlanMaxPool, op, {&input}, {&output, &indices}, cotan::testing::kExact,
                  options);
  ExpectReference(reference::MakeMaxPool, PlanMaxPool, op, {&input}, {&output}, cotan::testing::kExact, options);
  HostTensor gradient = RandomTensor(input.dtype(), SomeLayout(c.output, c.spatial, random, true), random);
  HostTensor result(input.dtype(), SomeLayout(c.input, c.spatial, random));
  *op.mutable_max_pool_backward() = c.op;
  ExpectReference(reference::MakeMaxPoolBackward, PlanMaxPoolBackward, op, {&gradient, &indices}, {&result},
                  Bound(input.dtype()), options);
}

TEST(CudaPoolTest, MaxPoolForwardAndBackwardOnRandomGeometries) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 60; ++round) {
    const Case c = RandomCase(random, true);
    HostTensor input = RandomTensor(kFloats[round % 4], SomeLayout(c.input, c.spatial, random, true), random);
    if (random() % 4 == 0 && input.numel() > 0) {
      std::vector<double> values = input.Values();
      for (int i = 0; i < 3; ++i) values[random() % values.size()] = std::numeric_limits<double>::quiet_NaN();
      values[random() % values.size()] = -std::numeric_limits<double>::infinity();
      input.SetValues(values);
    }
    ExpectMaxPool(c, input, random, {.guarded_outputs = random() % 2 == 0, .seed = random()});
  }
}

TEST(CudaPoolTest, AvgPoolForwardAndBackwardOnRandomGeometries) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 60; ++round) {
    const Case c = RandomCase(random, false);
    const DType dtype = kFloats[round % 4];
    const RunOptions options = {.guarded_outputs = random() % 2 == 0, .seed = random()};
    HostTensor input = RandomTensor(dtype, SomeLayout(c.input, c.spatial, random, true), random);
    HostTensor output(dtype, SomeLayout(c.output, c.spatial, random));
    Op op;
    *op.mutable_avg_pool() = c.op;
    ExpectReference(reference::MakeAvgPool, PlanAvgPool, op, {&input}, {&output}, Bound(dtype), options);
    HostTensor gradient = RandomTensor(dtype, SomeLayout(c.output, c.spatial, random, true), random);
    HostTensor result(dtype, SomeLayout(c.input, c.spatial, random));
    *op.mutable_avg_pool_backward() = c.op;
    ExpectReference(reference::MakeAvgPoolBackward, PlanAvgPoolBackward, op, {&gradient}, {&result}, Bound(dtype),
                    options);
  }
}

TEST(CudaPoolTest, IntegersHaveMaxima) {
  std::mt19937_64 random(TestSeed());
  for (const DType dtype : {DType::kUInt8, DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64}) {
    Case c = {.input = {2, 3}, .output = {2, 3}};
    AddAxis(c, 7, 3, 2, 1);
    // The last window is in the padding.
    AddAxis(c, 1, 2, 1, 1, 2);
    HostTensor input = RandomTensor(dtype, SomeLayout(c.input, c.spatial, random), random, -5, 5);
    HostTensor output(dtype, SomeLayout(c.output, c.spatial, random));
    HostTensor indices(DType::kInt64, SomeLayout(c.output, c.spatial, random));
    Op op;
    *op.mutable_max_pool() = c.op;
    ExpectReference(reference::MakeMaxPool, PlanMaxPool, op, {&input}, {&output, &indices}, cotan::testing::kExact, {});
  }
}

TEST(CudaPoolTest, ChannelsLastIsLoadedInVectors) {
  std::mt19937_64 random(TestSeed());
  for (const DType dtype : kFloats) {
    Case c = {.input = {2, 32}, .output = {2, 32}};
    AddAxis(c, 8, 2, 2);
    AddAxis(c, 8, 2, 2);
    HostTensor input = RandomTensor(dtype, ChannelsLast(c.input, 2), random);
    HostTensor output(dtype, ChannelsLast(c.output, 2));
    HostTensor indices(DType::kInt64, ChannelsLast(c.output, 2));
    const uint64_t bytes = input.bytes().size();
    Op op;
    *op.mutable_max_pool() = c.op;
    const RunResult forward = ExpectReference(reference::MakeMaxPool, PlanMaxPool, op, {&input}, {&output, &indices},
                                              cotan::testing::kExact, {});
    EXPECT_EQ(forward.counters.global_load_sectors * 32, bytes);
    *op.mutable_max_pool_backward() = c.op;
    HostTensor result(dtype, input.layout());
    const RunResult backward = ExpectReference(reference::MakeMaxPoolBackward, PlanMaxPoolBackward, op,
                                               {&output, &indices}, {&result}, cotan::testing::kExact, {});
    EXPECT_EQ(backward.counters.global_store_sectors * 32, bytes);
    *op.mutable_avg_pool() = c.op;
    const RunResult average =
        ExpectReference(reference::MakeAvgPool, PlanAvgPool, op, {&input}, {&output}, Bound(dtype), {});
    EXPECT_EQ(average.counters.global_load_sectors * 32, bytes);
  }
}

TEST(CudaPoolTest, LargeWindowsAreAveraged) {
  std::mt19937_64 random(TestSeed());
  for (const bool last : {false, true}) {
    Case c = {.input = {3, 10}, .output = {3, 10}};
    AddAxis(c, 13, 13, 1);
    AddAxis(c, 11, 11, 1);
    HostTensor input = RandomTensor(DType::kFloat32, last ? ChannelsLast(c.input, 2) : DenseLayout(c.input), random);
    HostTensor output(DType::kFloat32, DenseLayout(c.output));
    Op op;
    *op.mutable_avg_pool() = c.op;
    ExpectReference(reference::MakeAvgPool, PlanAvgPool, op, {&input}, {&output}, cotan::testing::kReduction, {});
    *op.mutable_avg_pool_backward() = c.op;
    HostTensor result(DType::kFloat32, input.layout());
    ExpectReference(reference::MakeAvgPoolBackward, PlanAvgPoolBackward, op, {&output}, {&result},
                    cotan::testing::kReduction, {});
  }
}

TEST(CudaPoolTest, IndexOutsideThePlaneIsReportedAsOnTheCpu) {
  Op op;
  Case c = {.input = {4}, .output = {4}};
  AddAxis(c, 6, 2, 2);
  *op.mutable_max_pool_backward() = c.op;
  HostTensor gradient(DType::kFloat32, {4, 3}, std::vector<double>(12, 1));
  for (const double wrong : {-1.0, 6.0, 1e15}) {
    std::vector<double> values = {0, 2, 4, 1, 3, 5, 0, wrong, 4, 1, 2, 5};
    HostTensor indices(DType::kInt64, {4, 3}, values);
    HostTensor result(DType::kFloat32, {4, 6});
    const absl::Status expected = RunOp(cpu::MakeMaxPoolBackward, op, {&gradient, &indices}, {&result});
    EXPECT_FALSE(expected.ok());
    for (const bool guarded : {false, true}) {
      HostTensor actual(DType::kFloat32, {4, 6});
      const auto run = RunPlan(PlanMaxPoolBackward, op, {&gradient, &indices}, {&actual}, {.guarded_outputs = guarded});
      EXPECT_EQ(run.status(), expected);
    }
  }
}

TEST(CudaPoolTest, GuardedOutputsAreKeptAfterAnError) {
  Op op;
  Case c = {.input = {4}, .output = {4}};
  AddAxis(c, 6, 2, 2);
  HostTensor input(DType::kFloat32, {4, 6}, std::vector<double>(24, 1));
  HostTensor gradient(DType::kFloat32, {4, 3}, std::vector<double>(12, 1));
  HostTensor indices(DType::kInt64, {4, 3}, std::vector<double>(12, 0));
  const RunOptions options = {.guarded_outputs = true, .failed_before = true};
  const auto expect_kept = [&](PlanKernel plan, const std::vector<HostTensor*>& inputs, const DimVector& sizes) {
    HostTensor output(DType::kFloat32, sizes);
    const auto result = RunPlan(plan, op, inputs, {&output}, options);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(std::string(output.bytes().begin(), output.bytes().end()), std::string(output.bytes().size(), '\xa5'));
  };
  *op.mutable_max_pool() = c.op;
  expect_kept(PlanMaxPool, {&input}, c.output);
  *op.mutable_avg_pool() = c.op;
  expect_kept(PlanAvgPool, {&input}, c.output);
  *op.mutable_avg_pool_backward() = c.op;
  expect_kept(PlanAvgPoolBackward, {&gradient}, c.input);
  *op.mutable_max_pool_backward() = c.op;
  expect_kept(PlanMaxPoolBackward, {&gradient, &indices}, c.input);
}

TEST(CudaPoolTest, BackwardsNeedNoLocalMemory) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
    for (const bool channels_last : {false, true}) {
      SCOPED_TRACE(absl::StrCat(DTypeName(dtype), channels_last ? " channels last" : ""));
      Case c = {.input = {32, 32}, .output = {32, 32}};
      AddAxis(c, 14, 2, 2);
      AddAxis(c, 14, 2, 2);
      Op op;
      *op.mutable_max_pool_backward() = c.op;
      const StridedLayout dense = DenseLayout(c.output);
      const StridedLayout last = {c.output, {32 * 49, 1, 32 * 7, 32}};
      const TensorSpec result = {dtype, {c.input, {32 * 196, 1, 32 * 14, 32}}};
      const TensorSpec inputs[] = {{dtype, channels_last ? last : dense}, {DType::kInt64, last}};
      const absl::StatusOr<KernelPlan> plan =
          PlanMaxPoolBackward({.op = op, .inputs = inputs, .outputs = {&result, 1}, .symbols = {}});
      ASSERT_TRUE(plan.ok()) << plan.status();
      const auto resources = CompileForArchitectures(std::get<KernelLaunch>(plan->steps[0]).source);
      ASSERT_TRUE(resources.ok()) << resources.status();
      EXPECT_TRUE(CheckResources(*resources, 64).ok()) << CheckResources(*resources, 64);
    }
  }
}

TEST(CudaPoolTest, PlanesBeyondTwoToThe31HaveWideIndices) {
  Case c;
  AddAxis(c, 70000, 2, 2);
  AddAxis(c, 70000, 2, 2);
  const TensorSpec input = {DType::kFloat32, DenseLayout(c.input)};
  const TensorSpec output = {DType::kFloat32, DenseLayout(c.output)};
  Op op;
  *op.mutable_max_pool() = c.op;
  const absl::StatusOr<KernelPlan> plan =
      PlanMaxPool({.op = op, .inputs = {&input, 1}, .outputs = {&output, 1}, .symbols = {}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_NE(std::get<KernelLaunch>(plan->steps[0]).source.text.find("using Int = cotan::int64"), std::string::npos);
}

}  // namespace
}  // namespace cotan::cuda
