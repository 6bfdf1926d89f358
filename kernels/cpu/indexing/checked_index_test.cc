// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/indexing/checked_index.h"

#include <random>
#include <vector>

#include "base/test_seed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/testing/host_tensor.h"
#include "kernels/testing/random_case.h"

namespace cotan::cpu {
namespace {

using serialization::Op;
using ::testing::ElementsAre;
using testing::GapsAreUntouched;
using testing::HostTensor;
using testing::RandomLayout;
using testing::RandomTensor;
using testing::RunOp;
using testing::TestSeed;

Op CheckedIndexOp(const std::string& size, bool from_end = false) {
  Op op;
  op.mutable_checked_index()->set_size(size);
  op.mutable_checked_index()->set_from_end(from_end);
  return op;
}

TEST(CheckedIndexTest, PassesIndexesOfAnyLayoutOn) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 100; ++round) {
    const DType dtype = random() % 2 == 0 ? DType::kInt32 : DType::kInt64;
    DimVector sizes(random() % 4);
    for (int64_t& size : sizes) size = static_cast<int64_t>(random() % 6);
    HostTensor index = RandomTensor(dtype, RandomLayout(sizes, random, true, true), random, -7, 7);
    std::vector<double> expected = index.Values();
    for (double& value : expected) value = value < 0 ? value + 7 : value;
    HostTensor output(dtype, RandomLayout(sizes, random, random() % 2 == 0, false));
    ASSERT_TRUE(RunOp(MakeCheckedIndex, CheckedIndexOp("7", true), {&index}, {&output}).ok());
    EXPECT_EQ(output.Values(), expected);
    EXPECT_TRUE(GapsAreUntouched(output));
  }
}

TEST(CheckedIndexTest, NamesTheFirstElementOutOfRange) {
  HostTensor index(DType::kInt64, {2, 3}, {0, 3, 1, 4, 2, -1});
  HostTensor output(DType::kInt64, {2, 3});
  EXPECT_EQ(RunOp(MakeCheckedIndex, CheckedIndexOp("4"), {&index}, {&output}),
            absl::InvalidArgumentError("checked_index: index[1,0] is 4, outside [0, 4)"));
  EXPECT_EQ(RunOp(MakeCheckedIndex, CheckedIndexOp("(s0 + 1)"), {&index}, {&output}, 1, {4}),
            absl::InvalidArgumentError("checked_index: index[1,2] is -1, outside [0, 5)"));
  EXPECT_TRUE(RunOp(MakeCheckedIndex, CheckedIndexOp("5", true), {&index}, {&output}).ok());
  EXPECT_THAT(output.Values(), ElementsAre(0, 3, 1, 4, 2, 4));
}

TEST(CheckedIndexTest, TheIgnoredValuePasses) {
  Op op = CheckedIndexOp("4");
  op.mutable_checked_index()->set_ignored(-100);
  HostTensor index(DType::kInt32, {3}, {-100, 3, -100});
  HostTensor output(DType::kInt32, {3});
  ASSERT_TRUE(RunOp(MakeCheckedIndex, op, {&index}, {&output}).ok());
  EXPECT_THAT(output.Values(), ElementsAre(-100, 3, -100));
  HostTensor bad(DType::kInt32, {3}, {-100, -99, 3});
  EXPECT_EQ(
      RunOp(MakeCheckedIndex, op, {&bad}, {&output}),
      absl::InvalidArgumentError("checked_index: index[1] is -99, outside [0, 4) and not -100, which is ignored"));
}

TEST(CheckedIndexTest, FindsOneBadElementAmongMany) {
  constexpr int64_t kCount = 100000;
  std::vector<double> values(kCount, 1);
  HostTensor output(DType::kInt64, {kCount});
  for (const int64_t bad : {int64_t{0}, int64_t{50001}, kCount - 1}) {
    values[static_cast<size_t>(bad)] = 2;
    HostTensor index(DType::kInt64, {kCount}, values);
    EXPECT_EQ(RunOp(MakeCheckedIndex, CheckedIndexOp("2"), {&index}, {&output}, 2),
              absl::InvalidArgumentError(absl::StrCat("checked_index: index[", bad, "] is 2, outside [0, 2)")));
    values[static_cast<size_t>(bad)] = 1;
  }
}

}  // namespace
}  // namespace cotan::cpu
