// SPDX-License-Identifier: Apache-2.0

// The results of collectives on ranks with simulated GPUs.
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/test_seed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/testing/sim_device.h"
#include "runtime/distributed/bucket.h"
#include "runtime/distributed/exchange.h"
#include "runtime/distributed/nccl/prepared_collective.h"
#include "runtime/distributed/testing/gpu_ranks.h"
#include "serialization/schema/program.pb.h"

namespace cotan {
namespace {

using serialization::Collective;
using serialization::Op;
using testing::DeviceArray;
using testing::GpuRank;
using testing::GpuRanks;
using ::testing::HasSubstr;
using testing::PrepareCollective;
using testing::TestSeed;
using testing::VectorSpec;
using Specs = std::vector<TensorSpec>;

template <typename T>
constexpr DType kDType = std::is_same_v<T, double> ? DType::kFloat64 : DType::kFloat32;

TensorSpec Token() { return {DType::kBool, {{0}, {1}, 0}}; }

// One is not row-major. Together they have 21 elements, so that shards of two and of three ranks are not aligned.
Specs BucketSpecs(DType dtype) { return {{dtype, {{3, 5}, {1, 3}, 0}}, VectorSpec(dtype, 5), {dtype, {{}, {}, 0}}}; }

// The content of the tensors of BucketSpecs() on one rank.
template <typename T>
struct Tensors {
  std::array<std::vector<T>, 3> values;
  std::array<void*, 3> addresses = {};

  void* const* pointers() {
    for (size_t i = 0; i < values.size(); ++i) addresses[i] = values[i].data();
    return addresses.data();
  }
};

// Results by definition, of tensors that are drawn for all ranks.
template <typename T>
class Expected {
 public:
  Expected(int ranks, bool mean, uint64_t seed)
      : bucket_(*Bucket::Of(BucketSpecs(kDType<T>))), shard_(static_cast<size_t>(bucket_.ShardElements(ranks))) {
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<T> draw(-1, 1);
    std::vector<const char*> parts;
    for (int r = 0; r < ranks; ++r) {
      Tensors<T>& tensors = inputs_.emplace_back(Empty());
      for (std::vector<T>& values : tensors.values) {
        for (T& value : values) value = draw(random);
      }
      std::vector<T>& packed = buckets_.emplace_back(shard_ * static_cast<size_t>(ranks));
      bucket_.Pack(tensors.pointers(), reinterpret_cast<char*>(packed.data()));
      const std::vector<T> shard = ShardOf(packed, r);
      gathered_.insert(gathered_.end(), shard.begin(), shard.end());
    }
    for (const std::vector<T>& packed : buckets_) parts.push_back(reinterpret_cast<const char*>(packed.data()));
    sum_.resize(buckets_[0].size());
    SumParts(kDType<T>, parts, static_cast<int64_t>(sum_.size()), mean, reinterpret_cast<char*>(sum_.data()));
  }

  int64_t shard_elements() const { return static_cast<int64_t>(shard_); }
  const Tensors<T>& inputs(int rank) const { return inputs_[static_cast<size_t>(rank)]; }
  std::vector<T> Shard(int rank) const { return ShardOf(buckets_[static_cast<size_t>(rank)], rank); }
  std::vector<T> ShardOfSum(int rank) const { return ShardOf(sum_, rank); }
  Tensors<T> Sum() const { return Unpacked(sum_); }
  Tensors<T> Gathered() const { return Unpacked(gathered_); }
  static Tensors<T> Empty() { return {.values = {std::vector<T>(15), std::vector<T>(5), std::vector<T>(1)}}; }

 private:
  std::vector<T> ShardOf(const std::vector<T>& bucket, int rank) const {
    const auto first = bucket.begin() + static_cast<std::ptrdiff_t>(shard_) * rank;
    return std::vector<T>(first, first + static_cast<std::ptrdiff_t>(shard_));
  }
  Tensors<T> Unpacked(const std::vector<T>& bucket) const {
    Tensors<T> tensors = Empty();
    bucket_.Unpack(reinterpret_cast<const char*>(bucket.data()), tensors.pointers());
    return tensors;
  }

  const Bucket bucket_;
  const size_t shard_;
  std::vector<Tensors<T>> inputs_;
  std::vector<std::vector<T>> buckets_;  // padded
  std::vector<T> sum_, gathered_;
};

struct Case {
  Collective::Function function = Collective::ALL_REDUCE;
  bool mean = false;
  bool overlaps = false;  // as a start and a wait
};

// Runs a collective once as it is, and twice recorded.
template <typename T>
std::vector<std::vector<T>> RunCollective(GpuRank& rank, const Case& one, const Specs& input_specs,
                                          const std::vector<std::vector<T>>& inputs, const Specs& output_specs) {
  Op op;
  op.mutable_collective()->set_function(one.function);
  op.mutable_collective()->set_mean(one.mean);
  op.mutable_collective()->set_ranks(rank.size());
  op.mutable_collective()->set_starts(one.overlaps);
  auto kernel = PrepareCollective(rank, op, input_specs, one.overlaps ? Specs{Token()} : output_specs);
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  Op wait_op = op;
  wait_op.mutable_collective()->set_function(Collective::WAIT);
  wait_op.mutable_collective()->set_starts(false);
  std::unique_ptr<Kernel> wait;
  if (one.overlaps) wait = *PrepareCollective(rank, wait_op, {Token()}, output_specs);

  std::vector<DeviceArray<T>> arrays;
  std::vector<void*> from, to;
  for (const std::vector<T>& values : inputs) from.push_back(arrays.emplace_back(rank, values).memory());
  const size_t num_inputs = arrays.size();
  for (const TensorSpec& spec : output_specs) {
    const std::vector<T> garbage(static_cast<size_t>(NumElements(spec.layout.sizes)), T{99});
    to.push_back(arrays.emplace_back(rank, garbage).memory());
  }
  const DeviceArray<char> scratch(rank, std::vector<char>((*kernel)->scratch_bytes() + 1));
  const auto run = [&]() -> absl::Status {
    void* token = nullptr;
    const KernelArgs whole = {from.data(), one.overlaps ? &token : to.data(), scratch.memory()};
    absl::Status status = (*kernel)->Run(whole);
    if (status.ok() && one.overlaps) status = wait->Run({.inputs = &token, .outputs = to.data()});
    return status;
  };
  EXPECT_TRUE(run().ok());
  std::vector<std::vector<T>> first, last;
  for (size_t i = num_inputs; i < arrays.size(); ++i) first.push_back(arrays[i].Get());
  const auto recorded = rank.device().Record(run);
  EXPECT_TRUE(recorded.ok()) << recorded.status();
  for (int i = 0; i < 2; ++i) EXPECT_TRUE((*recorded)->Run().ok());
  for (size_t i = num_inputs; i < arrays.size(); ++i) last.push_back(arrays[i].Get());
  EXPECT_EQ(first, last);
  return first;
}

template <typename T>
std::vector<std::vector<T>> Values(const Tensors<T>& tensors) {
  return std::vector<std::vector<T>>(tensors.values.begin(), tensors.values.end());
}

template <typename T>
void ExpectByDefinition(int count, const cuda::testing::SimDevice::Options& options) {
  const uint64_t seed = TestSeed();
  const Specs bucket = BucketSpecs(kDType<T>);
  GpuRanks ranks(count, options);
  ranks.RunJoined({}, [&](GpuRank& rank) {
    for (const bool overlaps : {false, true}) {
      for (const bool mean : {false, true}) {
        const Expected<T> expected(count, mean, seed);
        const auto inputs = Values(expected.inputs(rank.number()));
        const Specs shard = {VectorSpec(kDType<T>, expected.shard_elements())};
        const Case all_reduce = {Collective::ALL_REDUCE, mean, overlaps};
        EXPECT_EQ(RunCollective<T>(rank, all_reduce, bucket, inputs, bucket), Values(expected.Sum()));
        const Case reduce_scatter = {Collective::REDUCE_SCATTER, mean, overlaps};
        EXPECT_EQ(RunCollective<T>(rank, reduce_scatter, bucket, inputs, shard)[0], expected.ShardOfSum(rank.number()));
      }
      const Expected<T> expected(count, false, seed);
      const Specs shard = {VectorSpec(kDType<T>, expected.shard_elements())};
      const Case all_gather = {Collective::ALL_GATHER, false, overlaps};
      EXPECT_EQ(RunCollective<T>(rank, all_gather, shard, {expected.Shard(rank.number())}, bucket),
                Values(expected.Gathered()));
    }
    const Expected<T> expected(count, false, seed);
    const Case shard = {Collective::SHARD};
    EXPECT_EQ(RunCollective<T>(rank, shard, bucket, Values(expected.inputs(rank.number())),
                               {VectorSpec(kDType<T>, expected.shard_elements())})[0],
              expected.Shard(rank.number()));
  });
}

TEST(NcclCollectivesTest, AllFunctionsAreThoseOfTheCpuBitByBit) {
  for (const int ranks : {1, 2, 3}) {
    ExpectByDefinition<float>(ranks, {.seed = static_cast<uint64_t>(ranks)});
    ExpectByDefinition<double>(ranks, {});
  }
}

TEST(NcclCollectivesTest, ARecordingWithoutBranchesIsTheSame) {
  GpuRanks ranks(2, {.records_branches = false});
  ranks.RunJoined({}, [](GpuRank& rank) {
    const Expected<float> expected(2, true, 1);
    EXPECT_EQ(RunCollective<float>(rank, {Collective::ALL_REDUCE, true, true}, BucketSpecs(DType::kFloat32),
                                   Values(expected.inputs(rank.number())), BucketSpecs(DType::kFloat32)),
              Values(expected.Sum()));
  });
}

TEST(NcclCollectivesTest, ABucketWithoutElementsCarriesErrors) {
  GpuRanks ranks(2);
  ranks.RunJoined({}, [](GpuRank& rank) {
    Op op;
    op.mutable_collective()->set_function(Collective::ALL_REDUCE);
    const Specs specs = {VectorSpec(DType::kFloat32, 0)};
    void* const none = nullptr;
    for (const bool differ : {false, true}) {
      const bool is_other = differ && rank.number() == 1;
      const auto kernel = PrepareCollective(rank, op, specs, specs, is_other ? "apply_optimizer" : "train_step");
      ASSERT_TRUE(kernel.ok()) << kernel.status();
      EXPECT_TRUE((*kernel)->Run({.inputs = &none, .outputs = &none}).ok());
      const absl::Status status = rank.device().Synchronize();
      EXPECT_EQ(status.code(), differ ? absl::StatusCode::kFailedPrecondition : absl::StatusCode::kOk) << status;
    }
  });
}

TEST(NcclCollectivesTest, ACollectiveWhoseStartWasNotWaitedForIsRefused) {
  GpuRanks ranks(1);
  ranks.RunJoined({}, [](GpuRank& rank) {
    const DeviceArray<float> array(rank, {1, 2});
    Op op;
    op.mutable_collective()->set_function(Collective::ALL_REDUCE);
    op.mutable_collective()->set_starts(true);
    const auto start = PrepareCollective(rank, op, {VectorSpec(DType::kFloat32, 2)}, {Token()});
    ASSERT_TRUE(start.ok()) << start.status();
    void* const memory = array.memory();
    void* token = nullptr;
    EXPECT_TRUE((*start)->Run({.inputs = &memory, .outputs = &token}).ok());
    const absl::Status again = (*start)->Run({.inputs = &memory, .outputs = &token});
    EXPECT_EQ(again.code(), absl::StatusCode::kFailedPrecondition) << again;
    EXPECT_THAT(std::string(again.message()), HasSubstr("between the start of a collective and its end"));
  });
}

}  // namespace
}  // namespace cotan
