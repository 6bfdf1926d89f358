// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/cudnn/operation_graph.h"

#include <utility>

#include "base/status_macros.h"

namespace cotan::cuda {

using namespace cudnn;  // NOLINT(google-build-using-namespace): the vendor's names

cudnnDataType_t CudnnDataType(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return CUDNN_DATA_HALF;
    case DType::kBFloat16:
      return CUDNN_DATA_BFLOAT16;
    case DType::kFloat64:
      return CUDNN_DATA_DOUBLE;
    case DType::kInt32:
      return CUDNN_DATA_INT32;
    case DType::kBool:
      return CUDNN_DATA_BOOLEAN;
    default:
      return CUDNN_DATA_FLOAT;
  }
}

absl::StatusOr<const CudnnDescriptor*> OperationGraph::AddTensor(const GraphTensor& tensor) {
  const cudnnDataType_t type = CudnnDataType(tensor.dtype);
  const bool yes = true;
  COTAN_ASSIGN_OR_RETURN(CudnnDescriptor descriptor, Create(CUDNN_BACKEND_TENSOR_DESCRIPTOR));
  COTAN_RETURN_IF_ERROR(descriptor.Set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type));
  COTAN_RETURN_IF_ERROR(descriptor.Set(CUDNN_ATTR_TENSOR_DIMENSIONS, tensor.layout.sizes));
  COTAN_RETURN_IF_ERROR(descriptor.Set(CUDNN_ATTR_TENSOR_STRIDES, tensor.layout.strides));
  COTAN_RETURN_IF_ERROR(descriptor.Set(CUDNN_ATTR_TENSOR_UNIQUE_ID, tensor.id));
  COTAN_RETURN_IF_ERROR(descriptor.Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, tensor.alignment));
  if (tensor.kind == GraphTensor::Kind::kVirtual) {
    COTAN_RETURN_IF_ERROR(descriptor.Set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &yes));
  } else if (tensor.kind == GraphTensor::Kind::kByValue) {
    COTAN_RETURN_IF_ERROR(descriptor.Set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &yes));
  }
  COTAN_RETURN_IF_ERROR(descriptor.Finalize());
  tensors_.push_back(std::make_unique<CudnnDescriptor>(std::move(descriptor)));
  return tensors_.back().get();
}

absl::Status OperationGraph::AddPointwise(cudnnPointwiseMode_t mode, DType math, const PointwiseOperands& operands,
                                          int64_t axis) {
  const cudnnDataType_t type = CudnnDataType(math);
  COTAN_ASSIGN_OR_RETURN(CudnnDescriptor function, Create(CUDNN_BACKEND_POINTWISE_DESCRIPTOR));
  COTAN_RETURN_IF_ERROR(function.Set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode));
  COTAN_RETURN_IF_ERROR(function.Set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &type));
  if (mode == CUDNN_POINTWISE_GEN_INDEX) COTAN_RETURN_IF_ERROR(function.Set(CUDNN_ATTR_POINTWISE_AXIS, axis));
  COTAN_RETURN_IF_ERROR(function.Finalize());
  COTAN_ASSIGN_OR_RETURN(CudnnDescriptor operation, Create(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR));
  COTAN_RETURN_IF_ERROR(operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, function));
  const std::pair<cudnnBackendAttributeName_t, const CudnnDescriptor*> tensors[] = {
      {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, operands.x},
      {CUDNN_ATTR_OPERATION_POINTWISE_BDESC, operands.b},
      {CUDNN_ATTR_OPERATION_POINTWISE_TDESC, operands.t},
      {CUDNN_ATTR_OPERATION_POINTWISE_YDESC, operands.y},
  };
  for (const auto& [name, tensor] : tensors) {
    if (tensor != nullptr) COTAN_RETURN_IF_ERROR(operation.Set(name, *tensor));
  }
  COTAN_RETURN_IF_ERROR(operation.Finalize());
  AddOperation(std::move(operation));
  return absl::OkStatus();
}

absl::Status OperationGraph::AddMatmul(const CudnnDescriptor& a, const CudnnDescriptor& b, const CudnnDescriptor& c) {
  const cudnnDataType_t sum_type = CUDNN_DATA_FLOAT;
  COTAN_ASSIGN_OR_RETURN(CudnnDescriptor product, Create(CUDNN_BACKEND_MATMUL_DESCRIPTOR));
  COTAN_RETURN_IF_ERROR(product.Set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sum_type));
  COTAN_RETURN_IF_ERROR(product.Finalize());
  COTAN_ASSIGN_OR_RETURN(CudnnDescriptor operation, Create(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR));
  COTAN_RETURN_IF_ERROR(operation.Set(CUDNN_ATTR_OPERATION_MATMUL_DESC, product));
  COTAN_RETURN_IF_ERROR(operation.Set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a));
  COTAN_RETURN_IF_ERROR(operation.Set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b));
  COTAN_RETURN_IF_ERROR(operation.Set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, c));
  COTAN_RETURN_IF_ERROR(operation.Finalize());
  AddOperation(std::move(operation));
  return absl::OkStatus();
}

absl::Status OperationGraph::AddReduction(cudnnReduceTensorOp_t op, const CudnnDescriptor& x,
                                          const CudnnDescriptor& y) {
  const cudnnDataType_t sum_type = CUDNN_DATA_FLOAT;
  COTAN_ASSIGN_OR_RETURN(CudnnDescriptor reduction, Create(CUDNN_BACKEND_REDUCTION_DESCRIPTOR));
  COTAN_RETURN_IF_ERROR(reduction.Set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sum_type));
  COTAN_RETURN_IF_ERROR(reduction.Set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &op));
  COTAN_RETURN_IF_ERROR(reduction.Finalize());
  COTAN_ASSIGN_OR_RETURN(CudnnDescriptor operation, Create(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR));
  COTAN_RETURN_IF_ERROR(operation.Set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, reduction));
  COTAN_RETURN_IF_ERROR(operation.Set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x));
  COTAN_RETURN_IF_ERROR(operation.Set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y));
  COTAN_RETURN_IF_ERROR(operation.Finalize());
  AddOperation(std::move(operation));
  return absl::OkStatus();
}

absl::Status OperationGraph::AddReshape(const CudnnDescriptor& x, const CudnnDescriptor& y) {
  COTAN_ASSIGN_OR_RETURN(CudnnDescriptor operation, Create(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR));
  COTAN_RETURN_IF_ERROR(operation.Set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x));
  COTAN_RETURN_IF_ERROR(operation.Set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y));
  COTAN_RETURN_IF_ERROR(operation.Finalize());
  AddOperation(std::move(operation));
  return absl::OkStatus();
}

}  // namespace cotan::cuda
