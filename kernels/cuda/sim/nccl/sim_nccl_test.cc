// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/nccl/sim_nccl.h"

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/testing/sim_device.h"

namespace cotan::cuda::sim {
namespace {

using namespace nccl;  // The vendor's names. NOLINT(google-build-using-namespace)
using cuda::testing::SimDevice;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr size_t kCount = 4;
constexpr size_t kBytes = 2 * kCount * sizeof(float);

// A rank: a GPU with memory of 2 * kCount numbers, and its communicator.
class Rank {
 public:
  Rank(SimNcclNetwork& network, int number) : number_(number) {
    gpu_ = *SimDevice::Create({.on_violation = [](absl::string_view) {}});
    nccl_ = std::make_unique<SimNccl>(network, gpu_->gpu());
    memory_ = *gpu_->device().Allocate(kBytes);
  }
  ~Rank() { gpu_->device().Free(memory_, kBytes); }

  ncclResult_t Join(const ncclUniqueId& id, int ranks = 2, int blocking = 1) {
    ncclConfig_t config;
    config.blocking = blocking;
    return table().ncclCommInitRankConfig(&communicator_, ranks, id, number_, &config);
  }
  // Returns the result of the last call.
  ncclResult_t Poll() {
    ncclResult_t result = ncclInternalError;
    EXPECT_EQ(table().ncclCommGetAsyncError(communicator_, &result), ncclSuccess);
    return result;
  }
  void Set(const std::array<float, 2 * kCount>& values) {
    ASSERT_TRUE(device().CopyFromHost(memory_, values.data(), kBytes).ok());
  }
  absl::StatusOr<std::vector<float>> Get() {
    std::vector<float> values(2 * kCount);
    const absl::Status status = device().CopyToHost(values.data(), memory_, kBytes);
    if (!status.ok()) return status;
    return values;
  }
  ncclResult_t Gather(size_t count = kCount) {
    return table().ncclAllGather(part(number_), memory_, count, ncclFloat32, communicator_, stream());
  }

  int number() const { return number_; }
  float* part(int i) const { return static_cast<float*>(memory_) + i * static_cast<int>(kCount); }
  CudaDevice& device() { return gpu_->device(); }
  cudaStream_t stream() { return device().stream(); }
  SimGpu& gpu() { return gpu_->gpu(); }
  SimNccl& nccl() { return *nccl_; }
  const NcclTable& table() { return nccl_->table(); }
  ncclComm_t communicator() const { return communicator_; }

 private:
  const int number_;
  std::unique_ptr<SimDevice> gpu_;
  std::unique_ptr<SimNccl> nccl_;
  void* memory_ = nullptr;
  ncclComm_t communicator_ = nullptr;
};

class SimNcclTest : public ::testing::Test {
 protected:
  // Runs a function for two ranks that have joined a group, each in a thread with its own GPU.
  void RunRanks(const std::function<void(Rank&)>& function) {
    Rank first(network_, 0), second(network_, 1);
    std::vector<std::thread> threads;
    for (Rank* const rank : {&first, &second}) {
      threads.emplace_back([this, rank, &function] {
        ASSERT_EQ(rank->Join(id_), ncclSuccess) << rank->nccl().LastViolation();
        function(*rank);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  SimNcclNetwork network_;
  const ncclUniqueId id_ = {"the group"};
};

TEST_F(SimNcclTest, PartsOfAllRanksAreGathered) {
  RunRanks([](Rank& rank) {
    const float first = rank.number() == 0 ? 1 : 5;
    std::array<float, 2 * kCount> values = {};
    for (size_t i = 0; i < kCount; ++i)
      values[static_cast<size_t>(rank.number()) * kCount + i] = first + static_cast<float>(i);
    rank.Set(values);
    ASSERT_EQ(rank.Gather(), ncclSuccess) << rank.nccl().LastViolation();
    const auto gathered = rank.Get();
    ASSERT_TRUE(gathered.ok()) << gathered.status();
    EXPECT_THAT(*gathered, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
    EXPECT_EQ(rank.nccl().num_transfers(), 1);
    ASSERT_EQ(rank.table().ncclCommDestroy(rank.communicator()), ncclSuccess);
    EXPECT_EQ(rank.nccl().num_communicators(), 0);
  });
}

TEST_F(SimNcclTest, AGroupOfSendsAndReceivesIsOneTransferAlsoInAGraph) {
  RunRanks([](Rank& rank) {
    const int other = 1 - rank.number();
    const float own = rank.number() == 0 ? 3 : 4;
    const auto work = rank.device().Record([&]() -> absl::Status {
      const NcclTable& nccl = rank.table();
      COTAN_NCCL_RETURN_IF_ERROR(nccl, ncclGroupStart());
      COTAN_NCCL_RETURN_IF_ERROR(
          nccl, ncclSend(rank.part(0), kCount, ncclFloat32, other, rank.communicator(), rank.stream()));
      COTAN_NCCL_RETURN_IF_ERROR(
          nccl, ncclRecv(rank.part(1), kCount, ncclFloat32, other, rank.communicator(), rank.stream()));
      COTAN_NCCL_RETURN_IF_ERROR(nccl, ncclGroupEnd());
      return absl::OkStatus();
    });
    ASSERT_TRUE(work.ok()) << work.status();
    EXPECT_EQ(rank.nccl().num_transfers(), 1);
    for (const float factor : {1.0f, 10.0f}) {
      const float sent = own * factor, received = (7 - own) * factor;
      rank.Set({sent, sent, sent, sent});
      ASSERT_TRUE((*work)->Run().ok());
      const auto values = rank.Get();
      ASSERT_TRUE(values.ok()) << values.status();
      EXPECT_THAT(*values, ElementsAre(sent, sent, sent, sent, received, received, received, received));
    }
  });
}

TEST_F(SimNcclTest, CallsGoOnWhenTheyAreAskedForIfTheyDoNotBlock) {
  const ncclUniqueId id = {"both"};
  Rank rank(network_, 0), other(network_, 1);
  rank.Set({});
  ASSERT_EQ(rank.Join(id, /*ranks=*/2, /*blocking=*/0), ncclInProgress);
  EXPECT_EQ(rank.Poll(), ncclInProgress);
  EXPECT_EQ(rank.Gather(), ncclInvalidArgument);
  EXPECT_THAT(rank.nccl().LastViolation(), HasSubstr("in progress"));
  ASSERT_EQ(other.Join(id, /*ranks=*/2, /*blocking=*/0), ncclInProgress);
  EXPECT_EQ(rank.Poll(), ncclSuccess);
  ASSERT_EQ(rank.Gather(), ncclInProgress);
  EXPECT_EQ(rank.nccl().num_transfers(), 0);
  EXPECT_EQ(rank.Poll(), ncclInProgress);
  EXPECT_EQ(rank.nccl().num_transfers(), 1);
  EXPECT_EQ(rank.Poll(), ncclSuccess);
  rank.nccl().StallCalls();
  ASSERT_EQ(rank.Gather(), ncclInProgress);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(rank.Poll(), ncclInProgress);
  EXPECT_EQ(rank.table().ncclCommAbort(rank.communicator()), ncclSuccess);
}

TEST_F(SimNcclTest, ACommunicatorIsNotDestroyedBeforeItsGraphs) {
  const ncclUniqueId id = {"alone"};
  Rank rank(network_, 0);
  ASSERT_EQ(rank.Join(id, /*ranks=*/1), ncclSuccess);
  rank.Set({});
  auto work = rank.device().Record([&]() -> absl::Status { return rank.table().ToStatus(rank.Gather(), "Gather()"); });
  ASSERT_TRUE(work.ok()) << work.status();
  ASSERT_TRUE((*work)->Run().ok());
  EXPECT_TRUE(rank.Get().ok());
  EXPECT_EQ(rank.table().ncclCommDestroy(rank.communicator()), ncclInvalidUsage);
  EXPECT_THAT(rank.nccl().LastViolation(), HasSubstr("part of a graph"));
  *work = nullptr;
  EXPECT_EQ(rank.table().ncclCommDestroy(rank.communicator()), ncclSuccess);
}

TEST_F(SimNcclTest, RanksThatTransferDifferentSizesAreFound) {
  RunRanks([](Rank& rank) {
    rank.Set({});
    ASSERT_EQ(rank.Gather(rank.number() == 0 ? kCount : kCount - 1), ncclSuccess);
    EXPECT_FALSE(rank.Get().ok());
    EXPECT_THAT(rank.gpu().LastViolation(), HasSubstr("as call 0"));
  });
}

TEST_F(SimNcclTest, MemoryThatNothingWroteIsNotSent) {
  const ncclUniqueId id = {"alone"};
  Rank rank(network_, 0);
  ASSERT_EQ(rank.Join(id, /*ranks=*/1), ncclSuccess);
  ASSERT_EQ(rank.Gather(), ncclSuccess);
  EXPECT_FALSE(rank.Get().ok());
  EXPECT_THAT(rank.gpu().LastViolation(), HasSubstr("NCCL: all-gather"));
}

TEST_F(SimNcclTest, BadArgumentsAreRefused) {
  RunRanks([](Rank& rank) {
    const NcclTable& nccl = rank.table();
    const auto send = [&](int peer, ncclDataType_t type) {
      return nccl.ncclSend(rank.part(0), kCount, type, peer, rank.communicator(), rank.stream());
    };
    EXPECT_EQ(send(2, ncclFloat32), ncclInvalidArgument);
    EXPECT_EQ(send(rank.number(), ncclFloat32), ncclInvalidArgument);
    EXPECT_EQ(send(1 - rank.number(), static_cast<ncclDataType_t>(9)), ncclInvalidArgument);
    EXPECT_THAT(nccl.ncclGetLastError(nullptr), HasSubstr("type 9 is unknown"));
    EXPECT_EQ(nccl.ncclGroupEnd(), ncclInvalidUsage);
    EXPECT_EQ(nccl.ncclAllGather(rank.part(0), rank.part(0), 1, ncclFloat32, nullptr, rank.stream()),
              ncclInvalidArgument);
    EXPECT_EQ(rank.nccl().num_transfers(), 0);
  });
}

TEST_F(SimNcclTest, AStreamOfAnotherDeviceIsRefused) {
  const ncclUniqueId id = {"alone"};
  Rank rank(network_, 0), other(network_, 1);
  ASSERT_EQ(rank.Join(id, /*ranks=*/1), ncclSuccess);
  EXPECT_EQ(
      rank.table().ncclAllGather(rank.part(0), rank.part(0), kCount, ncclFloat32, rank.communicator(), other.stream()),
      ncclInvalidArgument);
  EXPECT_THAT(rank.nccl().LastViolation(), HasSubstr("no such stream"));
}

TEST_F(SimNcclTest, AnAbortEndsATransferThatWaitsAndRefusesLaterCalls) {
  RunRanks([](Rank& rank) {
    if (rank.number() == 1) return;  // never transfers
    rank.Set({});
    ASSERT_EQ(rank.Gather(), ncclSuccess);
    std::thread abort([&] { EXPECT_EQ(rank.table().ncclCommAbort(rank.communicator()), ncclSuccess); });
    const auto values = rank.Get();
    abort.join();
    ASSERT_TRUE(values.ok()) << values.status();
    EXPECT_NE((*values)[kCount], 0);  // garbage
    EXPECT_EQ(rank.nccl().num_aborted(), 1);
    EXPECT_EQ(rank.Gather(), ncclInvalidArgument);
    EXPECT_THAT(rank.nccl().LastViolation(), HasSubstr("was aborted"));
    EXPECT_EQ(rank.table().ncclCommAbort(rank.communicator()), ncclInvalidArgument);
  });
}

TEST_F(SimNcclTest, TwoRanksWithOneNumberAreRefused) {
  const ncclUniqueId id = {"alone"};
  Rank rank(network_, 0), twin(network_, 0);
  ASSERT_EQ(rank.Join(id, /*ranks=*/1), ncclSuccess);
  EXPECT_EQ(twin.Join(id, /*ranks=*/1), ncclInvalidArgument);
  EXPECT_EQ(twin.Join(id, /*ranks=*/3), ncclInvalidArgument);
}

}  // namespace
}  // namespace cotan::cuda::sim
