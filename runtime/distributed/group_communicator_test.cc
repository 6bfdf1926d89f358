// SPDX-License-Identifier: Apache-2.0

#include "runtime/distributed/group_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "kernels/api/device.h"
#include "runtime/distributed/single_rank.h"

namespace cotan {
namespace {

using serialization::Collective;
using serialization::Op;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TensorSpec Spec(DType dtype, DimVector sizes) {
  DimVector strides = ContiguousStrides(sizes);
  return {dtype, {std::move(sizes), std::move(strides)}};
}

TensorSpec F32(DimVector sizes) { return Spec(DType::kFloat32, std::move(sizes)); }
TensorSpec Token() { return Spec(DType::kBool, {0}); }

Op OpOf(Collective::Function function, int64_t ranks = 1, bool starts = false) {
  Op op;
  op.mutable_collective()->set_function(function);
  op.mutable_collective()->set_ranks(ranks);
  op.mutable_collective()->set_starts(starts);
  return op;
}

using Specs = std::vector<TensorSpec>;

class GroupCommunicatorTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const Op& op, const Specs& inputs, const Specs& outputs) {
    return group_.Prepare({.op = op, .inputs = inputs, .outputs = outputs, .symbols = {}});
  }
  void ExpectRefused(const Op& op, const Specs& inputs, const Specs& outputs, const std::string& words) {
    const auto kernel = Prepare(op, inputs, outputs);
    EXPECT_THAT(std::string(kernel.status().message()), HasSubstr(words));
  }

  SingleRank group_;
};

TEST_F(GroupCommunicatorTest, ABucketHasItsTensorsInRowMajorOrder) {
  TensorSpec columns = F32({2, 2});
  columns.layout.strides = {1, 2};
  auto kernel = Prepare(OpOf(Collective::ALL_REDUCE, 0), {columns, F32({1})}, {F32({2, 2}), F32({1})});
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  std::array<float, 4> a = {1, 2, 3, 4}, c = {};
  std::array<float, 1> b = {5}, d = {};
  std::array<void*, 2> inputs = {a.data(), b.data()}, outputs = {c.data(), d.data()};
  ASSERT_TRUE((*kernel)->Run({inputs.data(), outputs.data()}).ok());
  EXPECT_THAT(c, ElementsAre(1, 3, 2, 4));
  EXPECT_THAT(d, ElementsAre(5));
}

TEST_F(GroupCommunicatorTest, AWaitDeliversWhatWasStarted) {
  auto start = Prepare(OpOf(Collective::ALL_REDUCE, 0, true), {F32({2})}, {Token()});
  auto wait = Prepare(OpOf(Collective::WAIT, 0), {Token()}, {F32({2})});
  ASSERT_TRUE(start.ok() && wait.ok()) << start.status() << wait.status();
  std::array<float, 2> a = {1, 2}, b = {};
  void *input = a.data(), *output = b.data(), *token = nullptr;
  ASSERT_TRUE((*start)->Run({&input, &token}).ok());
  a = {9, 9};
  ASSERT_TRUE((*wait)->Run({&token, &output}).ok());
  EXPECT_THAT(b, ElementsAre(1, 2));
}

TEST_F(GroupCommunicatorTest, ACallAfterOneThatFailedHalfwayIsRefused) {
  auto start = Prepare(OpOf(Collective::ALL_REDUCE, 0, true), {F32({2})}, {Token()});
  ASSERT_TRUE(start.ok());
  std::array<float, 2> a = {1, 2};
  void *input = a.data(), *token = nullptr;
  ASSERT_TRUE((*start)->Run({&input, &token}).ok());
  const absl::Status again = (*start)->Run({&input, &token});
  EXPECT_EQ(again.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(again.message()), HasSubstr("an earlier call failed"));
}

TEST_F(GroupCommunicatorTest, AShardIsPaddedWithZeros) {
  const absl::StatusOr<Bucket> bucket = Bucket::Of({F32({2}), F32({3})});
  ASSERT_TRUE(bucket.ok());
  EXPECT_EQ(bucket->ShardElements(2), 3);
  std::array<float, 2> a = {1, 2};
  std::array<float, 3> b = {3, 4, 5}, part = {};
  std::array<void*, 2> tensors = {a.data(), b.data()};
  bucket->PackPart(tensors.data(), 3, 3, reinterpret_cast<char*>(part.data()), nullptr);
  EXPECT_THAT(part, ElementsAre(4, 5, 0));
}

TEST_F(GroupCommunicatorTest, SumsAreFormedInTheOrderOfTheRanks) {
  // 1 is lost beside 2^24, unless the large numbers cancel first.
  const float large = 16777216;
  std::array<float, 1> a = {large}, b = {1}, c = {-large};
  const auto bytes = [](std::array<float, 1>& value) { return reinterpret_cast<char*>(value.data()); };
  const std::array<const char*, 3> parts = {bytes(a), bytes(b), bytes(c)};
  SumParts(DType::kFloat32, parts, 1, /*mean=*/false, bytes(b));
  EXPECT_EQ(b[0], 0);
  b = {1};
  const std::array<const char*, 3> other = {bytes(a), bytes(c), bytes(b)};
  SumParts(DType::kFloat32, other, 1, /*mean=*/true, bytes(c));
  EXPECT_EQ(c[0], 1.0F / 3);
}

TEST_F(GroupCommunicatorTest, RefusesWhatAProgramMayNotHave) {
  ExpectRefused(OpOf(Collective::ALL_REDUCE, 2), {F32({2})}, {F32({2})}, "compiled for 2 ranks");
  ExpectRefused(OpOf(Collective::SHARD, 0), {F32({2})}, {F32({2})}, "compiled for 0 ranks");
  ExpectRefused(OpOf(Collective::ALL_REDUCE), {}, {}, "has no tensors");
  ExpectRefused(OpOf(Collective::ALL_REDUCE), {F32({2})}, {F32({3})}, "other types than its inputs");
  ExpectRefused(OpOf(Collective::ALL_REDUCE), {F32({2})}, {F32({2}), F32({2})}, "other types than its inputs");
  ExpectRefused(OpOf(Collective::ALL_REDUCE), {Spec(DType::kInt32, {2})}, {Spec(DType::kInt32, {2})},
                "only f32 and f64");
  ExpectRefused(OpOf(Collective::ALL_REDUCE), {F32({2}), Spec(DType::kFloat64, {2})}, {F32({2})}, "of f32 and of f64");
  ExpectRefused(OpOf(Collective::ALL_REDUCE, 0, true), {F32({2})}, {F32({2})}, "not one token");
  ExpectRefused(OpOf(Collective::REDUCE_SCATTER), {F32({2})}, {F32({3})},
                "the shard has 3 elements of f32, expected 2");
  ExpectRefused(OpOf(Collective::ALL_GATHER), {F32({2})}, {F32({3})}, "do not make a bucket of 3");
  ExpectRefused(OpOf(Collective::SHARD), {F32({2})}, {F32({1})}, "the shard has 1 elements of f32, expected 2");
  ExpectRefused(OpOf(Collective::WAIT, 0), {Token()}, {F32({2})}, "waits for a collective that it did not start");
  ExpectRefused(OpOf(Collective::FUNCTION_UNSPECIFIED), {F32({2})}, {F32({2})}, "is unknown");
}

TEST_F(GroupCommunicatorTest, AWaitForResultsOfOtherTypesIsRefused) {
  auto start = Prepare(OpOf(Collective::ALL_REDUCE, 0, true), {F32({2})}, {Token()});
  ASSERT_TRUE(start.ok());
  ExpectRefused(OpOf(Collective::WAIT, 0), {Token()}, {F32({3})}, "other types than its inputs");
}

}  // namespace
}  // namespace cotan
