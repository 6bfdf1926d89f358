// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/indexing/checked_index.h"

#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/test_seed.h"
#include "gtest/gtest.h"
#include "kernels/cpu/indexing/checked_index.h"
#include "kernels/cuda/testing/run_plan.h"
#include "kernels/testing/random_case.h"

namespace cotan::cuda {
namespace {

using cotan::testing::HostTensor;
using cotan::testing::RandomLayout;
using cotan::testing::RandomTensor;
using cotan::testing::RunOp;
using cotan::testing::TestSeed;
using serialization::Op;
using testing::RunOptions;
using testing::RunPlan;

Op CheckedIndexOp(const std::string& size, bool from_end = false) {
  Op op;
  op.mutable_checked_index()->set_size(size);
  op.mutable_checked_index()->set_from_end(from_end);
  return op;
}

// The CPU's kernel and the plan agree on the values, or on the error, which is returned.
absl::Status ExpectEqualsCpu(const Op& op, HostTensor& index, const StridedLayout& layout, const RunOptions& options) {
  HostTensor expected(index.dtype(), layout);
  HostTensor actual(index.dtype(), layout);
  const absl::Status error = RunOp(cpu::MakeCheckedIndex, op, {&index}, {&expected}, 1, options.symbols);
  const auto result = RunPlan(PlanCheckedIndex, op, {&index}, {&actual}, options);
  EXPECT_EQ(result.status(), error);
  if (error.ok()) {
    EXPECT_EQ(actual.Values(), expected.Values());
  }
  return error;
}

TEST(CudaCheckedIndexTest, RandomGeometriesEqualTheCpu) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 80; ++round) {
    DimVector sizes(random() % 4);
    for (int64_t& size : sizes) size = static_cast<int64_t>(random() % 9);
    const bool from_end = random() % 2 == 0;
    Op op = CheckedIndexOp("(s0 + 3)", from_end);
    if (random() % 2 == 0) op.mutable_checked_index()->set_ignored(round % 4 == 0 ? -100 : 50);
    const std::vector<int64_t> symbols = {4};
    // Every fourth index has elements out of range.
    const double slack = round % 4 == 3 ? 1 : 0;
    HostTensor index =
        RandomTensor(random() % 2 == 0 ? DType::kInt32 : DType::kInt64,
                     RandomLayout(sizes, random, random() % 2 == 0, true), random, from_end ? -7.9 : 0, 7 + slack);
    if (op.checked_index().has_ignored() && index.numel() > 0) {
      std::vector<double> values = index.Values();
      values[random() % values.size()] = static_cast<double>(op.checked_index().ignored());
      index.SetValues(values);
    }
    const absl::Status error =
        ExpectEqualsCpu(op, index, RandomLayout(sizes, random, random() % 2 == 0, false),
                        {.symbols = symbols, .guarded_outputs = random() % 2 == 0, .seed = random()});
    if (slack == 0) {
      EXPECT_TRUE(error.ok()) << error;
    }
  }
}

TEST(CudaCheckedIndexTest, LowestPositionIsReportedForAnyOrderOfBlocks) {
  for (const bool guarded : {false, true}) {
    for (const uint64_t seed : {0, 1, 2, 3}) {
      HostTensor index(DType::kInt64, {30, 100});
      std::vector<double> values(3000, 1);
      for (size_t i = 1111; i < 3000; i += 7) values[i] = 5 + static_cast<double>(i);
      index.SetValues(values);
      EXPECT_FALSE(
          ExpectEqualsCpu(CheckedIndexOp("5"), index, index.layout(), {.guarded_outputs = guarded, .seed = seed}).ok());
    }
  }
}

// Runs ops of equal geometry as a group, named "op 0" and so on.
absl::Status RunGroup(const std::vector<Op>& ops, const std::vector<HostTensor*>& indexes,
                      const std::vector<HostTensor*>& outputs, const RunOptions& options, int* launches) {
  const auto plan = [&](const KernelRequest& whole) -> absl::StatusOr<KernelPlan> {
    std::vector<std::string> names;
    for (size_t i = 0; i < ops.size(); ++i) names.push_back(absl::StrCat("op ", i));
    std::vector<KernelRequest> requests;
    for (size_t i = 0; i < ops.size(); ++i) {
      requests.push_back({.op = ops[i],
                          .inputs = whole.inputs.subspan(i, 1),
                          .outputs = whole.outputs.subspan(i, 1),
                          .symbols = whole.symbols,
                          .guarded_outputs = whole.guarded_outputs,
                          .name = names[i]});
    }
    return PlanCheckedIndexGroup(requests);
  };
  const auto result = RunPlan(plan, ops[0], indexes, outputs, options);
  if (result.ok()) *launches = result->launches;
  return result.status();
}

TEST(CudaCheckedIndexTest, AGroupIsOneLaunchWithTheValuesOfItsOpsOrTheErrorOfTheFirst) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 24; ++round) {
    const size_t count = round == 0 ? 70 : 1 + random() % 5;  // 64 ops to a launch
    std::vector<Op> ops;
    std::vector<HostTensor> indexes, expected, actual;
    absl::Status error;
    for (size_t i = 0; i < count; ++i) {
      const auto size = static_cast<int64_t>(round == 0 ? 1 : random() % 700);
      const DType dtype = random() % 2 == 0 ? DType::kInt32 : DType::kInt64;
      ops.push_back(CheckedIndexOp("7", random() % 2 == 0));
      const double slack = round % 3 == 2 && random() % 2 == 0 ? 1 : 0;
      indexes.push_back(RandomTensor(dtype, RandomLayout({size}, random, true, true), random, 0, 6 + slack));
      expected.emplace_back(dtype, DimVector{size});
      actual.emplace_back(dtype, DimVector{size});
      const absl::Status own = RunOp(cpu::MakeCheckedIndex, ops[i], {&indexes[i]}, {&expected[i]}, 1, {});
      if (error.ok() && !own.ok()) error = absl::Status(own.code(), absl::StrCat("op ", i, ": ", own.message()));
    }
    std::vector<HostTensor*> inputs, outputs;
    for (HostTensor& index : indexes) inputs.push_back(&index);
    for (HostTensor& output : actual) outputs.push_back(&output);
    int launches = 0;
    EXPECT_EQ(RunGroup(ops, inputs, outputs, {.seed = random()}, &launches), error);
    if (!error.ok()) continue;
    EXPECT_LE(launches, round == 0 ? 2 : 1);
    for (size_t i = 0; i < count; ++i) EXPECT_EQ(actual[i].Values(), expected[i].Values());
  }
}

TEST(CudaCheckedIndexTest, AGroupHasNoGuardedOutputs) {
  HostTensor index(DType::kInt32, {2}, {0, 0});
  HostTensor output(DType::kInt32, {2});
  int launches = 0;
  EXPECT_EQ(RunGroup({CheckedIndexOp("3")}, {&index}, {&output}, {.guarded_outputs = true}, &launches).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(CudaCheckedIndexTest, AnyIndexOfAnEmptyRangeIsAnError) {
  HostTensor index(DType::kInt32, {2}, {0, 0});
  EXPECT_FALSE(ExpectEqualsCpu(CheckedIndexOp("0"), index, index.layout(), {}).ok());
}

TEST(CudaCheckedIndexTest, GuardedOutputsAreKeptAfterAnError) {
  HostTensor index(DType::kInt32, {2}, {9, 0});
  HostTensor output(DType::kInt32, {2});
  const auto result = RunPlan(PlanCheckedIndex, CheckedIndexOp("3"), {&index}, {&output},
                              {.guarded_outputs = true, .failed_before = true});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(output.bytes()[0], '\xa5');
}

TEST(CudaCheckedIndexTest, NegativeSizesAreRejected) {
  HostTensor index(DType::kInt32, {2}, {0, 0});
  HostTensor output(DType::kInt32, {2});
  EXPECT_EQ(RunPlan(PlanCheckedIndex, CheckedIndexOp("-1"), {&index}, {&output}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace cotan::cuda
