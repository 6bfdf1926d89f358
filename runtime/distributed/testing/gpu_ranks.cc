// SPDX-License-Identifier: Apache-2.0

#include "runtime/distributed/testing/gpu_ranks.h"

#include <thread>
#include <utility>

#include "gtest/gtest.h"

namespace cotan::testing {

GpuRank::GpuRank(ThreadGroup& group, cuda::sim::SimNcclNetwork& network, int number,
                 const cuda::testing::SimDevice::Options& options)
    : control_(group.rank(number)), gpu_(*cuda::testing::SimDevice::Create(options)), nccl_(network, gpu_->gpu()) {}

absl::Status GpuRank::Join(const NcclOptions& options) { return Join(&nccl_.table(), options); }

absl::Status GpuRank::Join(const absl::StatusOr<const cuda::nccl::NcclTable*>& table, const NcclOptions& options) {
  absl::StatusOr<std::unique_ptr<NcclCommunicator>> communicator =
      NcclCommunicator::Create(control_, device(), table, options);
  if (!communicator.ok()) return communicator.status();
  communicator_ = *std::move(communicator);
  return absl::OkStatus();
}

GpuRanks::GpuRanks(int count, const cuda::testing::SimDevice::Options& options) : group_(count) {
  for (int r = 0; r < count; ++r) ranks_.push_back(std::make_unique<GpuRank>(group_, network_, r, options));
}

void GpuRanks::Run(const std::function<void(GpuRank&)>& function) {
  std::vector<std::thread> threads;
  for (const std::unique_ptr<GpuRank>& rank : ranks_) {
    threads.emplace_back([&function, &rank] { function(*rank); });
  }
  for (std::thread& thread : threads) thread.join();
}

void GpuRanks::RunJoined(const NcclOptions& options, const std::function<void(GpuRank&)>& function) {
  Run([&](GpuRank& rank) {
    const absl::Status joined = rank.Join(options);
    ASSERT_TRUE(joined.ok()) << joined;
    function(rank);
    group_.Leave(rank.number());
    rank.Leave();
    EXPECT_EQ(rank.nccl().num_communicators(), 0) << rank.nccl().LastViolation();
  });
}

}  // namespace cotan::testing
