// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/matmul.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/layout.h"
#include "base/status_macros.h"
#include "kernels/cuda/cublaslt.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/matmul_epilogue.h"
#include "kernels/cuda/matmul_plan.h"
#include "kernels/cuda/status.h"

namespace cotan::cuda {
namespace {

// The default workspace of cuBLAS on Hopper.
constexpr uint64_t kMaxWorkspaceBytes = 32 << 20;
// The alignment that cuBLASLt requires of its workspace.
constexpr uintptr_t kWorkspaceAlignment = 256;
// Pointers of this alignment allow the widest loads.
constexpr uint32_t kWideAlignment = 16;

struct CublasTypes {
  cudaDataType_t data;
  cublasComputeType_t compute;
  cudaDataType_t scale;
};

absl::StatusOr<CublasTypes> TypesOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return CublasTypes{CUDA_R_16F, CUBLAS_COMPUTE_32F, CUDA_R_32F};
    case DType::kBFloat16:
      return CublasTypes{CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUDA_R_32F};
    case DType::kFloat32:
      return CublasTypes{CUDA_R_32F, CUBLAS_COMPUTE_32F, CUDA_R_32F};
    case DType::kFloat64:
      return CublasTypes{CUDA_R_64F, CUBLAS_COMPUTE_64F, CUDA_R_64F};
    default:
      return absl::UnimplementedError(
          absl::StrCat("the CUDA matmul supports f16, bf16, f32 and f64, not ", DTypeName(dtype)));
  }
}

class MatmulKernel final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(CudaDevice& device, MatmulPlan plan) {
    COTAN_ASSIGN_OR_RETURN(CublasTypes types, TypesOf(plan.dtype));
    if (plan.calls.empty() || plan.k == 0) {
      return std::unique_ptr<Kernel>(new MatmulKernel(device, std::move(plan), nullptr));
    }
    COTAN_ASSIGN_OR_RETURN(const CublasLt* library, CublasLt::Get());
    std::unique_ptr<MatmulKernel> kernel(new MatmulKernel(device, std::move(plan), library));
    COTAN_RETURN_IF_ERROR(kernel->Initialize(types));
    return std::unique_ptr<Kernel>(std::move(kernel));
  }

  absl::Status Run(const KernelArgs& args) override {
    COTAN_RETURN_IF_ERROR(device_.Activate());
    if (plan_.k == 0) return ZeroOutput(args.outputs[0]);
    for (const MatmulOffsets& offsets : plan_.calls) {
      COTAN_RETURN_IF_ERROR(RunCall(args, offsets));
    }
    return absl::OkStatus();
  }

 private:
  MatmulKernel(CudaDevice& device, MatmulPlan plan, const CublasLt* library)
      : device_(device), plan_(std::move(plan)), library_(library) {}

  absl::Status Initialize(const CublasTypes& types) {
    COTAN_RETURN_IF_ERROR(device_.Activate());
    cublasLtHandle_t context = nullptr;
    COTAN_CUBLASLT_RETURN_IF_ERROR(*library_, cublasLtCreate(&context));
    context_ = CublasLtContext(context, {library_});
    cublasLtMatmulDesc_t operation = nullptr;
    COTAN_CUBLASLT_RETURN_IF_ERROR(*library_, cublasLtMatmulDescCreate(&operation, types.compute, types.scale));
    operation_ = CublasLtMatmulDesc(operation, {library_});
    if (plan_.a.transposed) COTAN_RETURN_IF_ERROR(SetOperation(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T));
    if (plan_.b.transposed) COTAN_RETURN_IF_ERROR(SetOperation(CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_T));
    if (plan_.addend == MatmulAddend::kBias) {
      COTAN_RETURN_IF_ERROR(SetOperation(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS));
      COTAN_RETURN_IF_ERROR(SetOperation(CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, plan_.bias_batch_stride));
    }
    COTAN_ASSIGN_OR_RETURN(a_, Layout(types, plan_.a));
    COTAN_ASSIGN_OR_RETURN(b_, Layout(types, plan_.b));
    COTAN_ASSIGN_OR_RETURN(d_, Layout(types, plan_.d));
    if (plan_.addend == MatmulAddend::kMatrix) {
      COTAN_ASSIGN_OR_RETURN(c_, Layout(types, plan_.c));
    }
    const uint32_t element = static_cast<uint32_t>(ByteSize(plan_.dtype));
    COTAN_RETURN_IF_ERROR(Choose(kWideAlignment, wide_));
    COTAN_RETURN_IF_ERROR(Choose(element, narrow_));
    const size_t workspace = std::max(wide_.workspaceSize, narrow_.workspaceSize);
    scratch_bytes_ = workspace == 0 ? 0 : workspace + kWorkspaceAlignment;
    return absl::OkStatus();
  }

  template <typename T>
  absl::Status SetOperation(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    COTAN_CUBLASLT_RETURN_IF_ERROR(*library_,
                                   cublasLtMatmulDescSetAttribute(operation_.get(), attribute, &value, sizeof(value)));
    return absl::OkStatus();
  }

  absl::StatusOr<CublasLtLayout> Layout(const CublasTypes& types, const BlasMatrix& matrix) {
    cublasLtMatrixLayout_t handle = nullptr;
    COTAN_CUBLASLT_RETURN_IF_ERROR(*library_, cublasLtMatrixLayoutCreate(&handle, types.data, matrix.rows,
                                                                         matrix.columns, matrix.leading_dimension));
    CublasLtLayout layout(handle, {library_});
    const int32_t batch = static_cast<int32_t>(plan_.batch);
    COTAN_CUBLASLT_RETURN_IF_ERROR(
        *library_, cublasLtMatrixLayoutSetAttribute(handle, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof(batch)));
    COTAN_CUBLASLT_RETURN_IF_ERROR(*library_,
                                   cublasLtMatrixLayoutSetAttribute(handle, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                                                    &matrix.batch_stride, sizeof(matrix.batch_stride)));
    return layout;
  }

  // Returns the algorithm for operands aligned to `alignment` bytes.
  absl::Status Choose(uint32_t alignment, cublasLtMatmulHeuristicResult_t& choice) {
    cublasLtMatmulPreference_t handle = nullptr;
    COTAN_CUBLASLT_RETURN_IF_ERROR(*library_, cublasLtMatmulPreferenceCreate(&handle));
    const CublasLtPreference preference(handle, {library_});
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      return library_->ToStatus(
          library_->cublasLtMatmulPreferenceSetAttribute(handle, attribute, &value, sizeof(value)),
          "cublasLtMatmulPreferenceSetAttribute");
    };
    // In-place split-K reductions add partial sums in an undefined order, so they are excluded.
    constexpr uint32_t kReductions = CUBLASLT_REDUCTION_SCHEME_MASK & ~CUBLASLT_REDUCTION_SCHEME_INPLACE;
    COTAN_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMaxWorkspaceBytes));
    COTAN_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, kReductions));
    for (cublasLtMatmulPreferenceAttributes_t attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      COTAN_RETURN_IF_ERROR(set(attribute, alignment));
    }
    if (plan_.addend == MatmulAddend::kBias) {
      // Only its alignment is used.
      COTAN_RETURN_IF_ERROR(SetOperation(CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                         reinterpret_cast<const void*>(static_cast<uintptr_t>(alignment))));
    }
    int found = 0;
    COTAN_CUBLASLT_RETURN_IF_ERROR(
        *library_, cublasLtMatmulAlgoGetHeuristic(context_.get(), operation_.get(), a_.get(), b_.get(), CLayout(),
                                                  d_.get(), handle, /*requestedAlgoCount=*/1, &choice, &found));
    if (found > 0) return absl::OkStatus();
    return absl::UnimplementedError(absl::StrCat("cuBLASLt has no algorithm for a matmul of ", DTypeName(plan_.dtype),
                                                 " with M=", plan_.n, " N=", plan_.m, " K=", plan_.k));
  }

  cublasLtMatrixLayout_t CLayout() const { return c_ == nullptr ? d_.get() : c_.get(); }

  absl::Status RunCall(const KernelArgs& args, const MatmulOffsets& offsets) {
    const size_t element = ByteSize(plan_.dtype);
    const auto at = [&](void* base, int64_t offset) { return static_cast<char*>(base) + offset * element; };
    const void* lhs = at(args.inputs[0], offsets.lhs);
    const void* rhs = at(args.inputs[1], offsets.rhs);
    const void* addend = plan_.addend == MatmulAddend::kNone ? nullptr : at(args.inputs[2], offsets.addend);
    void* output = at(args.outputs[0], offsets.output);
    if (plan_.addend == MatmulAddend::kBias) {
      COTAN_RETURN_IF_ERROR(SetOperation(CUBLASLT_MATMUL_DESC_BIAS_POINTER, addend));
    }
    const bool adds_matrix = plan_.addend == MatmulAddend::kMatrix;
    const uintptr_t all_bits = reinterpret_cast<uintptr_t>(lhs) | reinterpret_cast<uintptr_t>(rhs) |
                               reinterpret_cast<uintptr_t>(addend) | reinterpret_cast<uintptr_t>(output);
    const cublasLtMatmulHeuristicResult_t& choice = all_bits % kWideAlignment == 0 ? wide_ : narrow_;
    void* workspace = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(args.scratch) + kWorkspaceAlignment - 1) &
                                              ~(kWorkspaceAlignment - 1));

    const float alpha32 = 1, beta32 = adds_matrix ? 1 : 0;
    const double alpha64 = 1, beta64 = adds_matrix ? 1 : 0;
    const bool is_f64 = plan_.dtype == DType::kFloat64;
    const void* alpha = is_f64 ? static_cast<const void*>(&alpha64) : &alpha32;
    const void* beta = is_f64 ? static_cast<const void*>(&beta64) : &beta32;
    COTAN_CUBLASLT_RETURN_IF_ERROR(
        *library_, cublasLtMatmul(context_.get(), operation_.get(), alpha, rhs, a_.get(), lhs, b_.get(), beta,
                                  adds_matrix ? addend : output, CLayout(), output, d_.get(), &choice.algo, workspace,
                                  choice.workspaceSize, device_.stream()));
    return absl::OkStatus();
  }

  // K = 0: the sums are empty and the output is zero.
  absl::Status ZeroOutput(void* output) {
    const size_t element = ByteSize(plan_.dtype);
    for (const MatmulOffsets& offsets : plan_.calls) {
      for (int64_t i = 0; i < plan_.batch; ++i) {
        char* matrix = static_cast<char*>(output) + (offsets.output + i * plan_.d.batch_stride) * element;
        COTAN_CUDA_RETURN_IF_ERROR(cudaMemset2DAsync(matrix, plan_.d.leading_dimension * element, 0,
                                                     plan_.d.rows * element, plan_.d.columns, device_.stream()));
      }
    }
    return absl::OkStatus();
  }

  CudaDevice& device_;
  const MatmulPlan plan_;
  const CublasLt* const library_;
  CublasLtContext context_;
  CublasLtMatmulDesc operation_;
  CublasLtLayout a_, b_, c_, d_;                 // c_ is null unless a matrix is added
  cublasLtMatmulHeuristicResult_t wide_ = {};    // for pointers aligned to kWideAlignment
  cublasLtMatmulHeuristicResult_t narrow_ = {};  // for any
};

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> PrepareMatmul(const KernelRequest& request) {
  COTAN_ASSIGN_OR_RETURN(CudaDevice * device, AsCudaDevice(request.device));
  if (request.op.matmul().has_epilogue()) return PrepareMatmulEpilogue(request, PrepareMatmul);
  COTAN_ASSIGN_OR_RETURN(MatmulPlan plan, PlanMatmul(request));
  return MatmulKernel::Create(*device, std::move(plan));
}

}  // namespace cotan::cuda
