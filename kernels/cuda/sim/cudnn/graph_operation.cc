// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/cudnn/graph_operation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace cotan::cuda::sim {
namespace {

using namespace cudnn;  // NOLINT(google-build-using-namespace): the vendor's names

// Advances a row-major index.
void Next(const DimVector& sizes, DimVector& index) {
  for (size_t d = sizes.size(); d-- > 0;) {
    if (++index[d] < sizes[d]) return;
    index[d] = 0;
  }
}

// Returns the row-major position of `index` in `sizes`, where dimensions of size 1 are broadcast.
size_t PositionOf(const DimVector& sizes, const DimVector& index) {
  int64_t position = 0;
  for (size_t d = 0; d < sizes.size(); ++d) position = position * sizes[d] + (sizes[d] == 1 ? 0 : index[d]);
  return static_cast<size_t>(position);
}

bool IsBroadcastOf(const DimVector& from, const DimVector& to) {
  if (from.size() != to.size()) return false;
  for (size_t d = 0; d < to.size(); ++d) {
    if (from[d] != to[d] && from[d] != 1) return false;
  }
  return true;
}

// y = mode(x, b, t) for each element.
class PointwiseOperation final : public GraphOperation {
 public:
  absl::Status Read(const LoggedDescriptor& operation) {
    label_ = "pointwise";
    COTAN_ASSIGN_OR_RETURN(const std::shared_ptr<const LoggedDescriptor> function,
                           operation.Descriptor(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR));
    COTAN_ASSIGN_OR_RETURN(mode_, SingleValue<cudnnPointwiseMode_t>(*function, CUDNN_ATTR_POINTWISE_MODE));
    COTAN_ASSIGN_OR_RETURN(const auto math, SingleValue<cudnnDataType_t>(*function, CUDNN_ATTR_POINTWISE_MATH_PREC));
    COTAN_ASSIGN_OR_RETURN(math_, ToDType(math));
    if (mode_ == CUDNN_POINTWISE_GEN_INDEX) {
      COTAN_ASSIGN_OR_RETURN(const int64_t axis, SingleValue<int64_t>(*function, CUDNN_ATTR_POINTWISE_AXIS));
      axis_ = static_cast<size_t>(axis);
    }
    COTAN_ASSIGN_OR_RETURN(output_, ReadTensor(operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
    COTAN_ASSIGN_OR_RETURN(const size_t operands, NumOperands());
    constexpr cudnnBackendAttributeName_t kNames[] = {CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
                                                      CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                                                      CUDNN_ATTR_OPERATION_POINTWISE_TDESC};
    for (size_t i = 0; i < operands; ++i) {
      COTAN_ASSIGN_OR_RETURN(TensorInfo input, ReadTensor(operation, kNames[i]));
      if (!IsBroadcastOf(input.layout.sizes, output_.layout.sizes)) {
        return absl::FailedPreconditionError(
            absl::StrCat("tensor ", input.id, " of a pointwise operation does not broadcast to its result"));
      }
      inputs_.push_back(std::move(input));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<HostArray> Compute(absl::Span<const HostArray* const> inputs, bool) override {
    HostArray result = {output_.layout.sizes, {}};
    DimVector index(result.sizes.size(), 0);
    result.values.resize(static_cast<size_t>(NumElements(result.sizes)));
    for (double& value : result.values) {
      double operands[3] = {};
      for (size_t i = 0; i < inputs.size(); ++i) {
        operands[i] = inputs[i]->values[PositionOf(inputs[i]->sizes, index)];
      }
      value = RoundTo(math_, Element(operands, index));
      Next(result.sizes, index);
    }
    return result;
  }

 private:
  absl::StatusOr<size_t> NumOperands() const {
    switch (mode_) {
      case CUDNN_POINTWISE_GEN_INDEX:
      case CUDNN_POINTWISE_EXP:
      case CUDNN_POINTWISE_LOG:
        return 1;
      case CUDNN_POINTWISE_ADD:
      case CUDNN_POINTWISE_MUL:
      case CUDNN_POINTWISE_SUB:
      case CUDNN_POINTWISE_DIV:
      case CUDNN_POINTWISE_CMP_GE:
        return 2;
      case CUDNN_POINTWISE_BINARY_SELECT:
        return 3;
    }
    return absl::UnimplementedError(absl::StrCat("the simulator has no pointwise mode ", mode_));
  }

  double Element(const double* operands, const DimVector& index) const {
    switch (mode_) {
      case CUDNN_POINTWISE_ADD:
        return operands[0] + operands[1];
      case CUDNN_POINTWISE_MUL:
        return operands[0] * operands[1];
      case CUDNN_POINTWISE_SUB:
        return operands[0] - operands[1];
      case CUDNN_POINTWISE_DIV:
        return operands[0] / operands[1];
      case CUDNN_POINTWISE_EXP:
        return std::exp(operands[0]);
      case CUDNN_POINTWISE_LOG:
        return std::log(operands[0]);
      case CUDNN_POINTWISE_CMP_GE:
        return operands[0] >= operands[1] ? 1 : 0;
      case CUDNN_POINTWISE_GEN_INDEX:
        return static_cast<double>(index[axis_]);
      case CUDNN_POINTWISE_BINARY_SELECT:
        return operands[2] != 0 ? operands[0] : operands[1];
    }
    return 0;
  }

  cudnnPointwiseMode_t mode_ = CUDNN_POINTWISE_ADD;
  DType math_ = DType::kFloat32;
  size_t axis_ = 0;  // of GEN_INDEX
};

// c = a b over the last two dimensions, with sums in f32 (computed in f64 and rounded once).
class MatmulOperation final : public GraphOperation {
 public:
  absl::Status Read(const LoggedDescriptor& operation) {
    label_ = "matmul";
    for (const auto name : {CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_ATTR_OPERATION_MATMUL_BDESC}) {
      COTAN_ASSIGN_OR_RETURN(TensorInfo input, ReadTensor(operation, name));
      inputs_.push_back(std::move(input));
    }
    COTAN_ASSIGN_OR_RETURN(output_, ReadTensor(operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC));
    const DimVector &a = inputs_[0].layout.sizes, &b = inputs_[1].layout.sizes, &c = output_.layout.sizes;
    const size_t rank = c.size();
    bool matches = rank >= 2 && a.size() == rank && b.size() == rank && a[rank - 1] == b[rank - 2] &&
                   a[rank - 2] == c[rank - 2] && b[rank - 1] == c[rank - 1];
    for (size_t d = 0; matches && d + 2 < rank; ++d) matches = a[d] == c[d] && b[d] == c[d];
    return matches ? absl::OkStatus() : absl::FailedPreconditionError("sizes of a matmul do not match");
  }

  absl::StatusOr<HostArray> Compute(absl::Span<const HostArray* const> inputs, bool rounds_to_tf32) override {
    const auto element = [&](size_t input, int64_t position) {
      const double value = inputs[input]->values[static_cast<size_t>(position)];
      return rounds_to_tf32 && inputs_[input].dtype == DType::kFloat32 ? RoundToTf32(value) : value;
    };
    HostArray result = {output_.layout.sizes, {}};
    const size_t rank = result.sizes.size();
    const int64_t rows = result.sizes[rank - 2], columns = result.sizes[rank - 1];
    const int64_t steps = inputs_[0].layout.sizes[rank - 1];
    const int64_t batches = NumElements(absl::MakeConstSpan(result.sizes).first(rank - 2));
    for (int64_t batch = 0; batch < batches; ++batch) {
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < columns; ++j) {
          double sum = 0;
          for (int64_t k = 0; k < steps; ++k) {
            sum += element(0, (batch * rows + i) * steps + k) * element(1, (batch * steps + k) * columns + j);
          }
          result.values.push_back(static_cast<float>(sum));
        }
      }
    }
    return result;
  }
};

// The sum or the maximum over the dimensions in which the result has size 1, in f32.
class ReductionOperation final : public GraphOperation {
 public:
  absl::Status Read(const LoggedDescriptor& operation) {
    label_ = "reduction";
    COTAN_ASSIGN_OR_RETURN(const std::shared_ptr<const LoggedDescriptor> reduction,
                           operation.Descriptor(CUDNN_ATTR_OPERATION_REDUCTION_DESC));
    COTAN_ASSIGN_OR_RETURN(const auto op,
                           SingleValue<cudnnReduceTensorOp_t>(*reduction, CUDNN_ATTR_REDUCTION_OPERATOR));
    if (op != CUDNN_REDUCE_TENSOR_ADD && op != CUDNN_REDUCE_TENSOR_MAX) {
      return absl::UnimplementedError(absl::StrCat("the simulator has no reduction ", op));
    }
    is_max_ = op == CUDNN_REDUCE_TENSOR_MAX;
    COTAN_ASSIGN_OR_RETURN(TensorInfo input, ReadTensor(operation, CUDNN_ATTR_OPERATION_REDUCTION_XDESC));
    inputs_.push_back(std::move(input));
    COTAN_ASSIGN_OR_RETURN(output_, ReadTensor(operation, CUDNN_ATTR_OPERATION_REDUCTION_YDESC));
    if (IsBroadcastOf(output_.layout.sizes, inputs_[0].layout.sizes)) return absl::OkStatus();
    return absl::FailedPreconditionError("sizes of a reduction do not match");
  }

  absl::StatusOr<HostArray> Compute(absl::Span<const HostArray* const> inputs, bool) override {
    HostArray result = {output_.layout.sizes, {}};
    result.values.resize(static_cast<size_t>(NumElements(result.sizes)),
                         is_max_ ? -std::numeric_limits<double>::infinity() : 0);
    DimVector index(result.sizes.size(), 0);
    for (const double value : inputs[0]->values) {
      double& to = result.values[PositionOf(result.sizes, index)];
      to = is_max_ ? std::max(to, value) : to + value;
      Next(inputs[0]->sizes, index);
    }
    for (double& value : result.values) value = static_cast<float>(value);
    return result;
  }

 private:
  bool is_max_ = false;
};

// The transposition of the last two dimensions, written as sizes and strides of the same places.
class ReshapeOperation final : public GraphOperation {
 public:
  absl::Status Read(const LoggedDescriptor& operation) {
    label_ = "reshape";
    COTAN_ASSIGN_OR_RETURN(TensorInfo input, ReadTensor(operation, CUDNN_ATTR_OPERATION_RESHAPE_XDESC));
    inputs_.push_back(std::move(input));
    COTAN_ASSIGN_OR_RETURN(output_, ReadTensor(operation, CUDNN_ATTR_OPERATION_RESHAPE_YDESC));
    StridedLayout expected = inputs_[0].layout;
    const size_t rank = expected.sizes.size();
    std::swap(expected.sizes[rank - 1], expected.sizes[rank - 2]);
    std::swap(expected.strides[rank - 1], expected.strides[rank - 2]);
    if (expected == output_.layout) return absl::OkStatus();
    return absl::UnimplementedError("the simulator has reshapes that transpose the last two dimensions only");
  }

  absl::StatusOr<HostArray> Compute(absl::Span<const HostArray* const> inputs, bool) override {
    HostArray result = {output_.layout.sizes, {}};
    const size_t rank = result.sizes.size();
    DimVector index(rank, 0);
    result.values.resize(inputs[0]->values.size());
    for (double& value : result.values) {
      DimVector from = index;
      std::swap(from[rank - 1], from[rank - 2]);
      value = inputs[0]->values[PositionOf(inputs[0]->sizes, from)];
      Next(result.sizes, index);
    }
    return result;
  }
};

template <typename T>
absl::StatusOr<std::unique_ptr<GraphOperation>> ReadAs(const LoggedDescriptor& operation) {
  auto result = std::make_unique<T>();
  COTAN_RETURN_IF_ERROR(result->Read(operation));
  return result;
}

}  // namespace

absl::StatusOr<std::unique_ptr<GraphOperation>> ReadPointwise(const LoggedDescriptor& operation) {
  return ReadAs<PointwiseOperation>(operation);
}

absl::StatusOr<std::unique_ptr<GraphOperation>> ReadMatmul(const LoggedDescriptor& operation) {
  return ReadAs<MatmulOperation>(operation);
}

absl::StatusOr<std::unique_ptr<GraphOperation>> ReadReduction(const LoggedDescriptor& operation) {
  return ReadAs<ReductionOperation>(operation);
}

absl::StatusOr<std::unique_ptr<GraphOperation>> ReadReshape(const LoggedDescriptor& operation) {
  return ReadAs<ReshapeOperation>(operation);
}

absl::StatusOr<std::unique_ptr<GraphOperation>> ReadOperation(const LoggedDescriptor& operation) {
  switch (operation.type) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      return ReadConvolution(operation);
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
      return ReadPointwise(operation);
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
      return ReadMatmul(operation);
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
      return ReadReduction(operation);
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
      return ReadReshape(operation);
    default:
      return absl::UnimplementedError(absl::StrCat("the simulator has no operation of type ", operation.type));
  }
}

}  // namespace cotan::cuda::sim
