// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/driver/driver_table.h"

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace cotan::cuda::driver {
namespace {

TEST(DriverTable, NamesTheMissingLibrary) {
  const absl::Status status = DriverTable::Load("libabsent_driver.so.1").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StrContains(status.message(), "libabsent_driver.so.1")) << status;
}

TEST(DriverTable, NamesTheMissingFunction) {
  const absl::Status status = DriverTable::Load("libc.so.6").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StrContains(status.message(), "libc.so.6 has no function cuInit")) << status;
}

TEST(DriverTable, StatusHasTheCodeOfTheResult) {
  DriverTable table;
  table.cuGetErrorName = [](CUresult, const char** name) { return *name = "CUDA_ERROR_X", CUDA_SUCCESS; };
  table.cuGetErrorString = [](CUresult, const char** text) { return *text = "what failed", CUDA_SUCCESS; };
  EXPECT_TRUE(table.ToStatus(CUDA_SUCCESS, "cuInit(0)").ok());
  EXPECT_EQ(table.ToStatus(CUDA_ERROR_NO_DEVICE, "cuInit(0)").code(), absl::StatusCode::kUnavailable);
  const absl::Status status = table.ToStatus(CUDA_ERROR_OUT_OF_MEMORY, "cuMemAlloc_v2(&address, 8)");
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "cuMemAlloc_v2(&address, 8): what failed (CUDA_ERROR_X, 2)");
}

}  // namespace
}  // namespace cotan::cuda::driver
