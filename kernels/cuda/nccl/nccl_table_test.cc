// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/nccl/nccl_table.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan::cuda::nccl {
namespace {

using ::testing::HasSubstr;

TEST(NcclTableTest, AMissingLibraryIsUnavailableAndNamed) {
  const absl::Status status = NcclTable::Load("libnone.so.2").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("libnone.so.2"));
}

TEST(NcclTableTest, ALibraryWithoutTheFunctionsIsUnavailableAndTheFunctionIsNamed) {
  const absl::Status status = NcclTable::Load("libc.so.6").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("libc.so.6 has no function ncclGetVersion"));
}

TEST(NcclTableTest, ErrorsHaveTheCallAndBothTexts) {
  NcclTable table;
  table.ncclGetErrorString = [](ncclResult_t) { return "remote process exited"; };
  table.ncclGetLastError = [](ncclComm_t) { return "socket closed"; };
  EXPECT_TRUE(table.ToStatus(ncclSuccess, "f()").ok());
  EXPECT_TRUE(table.ToStatus(ncclInProgress, "f()").ok());
  EXPECT_EQ(table.ToStatus(ncclRemoteError, "f()"),
            absl::UnavailableError("f(): remote process exited: socket closed"));
  EXPECT_EQ(table.ToStatus(ncclInvalidUsage, "f()").code(), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace cotan::cuda::nccl
