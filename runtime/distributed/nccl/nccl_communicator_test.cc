// SPDX-License-Identifier: Apache-2.0

// Ranks that end, stall, leave or are different, and how a group begins.
#include "runtime/distributed/nccl/nccl_communicator.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/api/device.h"
#include "kernels/cuda/device/host_staging.h"
#include "kernels/cuda/nccl/nccl_table.h"
#include "runtime/distributed/nccl/prepared_collective.h"
#include "runtime/distributed/testing/gpu_ranks.h"
#include "serialization/schema/program.pb.h"

namespace cotan {
namespace {

using serialization::Collective;
using ::testing::AllOf;
using testing::DeviceArray;
using testing::GpuRank;
using testing::GpuRanks;
using ::testing::HasSubstr;
using testing::QueuedReduce;

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
    const DeviceArray<float> other(rank, {3, 4});
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
    const DeviceArray<float> array(rank, {3, 4});
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
