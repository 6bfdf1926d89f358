// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/cublaslt/product_call.h"

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cuda/cublaslt/cublaslt.h"
#include "kernels/cuda/cublaslt/cublaslt_table.h"

namespace cotan::cuda {
namespace {

using cublaslt::cublasComputeType_t;
using cublaslt::cublasLtMatmulHeuristicResult_t;
using cublaslt::CublasLtTable;
using cublaslt::cudaDataType_t;

// Addresses of this alignment allow the widest loads.
constexpr uint32_t kWideAlignment = 16;

struct Types {
  cudaDataType_t data;
  cublasComputeType_t compute;
  cudaDataType_t scale;
};

absl::StatusOr<Types> TypesOf(DType dtype, F32Precision precision) {
  switch (dtype) {
    case DType::kFloat16:
      return Types{cublaslt::CUDA_R_16F, cublaslt::CUBLAS_COMPUTE_32F, cublaslt::CUDA_R_32F};
    case DType::kBFloat16:
      return Types{cublaslt::CUDA_R_16BF, cublaslt::CUBLAS_COMPUTE_32F, cublaslt::CUDA_R_32F};
    case DType::kFloat32:
      return Types{
          cublaslt::CUDA_R_32F,
          precision == F32Precision::kTf32 ? cublaslt::CUBLAS_COMPUTE_32F_FAST_TF32 : cublaslt::CUBLAS_COMPUTE_32F,
          cublaslt::CUDA_R_32F};
    case DType::kFloat64:
      return Types{cublaslt::CUDA_R_64F, cublaslt::CUBLAS_COMPUTE_64F, cublaslt::CUDA_R_64F};
    default:
      return absl::UnimplementedError(
          absl::StrCat("cuBLASLt computes products of f16, bf16, f32 and f64, not of ", DTypeName(dtype)));
  }
}

std::string Describe(const ProductDescription& product) {
  return absl::StrCat("a product of ", DTypeName(product.dtype), " with M=", product.m, " N=", product.n,
                      " K=", product.k, ", ", product.batch_count, " matrices",
                      product.addend == ProductAddend::kBias ? ", and a bias" : "");
}

static_assert(ProductDescription::kMaxBiasBytes <= static_cast<int64_t>(CublasLt::kBiasBytes));

// A product with its descriptors, and the algorithms for two alignments of addresses.
class ProductOperation final : public LibraryOperation {
 public:
  ProductOperation(ProductDescription product, VendorLibraries& libraries, CublasLt& library)
      : product_(std::move(product)),
        libraries_(libraries),
        library_(library),
        table_(library.table()),
        element_(ByteSize(product_.dtype)) {}

  absl::Status Initialize() {
    COTAN_ASSIGN_OR_RETURN(const Types types, TypesOf(product_.dtype, library_.f32_precision()));
    cublaslt::cublasLtMatmulDesc_t operation = nullptr;
    COTAN_CUBLASLT_RETURN_IF_ERROR(table_, cublasLtMatmulDescCreate(&operation, types.compute, types.scale));
    operation_ = cublaslt::OwnedMatmulDesc(operation, {&table_});
    COTAN_RETURN_IF_ERROR(SetTransposed(cublaslt::CUBLASLT_MATMUL_DESC_TRANSA, product_.a.transposed));
    COTAN_RETURN_IF_ERROR(SetTransposed(cublaslt::CUBLASLT_MATMUL_DESC_TRANSB, product_.b.transposed));
    if (product_.addend == ProductAddend::kBias) {
      constexpr cublaslt::cublasLtEpilogue_t kEpilogue = cublaslt::CUBLASLT_EPILOGUE_BIAS;
      COTAN_RETURN_IF_ERROR(SetAttribute(cublaslt::CUBLASLT_MATMUL_DESC_EPILOGUE, kEpilogue));
      COTAN_RETURN_IF_ERROR(SetAttribute(cublaslt::CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, types.data));
      COTAN_RETURN_IF_ERROR(SetBias(library_.bias()));
    }
    COTAN_ASSIGN_OR_RETURN(a_, MakeLayout(types, product_.a, product_.m, product_.k));
    COTAN_ASSIGN_OR_RETURN(b_, MakeLayout(types, product_.b, product_.k, product_.n));
    COTAN_ASSIGN_OR_RETURN(d_, MakeLayout(types, product_.d, product_.m, product_.n));
    COTAN_ASSIGN_OR_RETURN(c_, MakeLayout(types, AddsMatrix() ? product_.c : product_.d, product_.m, product_.n));
    COTAN_RETURN_IF_ERROR(Choose(kWideAlignment, wide_));
    COTAN_RETURN_IF_ERROR(Choose(static_cast<uint32_t>(element_), narrow_));
    if (wide_ || narrow_) return absl::OkStatus();
    return absl::UnimplementedError(absl::StrCat("cuBLASLt has no algorithm on this device for ", Describe(product_)));
  }

  absl::Status Enqueue(absl::Span<void* const> pointers) override {
    const size_t expected = product_.addend == ProductAddend::kNone ? 3 : 4;
    if (pointers.size() != expected) {
      return absl::InternalError(absl::StrCat("a product has ", expected, " operands, not ", pointers.size()));
    }
    for (const ProductOffsets& offsets : product_.calls) COTAN_RETURN_IF_ERROR(EnqueueCall(pointers, offsets));
    return absl::OkStatus();
  }

 private:
  bool AddsMatrix() const { return product_.addend == ProductAddend::kMatrix; }

  template <typename T>
  absl::Status SetAttribute(cublaslt::cublasLtMatmulDescAttributes_t attribute, const T& value) {
    COTAN_CUBLASLT_RETURN_IF_ERROR(table_,
                                   cublasLtMatmulDescSetAttribute(operation_.get(), attribute, &value, sizeof(value)));
    return absl::OkStatus();
  }

  absl::Status SetTransposed(cublaslt::cublasLtMatmulDescAttributes_t attribute, bool transposed) {
    return SetAttribute(attribute, transposed ? cublaslt::CUBLAS_OP_T : cublaslt::CUBLAS_OP_N);
  }

  absl::Status SetBias(const void* bias) { return SetAttribute(cublaslt::CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias); }

  // Sets the bias of the next call. The algorithms expect aligned addresses, also for elements: the preferences of a
  // choice have no alignment of the bias. Others are copied.
  absl::Status EnqueueBias(void* bias) {
    if (reinterpret_cast<uintptr_t>(bias) % CublasLt::kBiasAlignment == 0) return SetBias(bias);
    const size_t bytes = static_cast<size_t>(product_.m) * element_;
    COTAN_CUDA_DRIVER_RETURN_IF_ERROR(
        libraries_.driver(),
        cuMemcpyDtoDAsync_v2(reinterpret_cast<driver::CUdeviceptr>(library_.bias()),
                             reinterpret_cast<driver::CUdeviceptr>(bias), bytes, libraries_.stream()));
    return SetBias(library_.bias());
  }

  // Returns the layout of an operand of rows x columns.
  absl::StatusOr<cublaslt::OwnedLayout> MakeLayout(const Types& types, const ProductMatrix& matrix, int64_t rows,
                                                   int64_t columns) {
    if (matrix.transposed) std::swap(rows, columns);
    cublaslt::cublasLtMatrixLayout_t handle = nullptr;
    COTAN_CUBLASLT_RETURN_IF_ERROR(
        table_, cublasLtMatrixLayoutCreate(&handle, types.data, static_cast<uint64_t>(rows),
                                           static_cast<uint64_t>(columns), matrix.leading_dimension));
    cublaslt::OwnedLayout layout(handle, {&table_});
    const auto batch = static_cast<int32_t>(product_.batch_count);
    COTAN_CUBLASLT_RETURN_IF_ERROR(
        table_,
        cublasLtMatrixLayoutSetAttribute(handle, cublaslt::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof(batch)));
    COTAN_CUBLASLT_RETURN_IF_ERROR(
        table_, cublasLtMatrixLayoutSetAttribute(handle, cublaslt::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                                 &matrix.batch_stride, sizeof(matrix.batch_stride)));
    return layout;
  }

  // Sets `choice` to the algorithm for addresses aligned to `alignment` bytes, or leaves it empty if there is none.
  absl::Status Choose(uint32_t alignment, std::optional<cublasLtMatmulHeuristicResult_t>& choice) {
    cublaslt::cublasLtMatmulPreference_t handle = nullptr;
    COTAN_CUBLASLT_RETURN_IF_ERROR(table_, cublasLtMatmulPreferenceCreate(&handle));
    const cublaslt::OwnedPreference preference(handle, {&table_});
    const auto set = [&](cublaslt::cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      return table_.ToStatus(table_.cublasLtMatmulPreferenceSetAttribute(handle, attribute, &value, sizeof(value)),
                             "cublasLtMatmulPreferenceSetAttribute");
    };
    // Other reductions add parts in an undefined order, or round them.
    constexpr uint32_t kReductions = cublaslt::CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    constexpr uint64_t kWorkspaceBytes = CublasLt::kWorkspaceBytes;
    COTAN_RETURN_IF_ERROR(set(cublaslt::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes));
    COTAN_RETURN_IF_ERROR(set(cublaslt::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, kReductions));
    for (const auto attribute :
         {cublaslt::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, cublaslt::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          cublaslt::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, cublaslt::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      COTAN_RETURN_IF_ERROR(set(attribute, alignment));
    }
    cublasLtMatmulHeuristicResult_t result = {};
    int found = 0;
    const cublaslt::cublasStatus_t status =
        table_.cublasLtMatmulAlgoGetHeuristic(library_.handle(), operation_.get(), a_.get(), b_.get(), c_.get(),
                                              d_.get(), handle, /*max_results=*/1, &result, &found);
    if (status == cublaslt::CUBLAS_STATUS_NOT_SUPPORTED) return absl::OkStatus();
    COTAN_RETURN_IF_ERROR(
        table_.ToStatus(status, absl::StrCat("cublasLtMatmulAlgoGetHeuristic of ", Describe(product_))));
    if (found > 0 && result.state == cublaslt::CUBLAS_STATUS_SUCCESS) choice = result;
    return absl::OkStatus();
  }

  absl::Status EnqueueCall(absl::Span<void* const> pointers, const ProductOffsets& offsets) {
    const auto at = [&](size_t i, int64_t offset) {
      return static_cast<char*>(pointers[i]) + offset * static_cast<int64_t>(element_);
    };
    void* const a = at(0, offsets.a);
    void* const b = at(1, offsets.b);
    void* const d = at(pointers.size() - 1, offsets.d);
    void* const c = AddsMatrix() ? at(2, offsets.c) : d;
    if (product_.addend == ProductAddend::kBias) COTAN_RETURN_IF_ERROR(EnqueueBias(at(2, offsets.c)));
    const uintptr_t bits = reinterpret_cast<uintptr_t>(a) | reinterpret_cast<uintptr_t>(b) |
                           reinterpret_cast<uintptr_t>(c) | reinterpret_cast<uintptr_t>(d);
    const auto& choice = wide_ && bits % kWideAlignment == 0 ? wide_ : narrow_;
    if (!choice) {
      return absl::InternalError(absl::StrCat("cuBLASLt has no algorithm for ", Describe(product_),
                                              " with operands that are not aligned to ", kWideAlignment, " bytes"));
    }
    const double f64_scales[] = {1, AddsMatrix() ? 1.0 : 0.0};
    const float f32_scales[] = {1, AddsMatrix() ? 1.0F : 0.0F};
    const bool is_f64 = product_.dtype == DType::kFloat64;
    const void* const alpha = is_f64 ? static_cast<const void*>(&f64_scales[0]) : &f32_scales[0];
    const void* const beta = is_f64 ? static_cast<const void*>(&f64_scales[1]) : &f32_scales[1];
    return table_.ToStatus(table_.cublasLtMatmul(library_.handle(), operation_.get(), alpha, a, a_.get(), b, b_.get(),
                                                 beta, c, c_.get(), d, d_.get(), &choice->algo, library_.workspace(),
                                                 CublasLt::kWorkspaceBytes, libraries_.stream()),
                           absl::StrCat("cublasLtMatmul of ", Describe(product_)));
  }

  const ProductDescription product_;
  VendorLibraries& libraries_;
  CublasLt& library_;
  const CublasLtTable& table_;
  const size_t element_;  // bytes
  cublaslt::OwnedMatmulDesc operation_ = nullptr;
  cublaslt::OwnedLayout a_ = nullptr, b_ = nullptr, c_ = nullptr, d_ = nullptr;
  std::optional<cublasLtMatmulHeuristicResult_t> wide_;    // for addresses aligned to kWideAlignment
  std::optional<cublasLtMatmulHeuristicResult_t> narrow_;  // for addresses aligned to elements
};

}  // namespace

absl::StatusOr<std::unique_ptr<LibraryOperation>> ProductCall::Prepare(VendorLibraries& libraries) const {
  COTAN_ASSIGN_OR_RETURN(CublasLt* const library, libraries.cublaslt());
  auto operation = std::make_unique<ProductOperation>(description_, libraries, *library);
  COTAN_RETURN_IF_ERROR(operation->Initialize());
  return std::unique_ptr<LibraryOperation>(std::move(operation));
}

}  // namespace cotan::cuda
