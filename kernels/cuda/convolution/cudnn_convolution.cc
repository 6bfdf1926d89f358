// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/convolution/cudnn_convolution.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"

namespace cotan::cuda {
namespace {

using namespace cudnn;  // NOLINT(google-build-using-namespace): the vendor's names

// The alignment of memory of the device, which engines with 16-byte loads need.
constexpr int64_t kVectorBytes = 16;
constexpr std::array<int64_t, 4> kIds = {1, 2, 3, 4};  // of wide, weights, narrow and the bias
constexpr int64_t kSumId = 5;                          // of the product before the bias is added

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

// Returns the dtype of sums of products.
DType SumDType(DType dtype) { return dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32; }

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

// A convolution with an engine for aligned operands and, if cuDNN has one, an engine for others.
class ConvolutionOperation final : public LibraryOperation {
 public:
  ConvolutionOperation(const Cudnn& cudnn, ExecutionPlan aligned, std::optional<ExecutionPlan> unaligned)
      : cudnn_(cudnn), aligned_(std::move(aligned)), unaligned_(std::move(unaligned)) {}

  absl::Status Enqueue(absl::Span<void* const> pointers) override {
    const bool is_aligned = std::all_of(pointers.begin(), pointers.end(), [](const void* pointer) {
      return reinterpret_cast<uintptr_t>(pointer) % kVectorBytes == 0;
    });
    const absl::Span<const int64_t> ids = absl::MakeConstSpan(kIds).first(pointers.size());
    if (is_aligned) return aligned_.Execute(cudnn_, ids, pointers);
    if (unaligned_.has_value()) return unaligned_->Execute(cudnn_, ids, pointers);
    return absl::InternalError(absl::StrCat("cuDNN has no engine for a convolution whose operands are not aligned to ",
                                            kVectorBytes, " bytes; copy the views that are its operands"));
  }

  bool owns_code() const override { return true; }

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
  if (problem.bias) {
    StridedLayout bias = {{1, narrow_.sizes[1], 1, 1, 1}, {0, 1, 0, 0, 0}, 0};
    bias_ = LayoutForCudnn(bias, has_depth);
  }
  for (size_t d = has_depth ? 0 : 1; d < kSpatialDims; ++d) {
    padding_.push_back(problem.padding[d]);
    stride_.push_back(problem.stride[d]);
    dilation_.push_back(problem.dilation[d]);
  }
}

bool CudnnConvolution::FusesBias(const ConvolutionProblem& problem) {
  return problem.product == ConvolutionProduct::kForward && problem.bias && IsDenseNonOverlapping(problem.bias->layout);
}

absl::StatusOr<CudnnDescriptor> CudnnConvolution::MakeConvolution(const Cudnn& cudnn) const {
  const cudnnDataType_t sum_type = CudnnDataType(SumDType(dtype_));
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  COTAN_ASSIGN_OR_RETURN(CudnnDescriptor convolution,
                         CudnnDescriptor::Create(cudnn.table(), CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR));
  COTAN_RETURN_IF_ERROR(convolution.Set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, static_cast<int64_t>(stride_.size())));
  COTAN_RETURN_IF_ERROR(convolution.Set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sum_type));
  COTAN_RETURN_IF_ERROR(convolution.Set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode));
  COTAN_RETURN_IF_ERROR(convolution.Set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, padding_));
  COTAN_RETURN_IF_ERROR(convolution.Set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, padding_));
  COTAN_RETURN_IF_ERROR(convolution.Set(CUDNN_ATTR_CONVOLUTION_DILATIONS, dilation_));
  COTAN_RETURN_IF_ERROR(convolution.Set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, stride_));
  COTAN_RETURN_IF_ERROR(convolution.Finalize());
  return convolution;
}

absl::Status CudnnConvolution::AddProduct(OperationGraph& graph, const CudnnDescriptor& wide,
                                          const CudnnDescriptor& weights, const CudnnDescriptor& narrow) const {
  COTAN_ASSIGN_OR_RETURN(const CudnnDescriptor convolution, MakeConvolution(graph.cudnn()));
  const OperationNames& names = NamesOf(product_);
  COTAN_ASSIGN_OR_RETURN(CudnnDescriptor operation, CudnnDescriptor::Create(graph.cudnn().table(), names.type));
  COTAN_RETURN_IF_ERROR(operation.Set(names.convolution, convolution));
  COTAN_RETURN_IF_ERROR(operation.Set(names.wide, wide));
  COTAN_RETURN_IF_ERROR(operation.Set(names.weights, weights));
  COTAN_RETURN_IF_ERROR(operation.Set(names.narrow, narrow));
  const double one_double = 1;
  const double zero_double = 0;
  const float one = 1;
  const float zero = 0;
  const bool is_double = dtype_ == DType::kFloat64;
  const cudnnBackendAttributeType_t factor_type = is_double ? CUDNN_TYPE_DOUBLE : CUDNN_TYPE_FLOAT;
  COTAN_RETURN_IF_ERROR(
      operation.Set(names.alpha, factor_type, 1, is_double ? static_cast<const void*>(&one_double) : &one));
  COTAN_RETURN_IF_ERROR(
      operation.Set(names.beta, factor_type, 1, is_double ? static_cast<const void*>(&zero_double) : &zero));
  COTAN_RETURN_IF_ERROR(operation.Finalize());
  graph.AddOperation(std::move(operation));
  return absl::OkStatus();
}

std::string CudnnConvolution::KeyOf(int64_t alignment) const {
  std::string key = absl::StrCat("convolution ", static_cast<int>(product_), " ", DTypeName(dtype_), " ", alignment);
  const auto append = [&](const auto& numbers) { absl::StrAppend(&key, " ", absl::StrJoin(numbers, ",")); };
  for (const StridedLayout* layout : {&wide_, &weights_, &narrow_, bias_ ? &*bias_ : nullptr}) {
    if (layout == nullptr) continue;
    append(layout->sizes);
    append(layout->strides);
  }
  append(padding_);
  append(stride_);
  append(dilation_);
  return key;
}

absl::StatusOr<ExecutionPlan> CudnnConvolution::MakePlan(const Cudnn& cudnn, int64_t alignment) const {
  OperationGraph graph(cudnn);
  const auto add_operand = [&](size_t i, const StridedLayout& layout) {
    return graph.AddTensor({kIds[i], dtype_, layout, alignment});
  };
  COTAN_ASSIGN_OR_RETURN(const CudnnDescriptor* wide, add_operand(0, wide_));
  COTAN_ASSIGN_OR_RETURN(const CudnnDescriptor* weights, add_operand(1, weights_));
  COTAN_ASSIGN_OR_RETURN(const CudnnDescriptor* narrow, add_operand(2, narrow_));
  if (bias_) {
    const DType sum_type = SumDType(dtype_);
    COTAN_ASSIGN_OR_RETURN(const CudnnDescriptor* bias, add_operand(3, *bias_));
    COTAN_ASSIGN_OR_RETURN(const CudnnDescriptor* sum,
                           graph.AddTensor({kSumId, sum_type, narrow_, kVectorBytes, GraphTensor::Kind::kVirtual}));
    COTAN_RETURN_IF_ERROR(AddProduct(graph, *wide, *weights, *sum));
    COTAN_RETURN_IF_ERROR(graph.AddPointwise(CUDNN_POINTWISE_ADD, sum_type, {.x = sum, .b = bias, .y = narrow}));
  } else {
    COTAN_RETURN_IF_ERROR(AddProduct(graph, *wide, *weights, *narrow));
  }
  const bool is_rounded = dtype_ == DType::kFloat32 && cudnn.tf32();
  const bool is_half = dtype_ == DType::kFloat16 || dtype_ == DType::kBFloat16;
  return ExecutionPlan::Create(cudnn, graph.operations(), {.keep_input_precision = !is_half && !is_rounded});
}

absl::StatusOr<std::unique_ptr<LibraryOperation>> CudnnConvolution::Prepare(VendorLibraries& libraries) const {
  COTAN_ASSIGN_OR_RETURN(Cudnn * cudnn, libraries.cudnn());
  const auto plan = [&](int64_t alignment) {
    return ExecutionPlan::FindOrMake(*cudnn, KeyOf(alignment), [&] { return MakePlan(*cudnn, alignment); });
  };
  absl::StatusOr<ExecutionPlan> aligned = plan(kVectorBytes);
  // What cuDNN finds invalid, it does not support either.
  if (!aligned.ok()) return absl::UnimplementedError(aligned.status().message());
  absl::StatusOr<ExecutionPlan> unaligned = plan(static_cast<int64_t>(ByteSize(dtype_)));
  COTAN_RETURN_IF_ERROR(
      cudnn->ReserveWorkspace(std::max(aligned->workspace_bytes(), unaligned.ok() ? unaligned->workspace_bytes() : 0)));
  return std::make_unique<ConvolutionOperation>(*cudnn, *std::move(aligned),
                                                unaligned.ok() ? std::optional(*std::move(unaligned)) : std::nullopt);
}

}  // namespace cotan::cuda
