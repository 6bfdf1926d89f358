// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/convolution/cudnn_convolution.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace cotan::cuda {
namespace {

using namespace cudnn;  // NOLINT(google-build-using-namespace): the vendor's names

// The alignment of memory of the device, which engines with 16-byte loads need.
constexpr int64_t kVectorBytes = 16;
constexpr std::array<int64_t, 3> kIds = {1, 2, 3};  // of wide, weights and narrow

// The type of an operation and the names of its attributes.
struct OperationNames {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t convolution, wide, weights, narrow, alpha, beta;
};

constexpr OperationNames kForwardNames = {
    CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
};
constexpr OperationNames kBackwardDataNames = {
    CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
};
constexpr OperationNames kBackwardWeightsNames = {
    CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
};

const OperationNames& NamesOf(ConvolutionProduct product) {
  switch (product) {
    case ConvolutionProduct::kForward:
      return kForwardNames;
    case ConvolutionProduct::kBackwardData:
      return kBackwardDataNames;
    case ConvolutionProduct::kBackwardWeights:
      break;
  }
  return kBackwardWeightsNames;
}

cudnnDataType_t DataType(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return CUDNN_DATA_HALF;
    case DType::kBFloat16:
      return CUDNN_DATA_BFLOAT16;
    case DType::kFloat64:
      return CUDNN_DATA_DOUBLE;
    default:
      return CUDNN_DATA_FLOAT;
  }
}

// Returns `layout` without its first spatial dimension, which has size 1, unless all three are in use. A dimension of
// size 1 gets the stride that a dense tensor has there: cuDNN's engines compare strides with those of layouts.
StridedLayout LayoutForCudnn(const StridedLayout& layout, bool has_depth) {
  StridedLayout result = layout;
  if (!has_depth) {
    result.sizes.erase(result.sizes.begin() + 2);
    result.strides.erase(result.strides.begin() + 2);
  }
  const size_t rank = result.sizes.size();
  const bool channels_last = result.sizes[1] > 1 ? result.strides[1] == 1 : true;
  // From the innermost dimension outwards in the order that the layout has.
  DimVector order;
  if (channels_last) order.push_back(1);
  for (size_t d = rank; d-- > 2;) order.push_back(static_cast<int64_t>(d));
  if (!channels_last) order.push_back(1);
  order.push_back(0);
  int64_t next = 1;
  for (const int64_t d : order) {
    const auto dim = static_cast<size_t>(d);
    if (result.sizes[dim] == 1) result.strides[dim] = next;
    next = std::max(next, result.strides[dim] * result.sizes[dim]);
  }
  return result;
}

absl::StatusOr<CudnnDescriptor> MakeTensor(const Cudnn& cudnn, int64_t id, DType dtype, const StridedLayout& layout,
                                           int64_t alignment) {
  const cudnnDataType_t type = DataType(dtype);
  COTAN_ASSIGN_OR_RETURN(CudnnDescriptor tensor,
                         CudnnDescriptor::Create(cudnn.table(), CUDNN_BACKEND_TENSOR_DESCRIPTOR));
  COTAN_RETURN_IF_ERROR(tensor.Set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type));
  COTAN_RETURN_IF_ERROR(tensor.Set(CUDNN_ATTR_TENSOR_DIMENSIONS, layout.sizes));
  COTAN_RETURN_IF_ERROR(tensor.Set(CUDNN_ATTR_TENSOR_STRIDES, layout.strides));
  COTAN_RETURN_IF_ERROR(tensor.Set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id));
  COTAN_RETURN_IF_ERROR(tensor.Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, alignment));
  COTAN_RETURN_IF_ERROR(tensor.Finalize());
  return tensor;
}

// A convolution with an engine for aligned operands and, if cuDNN has one, an engine for others.
class ConvolutionOperation final : public LibraryOperation {
 public:
  ConvolutionOperation(const Cudnn& cudnn, ExecutionPlan aligned, std::optional<ExecutionPlan> unaligned)
      : cudnn_(cudnn), aligned_(std::move(aligned)), unaligned_(std::move(unaligned)) {}

  absl::Status Enqueue(absl::Span<void* const> pointers) override {
    const bool is_aligned = std::all_of(pointers.begin(), pointers.end(), [](const void* pointer) {
      return reinterpret_cast<uintptr_t>(pointer) % kVectorBytes == 0;
    });
    if (is_aligned) return aligned_.Execute(cudnn_, kIds, pointers);
    if (unaligned_.has_value()) return unaligned_->Execute(cudnn_, kIds, pointers);
    return absl::InternalError(absl::StrCat("cuDNN has no engine for a convolution whose operands are not aligned to ",
                                            kVectorBytes, " bytes; copy the views that are its operands"));
  }

 private:
  const Cudnn& cudnn_;
  ExecutionPlan aligned_;
  std::optional<ExecutionPlan> unaligned_;
};

}  // namespace

CudnnConvolution::CudnnConvolution(const ConvolutionProblem& problem)
    : product_(problem.product), dtype_(problem.dtype) {
  const bool has_depth = problem.spatial_dims == 3;
  wide_ = LayoutForCudnn(problem.wide.layout, has_depth);
  weights_ = LayoutForCudnn(problem.weights.layout, has_depth);
  narrow_ = LayoutForCudnn(problem.narrow.layout, has_depth);
  for (size_t d = has_depth ? 0 : 1; d < kSpatialDims; ++d) {
    padding_.push_back(problem.padding[d]);
    stride_.push_back(problem.stride[d]);
    dilation_.push_back(problem.dilation[d]);
  }
}

absl::StatusOr<ExecutionPlan> CudnnConvolution::MakePlan(const Cudnn& cudnn, int64_t alignment) const {
  COTAN_ASSIGN_OR_RETURN(CudnnDescriptor convolution,
                         CudnnDescriptor::Create(cudnn.table(), CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR));
  const bool is_double = dtype_ == DType::kFloat64;
  const cudnnDataType_t sum_type = is_double ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  COTAN_RETURN_IF_ERROR(convolution.Set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, static_cast<int64_t>(stride_.size())));
  COTAN_RETURN_IF_ERROR(convolution.Set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sum_type));
  COTAN_RETURN_IF_ERROR(convolution.Set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode));
  COTAN_RETURN_IF_ERROR(convolution.Set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, padding_));
  COTAN_RETURN_IF_ERROR(convolution.Set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, padding_));
  COTAN_RETURN_IF_ERROR(convolution.Set(CUDNN_ATTR_CONVOLUTION_DILATIONS, dilation_));
  COTAN_RETURN_IF_ERROR(convolution.Set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, stride_));
  COTAN_RETURN_IF_ERROR(convolution.Finalize());

  COTAN_ASSIGN_OR_RETURN(const CudnnDescriptor wide, MakeTensor(cudnn, kIds[0], dtype_, wide_, alignment));
  COTAN_ASSIGN_OR_RETURN(const CudnnDescriptor weights, MakeTensor(cudnn, kIds[1], dtype_, weights_, alignment));
  COTAN_ASSIGN_OR_RETURN(const CudnnDescriptor narrow, MakeTensor(cudnn, kIds[2], dtype_, narrow_, alignment));
  const OperationNames& names = NamesOf(product_);
  COTAN_ASSIGN_OR_RETURN(CudnnDescriptor operation, CudnnDescriptor::Create(cudnn.table(), names.type));
  COTAN_RETURN_IF_ERROR(operation.Set(names.convolution, convolution));
  COTAN_RETURN_IF_ERROR(operation.Set(names.wide, wide));
  COTAN_RETURN_IF_ERROR(operation.Set(names.weights, weights));
  COTAN_RETURN_IF_ERROR(operation.Set(names.narrow, narrow));
  const double one_double = 1;
  const double zero_double = 0;
  const float one = 1;
  const float zero = 0;
  const cudnnBackendAttributeType_t factor_type = is_double ? CUDNN_TYPE_DOUBLE : CUDNN_TYPE_FLOAT;
  COTAN_RETURN_IF_ERROR(
      operation.Set(names.alpha, factor_type, 1, is_double ? static_cast<const void*>(&one_double) : &one));
  COTAN_RETURN_IF_ERROR(
      operation.Set(names.beta, factor_type, 1, is_double ? static_cast<const void*>(&zero_double) : &zero));
  COTAN_RETURN_IF_ERROR(operation.Finalize());
  const EnginePolicy policy = {.keep_input_precision = dtype_ == DType::kFloat32 || dtype_ == DType::kFloat64};
  return ExecutionPlan::Create(cudnn, operation, policy);
}

absl::StatusOr<std::unique_ptr<LibraryOperation>> CudnnConvolution::Prepare(VendorLibraries& libraries) const {
  COTAN_ASSIGN_OR_RETURN(Cudnn * cudnn, libraries.cudnn());
  absl::StatusOr<ExecutionPlan> aligned = MakePlan(*cudnn, kVectorBytes);
  // What cuDNN finds invalid, it does not support either.
  if (!aligned.ok()) return absl::UnimplementedError(aligned.status().message());
  absl::StatusOr<ExecutionPlan> unaligned = MakePlan(*cudnn, static_cast<int64_t>(ByteSize(dtype_)));
  COTAN_RETURN_IF_ERROR(
      cudnn->ReserveWorkspace(std::max(aligned->workspace_bytes(), unaligned.ok() ? unaligned->workspace_bytes() : 0)));
  return std::make_unique<ConvolutionOperation>(*cudnn, *std::move(aligned),
                                                unaligned.ok() ? std::optional(*std::move(unaligned)) : std::nullopt);
}

}  // namespace cotan::cuda
