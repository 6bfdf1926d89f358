// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/cudnn/cudnn_table.h"

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "kernels/cuda/cudnn/cudnn.h"
#include "kernels/cuda/cudnn/execution_plan.h"

namespace cotan::cuda {
namespace {

using cudnn::CudnnTable;

TEST(CudnnTableTest, InstalledLibraryHasAllFunctions) {
  const absl::StatusOr<const CudnnTable*> table = CudnnTable::Get();
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_GE((*table)->cudnnGetVersion(), 90800);
}

TEST(CudnnTableTest, MissingLibraryIsUnavailable) {
  const absl::Status status = CudnnTable::Load("libcudnn_of_no_version.so").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StrContains(status.message(), "Install cuDNN")) << status;
}

TEST(CudnnTableTest, ErrorsHaveTheLibrarysText) {
  const absl::StatusOr<const CudnnTable*> table = CudnnTable::Get();
  ASSERT_TRUE(table.ok()) << table.status();
  absl::StatusOr<CudnnDescriptor> tensor = CudnnDescriptor::Create(**table, cudnn::CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  const absl::Status status = tensor->Finalize();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(absl::StrContains(status.message(), "CUDNN_STATUS_BAD_PARAM")) << status;
  EXPECT_EQ((*table)->ToStatus(cudnn::CUDNN_STATUS_NOT_SUPPORTED, "f").code(), absl::StatusCode::kUnimplemented);
}

TEST(CudnnTableTest, CudnnWithoutAGpuIsUnavailable) {
  const absl::StatusOr<const CudnnTable*> table = CudnnTable::Get();
  ASSERT_TRUE(table.ok()) << table.status();
  CudnnTable none = **table;
  none.cudnnCreate = [](cudnn::cudnnHandle_t*) { return cudnn::CUDNN_STATUS_NOT_INITIALIZED; };
  const driver::DriverTable driver;
  EXPECT_EQ(Cudnn::Create(none, driver, nullptr).status().code(), absl::StatusCode::kUnavailable);
}

TEST(EnginePolicyTest, EnginesMustBeDeterministicAndPreciseEnough) {
  const EnginePolicy ieee;
  const EnginePolicy tensor_cores = {.keep_input_precision = false};
  EXPECT_TRUE(IsEngineAllowed({cudnn::CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP}, ieee));
  EXPECT_TRUE(IsEngineAllowed({cudnn::CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, tensor_cores));
  EXPECT_FALSE(IsEngineAllowed({cudnn::CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, ieee));
  for (const EnginePolicy& policy : {ieee, tensor_cores}) {
    EXPECT_FALSE(IsEngineAllowed({cudnn::CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS}, policy));
    EXPECT_FALSE(IsEngineAllowed({cudnn::CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}, policy));
    EXPECT_FALSE(IsEngineAllowed({cudnn::CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION}, policy));
  }
}

}  // namespace
}  // namespace cotan::cuda
