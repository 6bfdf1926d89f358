// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/cublaslt/sim_cublaslt.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/cublaslt/cublaslt.h"
#include "kernels/cuda/cublaslt/product_call.h"
#include "kernels/cuda/sim/cublaslt/fake_libraries.h"
#include "kernels/cuda/sim/device_memory.h"

namespace cotan::cuda::sim {
namespace {

using namespace cublaslt;  // The vendor's names. NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A product of f32 matrices, d[2,2] = a[2,3] b[3,2], by direct calls of the table.
class SimCublasLtTest : public ::testing::Test {
 protected:
  SimCublasLtTest()
      : memory_({.on_leak = [](absl::string_view) {}}),
        library_([this](driver::CUstream, absl::string_view, auto function) {
          executed_ = function(memory_);
          return executed_;
        }),
        table_(library_.table()) {
    EXPECT_EQ(table_.cublasLtCreate(&handle_), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(table_.cublasLtMatmulDescCreate(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(table_.cublasLtMatmulPreferenceCreate(&preference_), CUBLAS_STATUS_SUCCESS);
    SetAlignment(16);
    a_layout_ = Layout(2, 3, 2);
    b_layout_ = Layout(3, 2, 3);
    d_layout_ = Layout(2, 2, 2);
    a_ = Operand({1, 2, 3, 4, 5, 6});
    b_ = Operand({1, 0, 1, 0, 1, 0});
    d_ = Operand({0, 0, 0, 0});
  }
  ~SimCublasLtTest() override {
    for (cublasLtMatrixLayout_t layout : layouts_) table_.cublasLtMatrixLayoutDestroy(layout);
    table_.cublasLtMatmulPreferenceDestroy(preference_);
    table_.cublasLtMatmulDescDestroy(operation_);
    table_.cublasLtDestroy(handle_);
    EXPECT_TRUE(library_.CheckLeaks().ok());
  }

  cublasLtMatrixLayout_t Layout(uint64_t rows, uint64_t columns, int64_t leading_dimension,
                                cudaDataType_t type = CUDA_R_32F) {
    cublasLtMatrixLayout_t layout = nullptr;
    EXPECT_EQ(table_.cublasLtMatrixLayoutCreate(&layout, type, rows, columns, leading_dimension),
              CUBLAS_STATUS_SUCCESS);
    layouts_.push_back(layout);
    return layout;
  }
  void SetBatch(cublasLtMatrixLayout_t layout, int32_t count, int64_t stride) {
    EXPECT_EQ(table_.cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, 4),
              CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(table_.cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, 8),
              CUBLAS_STATUS_SUCCESS);
  }
  void SetAlignment(uint32_t bytes) {
    for (auto attribute : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                           CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      EXPECT_EQ(table_.cublasLtMatmulPreferenceSetAttribute(preference_, attribute, &bytes, sizeof(bytes)),
                CUBLAS_STATUS_SUCCESS);
    }
  }
  void SetBias(uint64_t address) {
    constexpr uint32_t kEpilogue = CUBLASLT_EPILOGUE_BIAS;
    EXPECT_EQ(table_.cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_EPILOGUE, &kEpilogue, 4),
              CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(table_.cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &address, 8),
              CUBLAS_STATUS_SUCCESS);
  }
  uint64_t Operand(const std::vector<float>& values) {
    const uint64_t address = *memory_.Allocate(values.size() * sizeof(float), "operand");
    EXPECT_TRUE(
        memory_.Write(address, {reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(float)})
            .ok());
    return address;
  }
  std::vector<float> Values(uint64_t address, size_t count) {
    std::vector<float> values(count);
    EXPECT_TRUE(memory_.Read(address, {reinterpret_cast<std::byte*>(values.data()), count * sizeof(float)}).ok());
    return values;
  }

  cublasStatus_t Choose() {
    int found = 0;
    return table_.cublasLtMatmulAlgoGetHeuristic(handle_, operation_, a_layout_, b_layout_, d_layout_, d_layout_,
                                                 preference_, 1, &choice_, &found);
  }
  cublasStatus_t Multiply() {
    const float alpha = 1;
    const float beta = beta_;
    return table_.cublasLtMatmul(handle_, operation_, &alpha, reinterpret_cast<void*>(a_), a_layout_,
                                 reinterpret_cast<void*>(b_), b_layout_, &beta, reinterpret_cast<void*>(c_ ? *c_ : d_),
                                 d_layout_, reinterpret_cast<void*>(d_), d_layout_, &choice_.algo,
                                 reinterpret_cast<void*>(workspace_), workspace_bytes_, nullptr);
  }
  // Expects that the call is refused with this text.
  void ExpectRefused(absl::string_view text) {
    const cublasStatus_t status = Multiply();
    EXPECT_EQ(status, CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_THAT(table_.cublasLtGetStatusName(status), HasSubstr(std::string(text)));
    EXPECT_THAT(library_.LastViolation(), HasSubstr(std::string(text)));
  }

  DeviceMemory memory_;
  absl::Status executed_;
  SimCublasLt library_;
  const CublasLtTable& table_;
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatmulPreference_t preference_ = nullptr;
  std::vector<cublasLtMatrixLayout_t> layouts_;
  cublasLtMatrixLayout_t a_layout_ = nullptr;
  cublasLtMatrixLayout_t b_layout_ = nullptr;
  cublasLtMatrixLayout_t d_layout_ = nullptr;
  cublasLtMatmulHeuristicResult_t choice_ = {};
  uint64_t a_ = 0;
  uint64_t b_ = 0;
  std::optional<uint64_t> c_;
  uint64_t d_ = 0;
  float beta_ = 0;
  uint64_t workspace_ = 0;
  size_t workspace_bytes_ = 0;
};

TEST_F(SimCublasLtTest, MatricesAreStoredByColumns) {
  ASSERT_EQ(Choose(), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(Multiply(), CUBLAS_STATUS_SUCCESS);
  EXPECT_THAT(Values(d_, 4), ElementsAre(6, 8, 3, 4));
  EXPECT_EQ(library_.num_products(), 1);
}

TEST_F(SimCublasLtTest, BetaAddsTheOldResult) {
  d_ = Operand({10, 20, 30, 40});
  beta_ = 1;
  ASSERT_EQ(Choose(), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(Multiply(), CUBLAS_STATUS_SUCCESS);
  EXPECT_THAT(Values(d_, 4), ElementsAre(16, 28, 33, 44));
}

TEST_F(SimCublasLtTest, ABiasIsAddedToEachColumn) {
  SetBias(Operand({10, 20}));
  beta_ = 1;
  d_ = Operand({1, 2, 3, 4});
  ASSERT_EQ(Choose(), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(Multiply(), CUBLAS_STATUS_SUCCESS);
  EXPECT_THAT(Values(d_, 4), ElementsAre(17, 30, 16, 28));
  // The pointer may change after the choice.
  SetBias(Operand({0, 1}));
  ASSERT_EQ(Multiply(), CUBLAS_STATUS_SUCCESS);
  EXPECT_THAT(Values(d_, 4), ElementsAre(23, 39, 19, 33));
}

TEST_F(SimCublasLtTest, ABiasHasARowOfTheResultPerElement) {
  SetBias(Operand({10}));
  ASSERT_EQ(Choose(), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(Multiply(), CUBLAS_STATUS_EXECUTION_FAILED);
  EXPECT_EQ(executed_.code(), absl::StatusCode::kOutOfRange);
}

TEST_F(SimCublasLtTest, ABiasIsOfTheTypeOfTheResult) {
  SetBias(Operand({10, 20}));
  cudaDataType_t type = CUDA_R_16F;
  ASSERT_EQ(table_.cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type, 4),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(Choose(), CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_THAT(library_.LastViolation(), HasSubstr("a bias of type 2"));
  type = CUDA_R_32F;
  ASSERT_EQ(table_.cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type, 4),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(Choose(), CUBLAS_STATUS_SUCCESS);
}

TEST_F(SimCublasLtTest, ABiasIsAlignedAsWhenTheAlgorithmWasChosen) {
  const uint64_t bias = Operand(std::vector<float>(16));
  SetBias(0);
  EXPECT_EQ(Choose(), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_THAT(library_.LastViolation(), HasSubstr("the bias is null"));
  SetBias(bias + 16);
  ASSERT_EQ(Choose(), CUBLAS_STATUS_SUCCESS);
  SetBias(bias + 4);
  ExpectRefused("the bias is not aligned to 16 bytes");
  SetBias(bias + 32);
  EXPECT_EQ(Multiply(), CUBLAS_STATUS_SUCCESS);
  SetBias(bias + 4);
  ASSERT_EQ(Choose(), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(Multiply(), CUBLAS_STATUS_SUCCESS);
}

TEST_F(SimCublasLtTest, ABiasMustNotOverlapTheResult) {
  d_ = Operand(std::vector<float>(8));
  SetBias(d_ + 16);
  ASSERT_EQ(Choose(), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(Multiply(), CUBLAS_STATUS_SUCCESS);
  SetBias(d_);
  ExpectRefused("matrix d overlaps the bias");
}

TEST_F(SimCublasLtTest, AnAlgorithmForABiasIsForNoOtherProduct) {
  ASSERT_EQ(Choose(), CUBLAS_STATUS_SUCCESS);
  SetBias(Operand({10, 20}));
  ExpectRefused("chosen for another product");
}

TEST_F(SimCublasLtTest, Tf32RoundsFactorsToTenBits) {
  ASSERT_EQ(table_.cublasLtMatmulDescDestroy(operation_), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(table_.cublasLtMatmulDescCreate(&operation_, CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F),
            CUBLAS_STATUS_SUCCESS);
  constexpr float kFine = 1 + 1.0F / 4096;
  constexpr float kCoarse = 1 + 1.0F / 1024;
  a_ = Operand({kFine, kCoarse, 0, 0, 0, 0});
  ASSERT_EQ(Choose(), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(Multiply(), CUBLAS_STATUS_SUCCESS);
  EXPECT_THAT(Values(d_, 2), ElementsAre(1, kCoarse));
}

TEST_F(SimCublasLtTest, UnknownAttributesAndSizesAreRefused) {
  const int64_t value = 1;
  EXPECT_EQ(
      table_.cublasLtMatmulDescSetAttribute(operation_, static_cast<cublasLtMatmulDescAttributes_t>(99), &value, 4),
      CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(table_.cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_TRANSA, &value, 8),
            CUBLAS_STATUS_INVALID_VALUE);
  const uint32_t operation = 7;
  EXPECT_EQ(table_.cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_TRANSA, &operation, 4),
            CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(table_.cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_EPILOGUE, &operation, 4),
            CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(table_.cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &operation, 4),
            CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(table_.cublasLtMatrixLayoutSetAttribute(a_layout_, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &value, 8),
            CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(
      table_.cublasLtMatmulPreferenceSetAttribute(preference_, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &value, 4),
      CUBLAS_STATUS_INVALID_VALUE);
}

TEST_F(SimCublasLtTest, DestroyedObjectsAreRefused) {
  ASSERT_EQ(Choose(), CUBLAS_STATUS_SUCCESS);
  const cublasLtMatrixLayout_t layout = Layout(2, 2, 2);
  ASSERT_EQ(table_.cublasLtMatrixLayoutDestroy(layout), CUBLAS_STATUS_SUCCESS);
  layouts_.pop_back();
  d_layout_ = layout;
  ExpectRefused("layout of c is unknown");
}

TEST_F(SimCublasLtTest, MatricesThatDoNotFitAreRefused) {
  b_layout_ = Layout(2, 2, 2);
  EXPECT_EQ(Choose(), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_THAT(library_.LastViolation(), HasSubstr("matrix b is 2x2, expected 3x2"));
  b_layout_ = Layout(3, 2, 2);
  EXPECT_EQ(Choose(), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_THAT(library_.LastViolation(), HasSubstr("leading dimension 2 for 3 rows"));
  b_layout_ = Layout(3, 2, 3);
  SetBatch(b_layout_, 2, 6);
  EXPECT_EQ(Choose(), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_THAT(library_.LastViolation(), HasSubstr("matrix b has a batch of 2"));
}

TEST_F(SimCublasLtTest, TypesThatDoNotGoTogetherAreNotSupported) {
  b_layout_ = Layout(3, 2, 3, CUDA_R_16F);
  EXPECT_EQ(Choose(), CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_THAT(library_.LastViolation(), HasSubstr("compute type 68"));
}

TEST_F(SimCublasLtTest, AlignmentIsAsPromised) {
  ASSERT_EQ(Choose(), CUBLAS_STATUS_SUCCESS);
  b_ = Operand({0, 1, 0, 1, 0, 1, 0}) + sizeof(float);
  ExpectRefused("matrix b is not aligned to 16 bytes");
  SetAlignment(4);
  ASSERT_EQ(Choose(), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(Multiply(), CUBLAS_STATUS_SUCCESS);
  EXPECT_THAT(Values(d_, 4), ElementsAre(6, 8, 3, 4));
}

TEST_F(SimCublasLtTest, AnAlgorithmIsForOneProduct) {
  ASSERT_EQ(Choose(), CUBLAS_STATUS_SUCCESS);
  a_layout_ = Layout(2, 3, 4);
  ExpectRefused("chosen for another product");
  choice_.algo = {};
  ExpectRefused("none that the library returned");
}

TEST_F(SimCublasLtTest, MatricesMustNotOverlapTheResult) {
  ASSERT_EQ(Choose(), CUBLAS_STATUS_SUCCESS);
  d_ = a_;
  ExpectRefused("matrix d overlaps matrix a");
  d_ = Operand(std::vector<float>(8));
  c_ = d_ + 16;
  beta_ = 1;
  ASSERT_EQ(Multiply(), CUBLAS_STATUS_SUCCESS);
  SetAlignment(4);
  ASSERT_EQ(Choose(), CUBLAS_STATUS_SUCCESS);
  c_ = d_ + 4;
  ExpectRefused("matrix d overlaps matrix c");
}

TEST_F(SimCublasLtTest, AResultBesideAnOperandInOneBlockIsAllowed) {
  // Columns of a and d take turns.
  SetAlignment(4);
  a_layout_ = Layout(2, 3, 4);
  d_layout_ = Layout(2, 2, 4);
  a_ = Operand({1, 2, 0, 0, 3, 4, 0, 0, 5, 6});
  d_ = a_ + 8;
  ASSERT_EQ(Choose(), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(Multiply(), CUBLAS_STATUS_SUCCESS);
  EXPECT_THAT(Values(a_, 10), ElementsAre(1, 2, 6, 8, 3, 4, 3, 4, 5, 6));
  d_ = a_ + 4;
  ExpectRefused("matrix d overlaps matrix a");
}

TEST_F(SimCublasLtTest, ResultsOfABatchMustNotOverlap) {
  for (cublasLtMatrixLayout_t layout : {a_layout_, b_layout_}) SetBatch(layout, 2, 0);
  SetBatch(d_layout_, 2, 2);
  ASSERT_EQ(Choose(), CUBLAS_STATUS_SUCCESS);
  ExpectRefused("elements of matrix d overlap");
}

TEST_F(SimCublasLtTest, TheWorkspaceIsAsLargeAsTheAlgorithmNeeds) {
  const int64_t k = 1000;
  a_layout_ = Layout(2, k, 2);
  b_layout_ = Layout(k, 2, k);
  a_ = Operand(std::vector<float>(2 * k, 1));
  b_ = Operand(std::vector<float>(2 * k, 1));
  ASSERT_EQ(Choose(), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(choice_.workspaceSize, 0u);  // None is offered.
  const uint64_t offered = 1 << 20;
  ASSERT_EQ(table_.cublasLtMatmulPreferenceSetAttribute(preference_, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &offered,
                                                        sizeof(offered)),
            CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(Choose(), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(choice_.workspaceSize, 64u);
  workspace_bytes_ = 63;
  ExpectRefused("a workspace of 63 bytes; the algorithm needs 64");
  workspace_bytes_ = 64;
  ExpectRefused("not aligned to 256 bytes");
  workspace_ = a_;
  ExpectRefused("overlaps a matrix");
  workspace_ = *memory_.Allocate(32, "small workspace");
  EXPECT_EQ(Multiply(), CUBLAS_STATUS_EXECUTION_FAILED);
  EXPECT_THAT(executed_.message(), HasSubstr("small workspace"));
  workspace_ = *memory_.Allocate(64, "workspace");
  EXPECT_EQ(Multiply(), CUBLAS_STATUS_SUCCESS);
  EXPECT_THAT(Values(d_, 1), ElementsAre(k));
}

TEST_F(SimCublasLtTest, ElementsAreInsideOfAllocationsAndWritten) {
  ASSERT_EQ(Choose(), CUBLAS_STATUS_SUCCESS);
  a_ = Operand({1, 2, 3, 4, 5});
  EXPECT_EQ(Multiply(), CUBLAS_STATUS_EXECUTION_FAILED);
  EXPECT_EQ(executed_.code(), absl::StatusCode::kOutOfRange);
  a_ = *memory_.Allocate(24, "unwritten");
  EXPECT_EQ(Multiply(), CUBLAS_STATUS_EXECUTION_FAILED);
  EXPECT_EQ(executed_.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(library_.num_products(), 0);
}

TEST_F(SimCublasLtTest, FaultsAreTaken) {
  library_.Fail(SimCublasLt::Fault::kNoAlgorithm, 1);
  EXPECT_EQ(Choose(), CUBLAS_STATUS_NOT_SUPPORTED);
  ASSERT_EQ(Choose(), CUBLAS_STATUS_SUCCESS);
  library_.Fail(SimCublasLt::Fault::kWorkspaceRefused, 1);
  EXPECT_EQ(Multiply(), CUBLAS_STATUS_NOT_SUPPORTED);
  library_.Fail(SimCublasLt::Fault::kExecutionFailed, 1);
  EXPECT_EQ(Multiply(), CUBLAS_STATUS_EXECUTION_FAILED);
  EXPECT_EQ(Multiply(), CUBLAS_STATUS_SUCCESS);
}

TEST_F(SimCublasLtTest, LeaksAreFound) {
  cublasLtHandle_t handle = nullptr;
  ASSERT_EQ(table_.cublasLtCreate(&handle), CUBLAS_STATUS_SUCCESS);
  EXPECT_THAT(library_.CheckLeaks().message(), HasSubstr("2 handles"));
  EXPECT_EQ(table_.cublasLtDestroy(handle), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(library_.num_handles(), 2);
}

// The library's objects of this project, on the simulator.
class ProductCallTest : public ::testing::Test {
 protected:
  ProductCallTest() : memory_({.on_leak = [](absl::string_view) {}}) {}

  // Returns the address of zeros.
  void* Zeros(size_t bytes) {
    const uint64_t address = *memory_.Allocate(bytes, "operand");
    EXPECT_TRUE(memory_.Write(address, std::vector<std::byte>(bytes)).ok());
    return reinterpret_cast<void*>(address);
  }
  static ProductCall Call() {
    return ProductCall({.dtype = DType::kFloat32,
                        .m = 4,
                        .n = 4,
                        .k = 300,
                        .a = {.leading_dimension = 4},
                        .b = {.leading_dimension = 300},
                        .c = {},
                        .d = {.leading_dimension = 4},
                        .calls = {{}}});
  }

  DeviceMemory memory_;
};

TEST_F(ProductCallTest, UnalignedOperandsTakeAnotherAlgorithm) {
  FakeLibraries libraries(memory_);
  const absl::StatusOr<std::unique_ptr<LibraryOperation>> operation = Call().Prepare(libraries);
  ASSERT_TRUE(operation.ok()) << operation.status();
  char* const a = static_cast<char*>(Zeros(5000));
  char* const b = static_cast<char*>(Zeros(5000));
  char* const d = static_cast<char*>(Zeros(100));
  for (const int offset : {0, 4}) {
    const absl::Status status = (*operation)->Enqueue({a + offset, b, d + offset});
    EXPECT_TRUE(status.ok()) << status;
  }
  EXPECT_EQ((*operation)->Enqueue({a, b}).code(), absl::StatusCode::kInternal);
}

TEST_F(ProductCallTest, ABiasThatIsNotAlignedIsCopied) {
  FakeLibraries libraries(memory_);
  ProductDescription description = Call().description();
  description.addend = ProductAddend::kBias;
  const absl::StatusOr<std::unique_ptr<LibraryOperation>> operation = ProductCall(description).Prepare(libraries);
  ASSERT_TRUE(operation.ok()) << operation.status();
  void* const a = Zeros(5000);
  void* const b = Zeros(5000);
  void* const d = Zeros(100);
  const std::vector<float> values = {1, 2, 3, 4, 5};
  const uint64_t bias = *memory_.Allocate(20, "bias");
  ASSERT_TRUE(memory_.Write(bias, {reinterpret_cast<const std::byte*>(values.data()), 20}).ok());
  for (const uint64_t offset : {0, 1}) {
    const absl::Status status =
        (*operation)->Enqueue({a, b, reinterpret_cast<void*>(bias + offset * sizeof(float)), d});
    ASSERT_TRUE(status.ok()) << status;
    std::vector<float> result(16);
    ASSERT_TRUE(memory_.Read(reinterpret_cast<uint64_t>(d), {reinterpret_cast<std::byte*>(result.data()), 64}).ok());
    for (size_t i = 0; i < result.size(); ++i) EXPECT_EQ(result[i], values[i % 4 + offset]);
  }
  EXPECT_EQ((*operation)->Enqueue({a, b, d}).code(), absl::StatusCode::kInternal);
}

TEST_F(ProductCallTest, OneAlgorithmForAlignedOperandsSuffices) {
  FakeLibraries libraries(memory_);
  libraries.library().Fail(SimCublasLt::Fault::kNoAlgorithm, 2);
  EXPECT_EQ(Call().Prepare(libraries).status().code(), absl::StatusCode::kUnimplemented);
  libraries.library().Fail(SimCublasLt::Fault::kNoAlgorithm, 1);  // the one for 16 bytes
  EXPECT_TRUE(Call().Prepare(libraries).ok());
}

TEST_F(ProductCallTest, ErrorsOfTheLibraryAreReturned) {
  FakeLibraries libraries(memory_);
  libraries.library().Fail(SimCublasLt::Fault::kNoHandle, 1);
  EXPECT_EQ(Call().Prepare(libraries).status().code(), absl::StatusCode::kUnavailable);
  const absl::StatusOr<std::unique_ptr<LibraryOperation>> operation = Call().Prepare(libraries);
  ASSERT_TRUE(operation.ok()) << operation.status();
  libraries.library().Fail(SimCublasLt::Fault::kExecutionFailed, 1);
  const absl::Status status = (*operation)->Enqueue({Zeros(5000), Zeros(5000), Zeros(100)});
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(status.message(), HasSubstr("M=4 N=4 K=300, 1 matrices: CUBLAS_STATUS_EXECUTION_FAILED"));
}

TEST_F(ProductCallTest, AMissingWorkspaceIsResourceExhausted) {
  DeviceMemory small({.capacity_bytes = 1 << 20});
  FakeLibraries libraries(small);
  EXPECT_EQ(Call().Prepare(libraries).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(libraries.library().CheckLeaks().ok());
}

TEST_F(ProductCallTest, EverythingIsReturned) {
  const int64_t blocks = memory_.num_live_blocks();
  {
    FakeLibraries libraries(memory_);
    ASSERT_TRUE(Call().Prepare(libraries).ok());
    EXPECT_EQ(memory_.num_live_blocks(), blocks + 1);
  }
  EXPECT_EQ(memory_.num_live_blocks(), blocks);
}

}  // namespace
}  // namespace cotan::cuda::sim
