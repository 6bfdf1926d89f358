// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/device/lanes.h"

#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/testing/sim_device.h"

namespace cotan::cuda {
namespace {

using namespace driver;  // The names of the vendor's API. NOLINT(google-build-using-namespace)

constexpr size_t kBytes = 64;

// Captures pieces of work on blocks of memory: each sets the bytes of one block after a copy from another one.
class LanesTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  void SetUp() override {
    absl::StatusOr<std::unique_ptr<testing::SimDevice>> gpu =
        testing::SimDevice::Create({.seed = GetParam(), .on_violation = [](absl::string_view) {}});
    ASSERT_TRUE(gpu.ok()) << gpu.status();
    gpu_ = *std::move(gpu);
    cu_ = &gpu_->device().driver();
    ASSERT_EQ(cu_->cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    lanes_ = std::make_unique<Lanes>(*cu_, stream_);
    for (CUdeviceptr& block : blocks_) {
      ASSERT_EQ(cu_->cuMemAlloc_v2(&block, kBytes), CUDA_SUCCESS);
      ASSERT_EQ(cu_->cuMemsetD8Async(block, 1, kBytes, stream_), CUDA_SUCCESS);
    }
    ASSERT_EQ(cu_->cuStreamSynchronize(stream_), CUDA_SUCCESS);
    ASSERT_EQ(cu_->cuStreamBeginCapture_v2(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_SUCCESS);
    ASSERT_TRUE(lanes_->Begin().ok());
  }

  void TearDown() override {
    lanes_ = nullptr;
    for (const CUdeviceptr block : blocks_) cu_->cuMemFree_v2(block);
    cu_->cuStreamDestroy_v2(stream_);
  }

  MemoryRange Block(int i) const { return {blocks_[i], blocks_[i] + kBytes}; }

  // Adds a piece that copies block `from` to block `to`, and declares this access or another one. Returns its lane.
  int AddCopy(int from, int to, bool* follows_one = nullptr) {
    return AddCopy(from, to, {.reads = {Block(from)}, .writes = {Block(to)}}, follows_one);
  }
  int AddCopy(int from, int to, const MemoryAccess& declared, bool* follows_one = nullptr) {
    bool follows = false;
    EXPECT_TRUE(lanes_->BeginPiece(declared, follows).ok());
    const int lane = lanes_->lane();
    EXPECT_EQ(cu_->cuMemcpyDtoDAsync_v2(blocks_[to], blocks_[from], kBytes, lanes_->stream()), CUDA_SUCCESS);
    EXPECT_TRUE(lanes_->EndPiece().ok());
    if (follows_one != nullptr) *follows_one = follows;
    return lane;
  }

  // Runs what was captured, twice.
  CUresult Run() {
    EXPECT_TRUE(lanes_->Join().ok());
    lanes_->End();
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    EXPECT_EQ(cu_->cuStreamEndCapture(stream_, &graph), CUDA_SUCCESS) << gpu_->gpu().LastViolation();
    EXPECT_EQ(cu_->cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
    for (int i = 0; i < 2; ++i) EXPECT_EQ(cu_->cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
    const CUresult result = cu_->cuStreamSynchronize(stream_);
    cu_->cuGraphExecDestroy(exec);
    cu_->cuGraphDestroy(graph);
    return result;
  }

  std::unique_ptr<testing::SimDevice> gpu_;
  const DriverTable* cu_ = nullptr;
  CUstream stream_ = nullptr;
  std::unique_ptr<Lanes> lanes_;
  CUdeviceptr blocks_[8] = {};
};

TEST_P(LanesTest, APieceStaysInTheLaneOfWhatItNeeds) {
  bool follows_one = false;
  const int first = AddCopy(0, 1, &follows_one);
  EXPECT_TRUE(follows_one);
  EXPECT_EQ(AddCopy(1, 2, &follows_one), first);
  EXPECT_TRUE(follows_one);
  // It only reads what the first one reads.
  const int second = AddCopy(0, 3);
  EXPECT_NE(second, first);
  EXPECT_EQ(AddCopy(3, 4, &follows_one), second);
  EXPECT_TRUE(follows_one);
  // It needs both.
  EXPECT_EQ(AddCopy(4, 2, &follows_one), second);
  EXPECT_FALSE(follows_one);
  EXPECT_EQ(Run(), CUDA_SUCCESS) << gpu_->gpu().LastViolation();
}

TEST_P(LanesTest, MemoryIsWrittenAgainAfterItsReaders) {
  AddCopy(0, 1);
  AddCopy(2, 3);
  AddCopy(4, 5);
  AddCopy(6, 0);  // after the first one
  AddCopy(1, 2);  // after the first two
  AddCopy(7, 5);  // after the third
  EXPECT_EQ(Run(), CUDA_SUCCESS) << gpu_->gpu().LastViolation();
}

TEST_P(LanesTest, PiecesAreMoreThanLanes) {
  for (int i = 1; i < 8; ++i) AddCopy(0, i);
  for (int i = 1; i < 8; ++i) AddCopy(i, (i * 3) % 8);
  EXPECT_EQ(Run(), CUDA_SUCCESS) << gpu_->gpu().LastViolation();
}

TEST_P(LanesTest, TheSimulatedGpuFindsAccessesThatAreNotDeclared) {
  AddCopy(0, 1);
  AddCopy(1, 2, {.reads = {Block(5)}, .writes = {Block(2)}});
  EXPECT_EQ(Run(), CUDA_ERROR_LAUNCH_FAILED);
}

INSTANTIATE_TEST_SUITE_P(Seeds, LanesTest, ::testing::Values(0, 1, 2, 3));

}  // namespace
}  // namespace cotan::cuda
