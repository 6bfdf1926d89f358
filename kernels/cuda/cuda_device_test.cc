// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/cuda_device.h"

#include <cstdint>
#include <numeric>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/status.h"

namespace cotan::cuda {
namespace {

using ::testing::HasSubstr;

TEST(ToStatus, NamesTheCallAndTheVendorsError) {
  const absl::Status status = ToStatus(cudaErrorMemoryAllocation, "cudaMalloc(&p, n)");
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("cudaMalloc(&p, n): out of memory (cudaErrorMemoryAllocation)"));
  EXPECT_EQ(ToStatus(cudaErrorNoDevice, "").code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ToStatus(cudaErrorLaunchFailure, "").code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(ToStatus(cudaSuccess, "").ok());
}

TEST(CudaDevice, WithoutAGpuSaysSo) {
  const absl::Status status = CudaDevice::Create().status();
  if (status.ok()) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("run on the CPU"));
}

TEST(AsCudaDevice, RejectsTheHost) {
  EXPECT_EQ(AsCudaDevice(nullptr).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(AsCudaDevice(&HostDevice()).status().code(), absl::StatusCode::kInvalidArgument);
}

class CudaDeviceOnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<std::unique_ptr<CudaDevice>> device = CudaDevice::Create();
    if (absl::IsUnavailable(device.status())) GTEST_SKIP() << device.status();
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
  }

  std::unique_ptr<CudaDevice> device_;
};

TEST_F(CudaDeviceOnGpu, CopiesThroughTheDevice) {
  std::vector<int32_t> sent(1000), received(1000);
  std::iota(sent.begin(), sent.end(), 0);
  const size_t bytes = sent.size() * sizeof(int32_t);
  void* first = device_->Allocate(bytes).value();
  void* second = device_->Allocate(bytes).value();
  EXPECT_TRUE(device_->CopyFromHost(first, sent.data(), bytes).ok());
  EXPECT_TRUE(device_->Copy(second, first, bytes).ok());
  EXPECT_TRUE(device_->CopyToHost(received.data(), second, bytes).ok());
  EXPECT_EQ(received, sent);
  device_->Free(first, bytes);
  device_->Free(second, bytes);
}

TEST_F(CudaDeviceOnGpu, SurvivesAFailedAllocation) {
  const absl::Status status = device_->Allocate(size_t{1} << 60).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("1152921504606846976 bytes"));
  EXPECT_TRUE(device_->Synchronize().ok());
}

TEST_F(CudaDeviceOnGpu, RejectsADeviceThatDoesNotExist) {
  EXPECT_EQ(CudaDevice::Create(1000).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace cotan::cuda
