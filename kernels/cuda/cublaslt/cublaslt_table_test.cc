// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/cublaslt/cublaslt_table.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan::cuda::cublaslt {
namespace {

using ::testing::HasSubstr;

TEST(CublasLtTableTest, AMissingLibraryIsUnavailable) {
  const absl::Status status = CublasLtTable::Load("libnone.so.13").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("libnone.so.13"));
}

TEST(CublasLtTableTest, StatusesHaveTheVendorsName) {
  const absl::StatusOr<const CublasLtTable*> table = CublasLtTable::Get();
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_TRUE((*table)->ToStatus(CUBLAS_STATUS_SUCCESS, "f()").ok());
  EXPECT_EQ((*table)->ToStatus(CUBLAS_STATUS_NOT_SUPPORTED, "f()"),
            absl::UnimplementedError("f(): CUBLAS_STATUS_NOT_SUPPORTED"));
  EXPECT_EQ((*table)->ToStatus(CUBLAS_STATUS_NOT_INITIALIZED, "f()").code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ((*table)->ToStatus(CUBLAS_STATUS_ALLOC_FAILED, "f()").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ((*table)->ToStatus(CUBLAS_STATUS_EXECUTION_FAILED, "f()").code(), absl::StatusCode::kInternal);
}

// Descriptors need no device: the installed library accepts the attributes with these sizes.
TEST(CublasLtTableTest, TheInstalledLibraryAcceptsTheAttributes) {
  const absl::StatusOr<const CublasLtTable*> loaded = CublasLtTable::Get();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const CublasLtTable& table = **loaded;

  cublasLtMatmulDesc_t operation = nullptr;
  ASSERT_EQ(table.cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F),
            CUBLAS_STATUS_SUCCESS);
  const OwnedMatmulDesc owned_operation(operation, {&table});
  const cublasOperation_t transposed = CUBLAS_OP_T;
  for (const auto attribute : {CUBLASLT_MATMUL_DESC_TRANSA, CUBLASLT_MATMUL_DESC_TRANSB}) {
    EXPECT_EQ(table.cublasLtMatmulDescSetAttribute(operation, attribute, &transposed, sizeof(transposed)),
              CUBLAS_STATUS_SUCCESS);
  }
  const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
  const cudaDataType_t bias_type = CUDA_R_32F;
  const void* const bias = &epilogue;  // any address
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& to) {
    return table.cublasLtMatmulDescSetAttribute(operation, attribute, &to, sizeof(to));
  };
  EXPECT_EQ(set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, bias_type), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias), CUBLAS_STATUS_SUCCESS);

  cublasLtMatrixLayout_t layout = nullptr;
  ASSERT_EQ(table.cublasLtMatrixLayoutCreate(&layout, CUDA_R_16BF, 3, 4, 5), CUBLAS_STATUS_SUCCESS);
  const OwnedLayout owned_layout(layout, {&table});
  const int32_t count = 7;
  const int64_t stride = 100;
  EXPECT_EQ(table.cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof(count)),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(table.cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                                                   sizeof(stride)),
            CUBLAS_STATUS_SUCCESS);

  cublasLtMatmulPreference_t preference = nullptr;
  ASSERT_EQ(table.cublasLtMatmulPreferenceCreate(&preference), CUBLAS_STATUS_SUCCESS);
  const OwnedPreference owned_preference(preference, {&table});
  const uint64_t workspace = 1 << 20;
  EXPECT_EQ(table.cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                                       sizeof(workspace)),
            CUBLAS_STATUS_SUCCESS);
  const uint32_t value = 2;
  for (const auto attribute : {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                               CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                               CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    EXPECT_EQ(table.cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)),
              CUBLAS_STATUS_SUCCESS);
  }
}

}  // namespace
}  // namespace cotan::cuda::cublaslt
