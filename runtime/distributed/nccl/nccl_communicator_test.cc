// SPDX-License-Identifier: Apache-2.0

#include "runtime/distributed/nccl/nccl_communicator.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/test_seed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/api/device.h"
#include "kernels/cuda/device/host_staging.h"
#include "kernels/cuda/nccl/nccl_table.h"
#include "kernels/cuda/testing/sim_device.h"
#include "runtime/distributed/bucket.h"
#include "runtime/distributed/exchange.h"
#include "runtime/distributed/testing/gpu_ranks.h"

namespace cotan {
namespace {

using serialization::Collective;
using serialization::Op;
using ::testing::AllOf;
using testing::GpuRank;
using testing::GpuRanks;
using ::testing::HasSubstr;
using testing::TestSeed;
using Specs = std::vector<TensorSpec>;

absl::StatusOr<std::unique_ptr<Kernel>> Prepare(GpuRank& rank, const Op& op, const Specs& inputs, const Specs& outputs,
                                                absl::string_view name = "collective") {
  return rank.communicator().Prepare(
      {.op = op, .inputs = inputs, .outputs = outputs, .symbols = {}, .device = &rank.device(), .name = name});
}

// Elements in memory of a GPU.
template <typename T>
class Array {
 public:
  Array(GpuRank& rank, std::vector<T> elements)
      : device_(rank.device()), bytes_(elements.size() * sizeof(T)), memory_(*device_.Allocate(bytes_)) {
    EXPECT_TRUE(device_.CopyFromHost(memory_, elements.data(), bytes_).ok());
  }
  Array(Array&& other) noexcept
      : device_(other.device_), bytes_(other.bytes_), memory_(std::exchange(other.memory_, nullptr)) {}
  ~Array() { device_.Free(memory_, bytes_); }

  void* memory() const { return memory_; }
  std::vector<T> Get() const {
    std::vector<T> elements(bytes_ / sizeof(T));
    const absl::Status copied = device_.CopyToHost(elements.data(), memory_, bytes_);
    EXPECT_TRUE(copied.ok()) << copied;
    return elements;
  }

 private:
  cuda::CudaDevice& device_;
  const size_t bytes_;
  void* memory_;
};

template <typename T>
constexpr DType kDType = std::is_same_v<T, double> ? DType::kFloat64 : DType::kFloat32;

TensorSpec Vector(DType dtype, int64_t elements) { return {dtype, {{elements}, {1}, 0}}; }
TensorSpec Token() { return {DType::kBool, {{0}, {1}, 0}}; }

// One is not row-major. Together they have 21 elements, so that shards of two and of three ranks are not aligned.
Specs BucketSpecs(DType dtype) { return {{dtype, {{3, 5}, {1, 3}, 0}}, Vector(dtype, 5), {dtype, {{}, {}, 0}}}; }

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
  auto kernel = Prepare(rank, op, input_specs, one.overlaps ? Specs{Token()} : output_specs);
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  Op wait_op = op;
  wait_op.mutable_collective()->set_function(Collective::WAIT);
  wait_op.mutable_collective()->set_starts(false);
  std::unique_ptr<Kernel> wait;
  if (one.overlaps) wait = *Prepare(rank, wait_op, {Token()}, output_specs);

  std::vector<Array<T>> arrays;
  std::vector<void*> from, to;
  for (const std::vector<T>& values : inputs) from.push_back(arrays.emplace_back(rank, values).memory());
  const size_t num_inputs = arrays.size();
  for (const TensorSpec& spec : output_specs) {
    const std::vector<T> garbage(static_cast<size_t>(NumElements(spec.layout.sizes)), T{99});
    to.push_back(arrays.emplace_back(rank, garbage).memory());
  }
  const Array<char> scratch(rank, std::vector<char>((*kernel)->scratch_bytes() + 1));
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
        const Specs shard = {Vector(kDType<T>, expected.shard_elements())};
        const Case all_reduce = {Collective::ALL_REDUCE, mean, overlaps};
        EXPECT_EQ(RunCollective<T>(rank, all_reduce, bucket, inputs, bucket), Values(expected.Sum()));
        const Case reduce_scatter = {Collective::REDUCE_SCATTER, mean, overlaps};
        EXPECT_EQ(RunCollective<T>(rank, reduce_scatter, bucket, inputs, shard)[0], expected.ShardOfSum(rank.number()));
      }
      const Expected<T> expected(count, false, seed);
      const Specs shard = {Vector(kDType<T>, expected.shard_elements())};
      const Case all_gather = {Collective::ALL_GATHER, false, overlaps};
      EXPECT_EQ(RunCollective<T>(rank, all_gather, shard, {expected.Shard(rank.number())}, bucket),
                Values(expected.Gathered()));
    }
    const Expected<T> expected(count, false, seed);
    const Case shard = {Collective::SHARD};
    EXPECT_EQ(RunCollective<T>(rank, shard, bucket, Values(expected.inputs(rank.number())),
                               {Vector(kDType<T>, expected.shard_elements())})[0],
              expected.Shard(rank.number()));
  });
}

TEST(NcclCommunicatorTest, AllFunctionsAreThoseOfTheCpuBitByBit) {
  for (const int ranks : {1, 2, 3}) {
    ExpectByDefinition<float>(ranks, {.seed = static_cast<uint64_t>(ranks)});
    ExpectByDefinition<double>(ranks, {});
  }
}

TEST(NcclCommunicatorTest, ARecordingWithoutBranchesIsTheSame) {
  GpuRanks ranks(2, {.records_branches = false});
  ranks.RunJoined({}, [](GpuRank& rank) {
    const Expected<float> expected(2, true, 1);
    EXPECT_EQ(RunCollective<float>(rank, {Collective::ALL_REDUCE, true, true}, BucketSpecs(DType::kFloat32),
                                   Values(expected.inputs(rank.number())), BucketSpecs(DType::kFloat32)),
              Values(expected.Sum()));
  });
}

// An all-reduce of two numbers that is queued, and not waited for.
class QueuedReduce {
 public:
  explicit QueuedReduce(GpuRank& rank, absl::string_view name = "collective")
      : array_(rank, {1, 2}), memory_(array_.memory()) {
    Op op;
    op.mutable_collective()->set_function(Collective::ALL_REDUCE);
    const Specs specs = {Vector(DType::kFloat32, 2)};
    kernel_ = *Prepare(rank, op, specs, specs, name);
  }
  absl::Status Run() { return kernel_->Run({.inputs = &memory_, .outputs = &memory_}); }

 private:
  Array<float> array_;
  void* const memory_;
  std::unique_ptr<Kernel> kernel_;
};

TEST(NcclCommunicatorTest, ARankThatHasEndedIsNamedByTheOthers) {
  GpuRanks ranks(3);
  std::atomic<int> num_queued = 0;
  ranks.RunJoined({}, [&](GpuRank& rank) {
    QueuedReduce reduce(rank);
    if (rank.number() == 2) {
      while (num_queued < 2) std::this_thread::yield();
      ranks.group().End(2);
      return;
    }
    EXPECT_TRUE(reduce.Run().ok());
    ++num_queued;
    const absl::Status status = rank.device().Synchronize();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 2 has ended"));
    // Nothing is queued or read any more.
    EXPECT_EQ(reduce.Run(), status);
    std::array<float, 2> numbers = {};
    const Array<float> other(rank, {3, 4});
    EXPECT_EQ(rank.device().CopyToHost(numbers.data(), other.memory(), sizeof(numbers)), status);
    while (rank.nccl().num_aborted() == 0) std::this_thread::yield();
  });
}

TEST(NcclCommunicatorTest, RanksThatRunDifferentCollectivesGetNoResults) {
  GpuRanks ranks(2);
  ranks.RunJoined({}, [](GpuRank& rank) {
    QueuedReduce reduce(rank, rank.number() == 0 ? "train_step" : "apply_optimizer");
    ASSERT_TRUE(reduce.Run().ok());
    const absl::Status status = rank.device().Synchronize();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(rank.number() == 0 ? "rank 1 runs another collective" : "rank 0 runs another collective"));
  });
}

TEST(NcclCommunicatorTest, ABucketWithoutElementsCarriesErrors) {
  GpuRanks ranks(2);
  ranks.RunJoined({}, [](GpuRank& rank) {
    Op op;
    op.mutable_collective()->set_function(Collective::ALL_REDUCE);
    const Specs specs = {Vector(DType::kFloat32, 0)};
    void* const none = nullptr;
    for (const bool differ : {false, true}) {
      const bool is_other = differ && rank.number() == 1;
      const auto kernel = Prepare(rank, op, specs, specs, is_other ? "apply_optimizer" : "train_step");
      ASSERT_TRUE(kernel.ok()) << kernel.status();
      EXPECT_TRUE((*kernel)->Run({.inputs = &none, .outputs = &none}).ok());
      const absl::Status status = rank.device().Synchronize();
      EXPECT_EQ(status.code(), differ ? absl::StatusCode::kFailedPrecondition : absl::StatusCode::kOk) << status;
    }
  });
}

TEST(NcclCommunicatorTest, ACollectiveWhoseStartWasNotWaitedForIsRefused) {
  GpuRanks ranks(1);
  ranks.RunJoined({}, [](GpuRank& rank) {
    const Array<float> array(rank, {1, 2});
    Op op;
    op.mutable_collective()->set_function(Collective::ALL_REDUCE);
    op.mutable_collective()->set_starts(true);
    const auto start = Prepare(rank, op, {Vector(DType::kFloat32, 2)}, {Token()});
    ASSERT_TRUE(start.ok()) << start.status();
    void* const memory = array.memory();
    void* token = nullptr;
    EXPECT_TRUE((*start)->Run({.inputs = &memory, .outputs = &token}).ok());
    const absl::Status again = (*start)->Run({.inputs = &memory, .outputs = &token});
    EXPECT_EQ(again.code(), absl::StatusCode::kFailedPrecondition) << again;
    EXPECT_THAT(std::string(again.message()), HasSubstr("between the start of a collective and its end"));
  });
}

TEST(NcclCommunicatorTest, ARankThatDoesNotTakePartIsATimeout) {
  GpuRanks ranks(2);
  ranks.RunJoined({.timeout = absl::Milliseconds(50)}, [](GpuRank& rank) {
    QueuedReduce reduce(rank);
    if (rank.number() == 1) return;
    ASSERT_TRUE(reduce.Run().ok());
    const absl::Status status = rank.device().Synchronize();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("for 50ms (NcclOptions.timeout)"));
  });
}

// Runs two ranks, of which the second one takes no part in the all-reduce that the first one has queued for `call`.
void ExpectTimeoutAfter(const std::function<void(GpuRank&, std::unique_ptr<QueuedReduce>)>& call) {
  GpuRanks ranks(2);
  ranks.RunJoined({.timeout = absl::Milliseconds(200)}, [&](GpuRank& rank) {
    auto reduce = std::make_unique<QueuedReduce>(rank);
    if (rank.number() == 1) return;
    ASSERT_TRUE(reduce->Run().ok());
    call(rank, std::move(reduce));
    const absl::Status status = rank.device().Synchronize();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("NcclOptions.timeout"));
  });
}

TEST(NcclCommunicatorTest, ACopyThatFindsNoFreeSlotEndsWithTheTimeout) {
  ExpectTimeoutAfter([](GpuRank& rank, std::unique_ptr<QueuedReduce>) {
    const float number = 1;
    void* const memory = *rank.device().Allocate(sizeof(number));
    for (size_t i = 0; i < 2 * cuda::HostStaging::kSlots; ++i) {
      EXPECT_TRUE(rank.device().CopyFromHost(memory, &number, sizeof(number)).ok());
    }
    rank.device().Free(memory, sizeof(number));
  });
}

TEST(NcclCommunicatorTest, TheEndOfAQueuedKernelEndsWithTheTimeout) {
  ExpectTimeoutAfter([](GpuRank&, std::unique_ptr<QueuedReduce> reduce) { reduce = nullptr; });
}

TEST(NcclCommunicatorTest, ARankThatHasLeftIsNamedByOneThatWaitsForIt) {
  GpuRanks ranks(2);
  ranks.RunJoined({.leave_time = absl::Milliseconds(200)}, [&](GpuRank& rank) {
    QueuedReduce reduce(rank);
    if (rank.number() == 1) {
      ranks.group().Leave(1);
      return;
    }
    ASSERT_TRUE(reduce.Run().ok());
    const absl::Status status = rank.device().Synchronize();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 has left"));
  });
}

TEST(NcclCommunicatorTest, ALongWaitDoesNotEndAtOnceWhenARankLeaves) {
  constexpr absl::Duration kLeaveTime = absl::Seconds(2);
  GpuRanks ranks(2);
  ranks.RunJoined({.leave_time = kLeaveTime}, [&](GpuRank& rank) {
    QueuedReduce reduce(rank);
    if (rank.number() == 1) {
      absl::SleepFor(kLeaveTime + absl::Milliseconds(100));  // the other one waits
      ranks.group().Leave(1);                                // before its last work has ended
      absl::SleepFor(absl::Milliseconds(50));
    }
    EXPECT_TRUE(reduce.Run().ok());
    const absl::Status status = rank.device().Synchronize();
    EXPECT_TRUE(status.ok()) << status;
  });
}

TEST(NcclCommunicatorTest, NothingIsReadAfterTheCommunicatorOfRanksThatEndedIsGone) {
  GpuRanks ranks(2);
  std::atomic<bool> is_queued = false;
  ranks.RunJoined({}, [&](GpuRank& rank) {
    const Array<float> array(rank, {3, 4});
    {
      QueuedReduce reduce(rank);
      if (rank.number() == 1) {
        while (!is_queued) std::this_thread::yield();
        ranks.group().End(1);
        return;
      }
      EXPECT_TRUE(reduce.Run().ok());
      is_queued = true;
    }
    rank.Leave();
    std::array<float, 2> numbers = {};
    const absl::Status status = rank.device().CopyToHost(numbers.data(), array.memory(), sizeof(numbers));
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 has ended"));
  });
}

TEST(NcclCommunicatorTest, ADeviceHasOneCommunicatorAtATime) {
  GpuRanks ranks(1);
  ranks.RunJoined({}, [](GpuRank& rank) {
    const absl::Status second = rank.Join(NcclOptions());
    EXPECT_EQ(second.code(), absl::StatusCode::kFailedPrecondition) << second;
    EXPECT_THAT(std::string(second.message()), HasSubstr("has a communicator already"));
  });
}

TEST(NcclCommunicatorTest, AnErrorOfNcclEndsTheWait) {
  GpuRanks ranks(2);
  ranks.RunJoined({}, [](GpuRank& rank) {
    QueuedReduce reduce(rank);
    if (rank.number() == 1) return;
    ASSERT_TRUE(reduce.Run().ok());
    rank.nccl().SetAsyncError(cuda::nccl::ncclRemoteError);
    const absl::Status status = rank.device().Synchronize();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("remote process exited"));
  });
}

TEST(NcclCommunicatorTest, ACallThatConnectsIsLeftBeforeTheCommunicatorIsAborted) {
  GpuRanks ranks(2);
  std::atomic<bool> is_ready = false;
  ranks.RunJoined({}, [&](GpuRank& rank) {
    if (rank.number() == 1) {
      while (!is_ready) std::this_thread::yield();
      absl::SleepFor(absl::Milliseconds(50));  // the other one connects
      ranks.group().End(1);
      return;
    }
    QueuedReduce reduce(rank);
    rank.nccl().StallCalls();
    is_ready = true;
    const absl::Status status = reduce.Run();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 has ended"));
    while (rank.nccl().num_aborted() == 0) std::this_thread::yield();
    EXPECT_EQ(rank.nccl().LastViolation(), "");
  });
}

TEST(NcclCommunicatorTest, ARankThatEndsWhileItJoinsIsNamedByTheOthers) {
  GpuRanks ranks(2);
  ranks.Run([&](GpuRank& rank) {
    if (rank.number() == 0) {
      const absl::Status status = rank.Join(NcclOptions());
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 has ended"));
      EXPECT_TRUE(rank.device().Synchronize().ok());  // nothing was cut off
      return;
    }
    cuda::nccl::NcclTable table = rank.nccl().table();
    table.ncclCommInitRankConfig = [&](auto* communicator, auto&&...) {
      *communicator = nullptr;
      return cuda::nccl::ncclSystemError;
    };
    const absl::Status status = rank.Join(&table);
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("ncclCommInitRankConfig"));
    ranks.group().End(1);
  });
}

TEST(NcclCommunicatorTest, AnErrorOfACallIsThatOfAllLaterCalls) {
  GpuRanks ranks(1);
  ranks.Run([](GpuRank& rank) {
    cuda::nccl::NcclTable table = rank.nccl().table();
    table.ncclGroupEnd = [&, fails = true]() mutable {
      const auto result = rank.nccl().table().ncclGroupEnd();
      return std::exchange(fails, false) ? cuda::nccl::ncclSystemError : result;
    };
    ASSERT_TRUE(rank.Join(&table).ok());
    {
      QueuedReduce reduce(rank);
      const absl::Status status = reduce.Run();
      EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr("ncclGroupEnd()"));
      EXPECT_EQ(reduce.Run(), status);
      EXPECT_EQ(rank.device().Synchronize(), status);
    }
    rank.Leave();
    EXPECT_EQ(rank.nccl().num_aborted(), 1);
  });
}

TEST(NcclCommunicatorTest, ARankWithoutTheLibraryIsNamedByAll) {
  GpuRanks ranks(2);
  ranks.Run([](GpuRank& rank) {
    const absl::Status status =
        rank.number() == 0 ? rank.Join(NcclOptions()) : rank.Join(cuda::nccl::NcclTable::Load("libnone.so.2").status());
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("libnone.so.2"));
    if (rank.number() == 0) {
      EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 cannot use NCCL"));
    }
  });
}

TEST(NcclCommunicatorTest, RanksWithOtherVersionsAreRefused) {
  GpuRanks ranks(2);
  ranks.Run([](GpuRank& rank) {
    cuda::nccl::NcclTable table = rank.nccl().table();
    table.ncclGetVersion = [&](int* version) {
      *version = 22000 + rank.number();
      return cuda::nccl::ncclSuccess;
    };
    const absl::Status status = rank.Join(&table);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("rank 0 has NCCL 22000"), HasSubstr("rank 1 has 22001")));
  });
}

TEST(NcclCommunicatorTest, ProgramsAreComparedAndNeedTheDeviceOfTheCommunicator) {
  GpuRanks ranks(2);
  ranks.RunJoined({}, [](GpuRank& rank) {
    serialization::Artifact artifact;
    serialization::Method& method = *artifact.add_methods();
    method.set_name("run");
    method.add_ops()->mutable_collective()->set_function(Collective::ALL_REDUCE);
    EXPECT_TRUE(rank.communicator().CheckProgram(artifact, rank.device()).ok());
    EXPECT_EQ(rank.communicator().CheckProgram(artifact, HostDevice()).code(), absl::StatusCode::kUnimplemented);
    method.set_name(rank.number() == 0 ? "run" : "other");
    const absl::Status status = rank.communicator().CheckProgram(artifact, rank.device());
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("different programs"));
  });
}

}  // namespace
}  // namespace cotan
