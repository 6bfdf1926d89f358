// SPDX-License-Identifier: Apache-2.0

#include <array>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/api/kernel.h"
#include "kernels/cpu/convolution/convolution.h"
#include "kernels/cuda/sim/cudnn/graph_operation.h"
#include "kernels/reference/ops.h"
#include "serialization/schema/program.pb.h"

namespace cotan::cuda::sim {
namespace {

using namespace cudnn;  // NOLINT(google-build-using-namespace): the vendor's names

constexpr int kThreads = 2;
constexpr size_t kScratchAlignment = 64;

// The attributes of one of the three operations.
struct Names {
  const char* label;
  std::array<cudnnBackendAttributeName_t, 2> inputs;  // in the order of the op's
  cudnnBackendAttributeName_t output, convolution, alpha, beta;
};

constexpr Names kForward = {
    "convolution",
    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W},
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
};
constexpr Names kBackwardData = {
    "convolution backward data",
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W},
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
};
constexpr Names kBackwardFilter = {
    "convolution backward filter",
    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X},
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
};

const Names& NamesOf(cudnnBackendDescriptorType_t type) {
  if (type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR) return kForward;
  return type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ? kBackwardData : kBackwardFilter;
}

// The factors of the product and of the old result must be 1 and 0.
absl::Status CheckFactor(const LoggedDescriptor& operation, cudnnBackendAttributeName_t name, double expected) {
  COTAN_ASSIGN_OR_RETURN(const LoggedDescriptor::Attribute* attribute, operation.Find(name));
  double value = 0;
  if (attribute->type == CUDNN_TYPE_DOUBLE) {
    COTAN_ASSIGN_OR_RETURN(value, SingleValue<double>(operation, name));
  } else {
    COTAN_ASSIGN_OR_RETURN(value, SingleValue<float>(operation, name));
  }
  if (value == expected) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("the simulator has no factor ", value, " for attribute ", name));
}

template <typename T>
std::vector<char> ToBytes(const HostArray& array, bool rounds_to_tf32) {
  std::vector<char> bytes(array.values.size() * sizeof(T));
  for (size_t i = 0; i < array.values.size(); ++i) {
    const T value = static_cast<T>(rounds_to_tf32 ? RoundToTf32(array.values[i]) : array.values[i]);
    std::memcpy(&bytes[i * sizeof(T)], &value, sizeof(T));
  }
  return bytes;
}

template <typename T>
void FromBytes(const std::vector<char>& bytes, HostArray& array) {
  array.values.resize(bytes.size() / sizeof(T));
  for (size_t i = 0; i < array.values.size(); ++i) {
    T value;
    std::memcpy(&value, &bytes[i * sizeof(T)], sizeof(T));
    array.values[i] = value;
  }
}

// A convolution with sums in f32, on the CPU kernel of this project, or in f64, on the reference kernel.
class ConvolutionOperation final : public GraphOperation {
 public:
  absl::Status Read(const LoggedDescriptor& operation) {
    const Names& names = NamesOf(operation.type);
    label_ = names.label;
    for (const cudnnBackendAttributeName_t name : names.inputs) {
      COTAN_ASSIGN_OR_RETURN(TensorInfo input, ReadTensor(operation, name));
      inputs_.push_back(std::move(input));
    }
    COTAN_ASSIGN_OR_RETURN(output_, ReadTensor(operation, names.output));
    if (inputs_[0].dtype != inputs_[1].dtype) return absl::UnimplementedError("dtypes of a convolution differ");
    COTAN_RETURN_IF_ERROR(CheckFactor(operation, names.alpha, 1));
    COTAN_RETURN_IF_ERROR(CheckFactor(operation, names.beta, 0));
    COTAN_ASSIGN_OR_RETURN(const std::shared_ptr<const LoggedDescriptor> convolution,
                           operation.Descriptor(names.convolution));
    COTAN_RETURN_IF_ERROR(ReadAttributes(operation.type, *convolution));
    return PrepareKernel();
  }

  absl::StatusOr<HostArray> Compute(absl::Span<const HostArray* const> inputs, bool rounds_to_tf32) override {
    const bool rounds = rounds_to_tf32 && inputs_[0].dtype == DType::kFloat32;
    std::vector<std::vector<char>> buffers;
    std::vector<void*> pointers;
    for (const HostArray* input : inputs) {
      buffers.push_back(is_double_ ? ToBytes<double>(*input, false) : ToBytes<float>(*input, rounds));
      pointers.push_back(buffers.back().data());
    }
    HostArray result = {output_.layout.sizes, {}};
    std::vector<char> output(static_cast<size_t>(NumElements(result.sizes)) * (is_double_ ? 8 : 4));
    void* output_pointer = output.data();
    auto scratch = reinterpret_cast<uintptr_t>(scratch_.data());
    scratch = (scratch + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
    COTAN_RETURN_IF_ERROR(kernel_->Run({.inputs = pointers.data(),
                                        .outputs = &output_pointer,
                                        .scratch = reinterpret_cast<void*>(scratch)}));  // NOLINT
    is_double_ ? FromBytes<double>(output, result) : FromBytes<float>(output, result);
    return result;
  }

 private:
  absl::Status ReadAttributes(cudnnBackendDescriptorType_t type, const LoggedDescriptor& convolution) {
    serialization::Convolution* attributes = nullptr;
    const TensorInfo* wide = &inputs_[0];
    const TensorInfo* weights = &inputs_[1];
    if (type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR) {
      attributes = op_.mutable_convolution();
    } else if (type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR) {
      attributes = op_.mutable_convolution_backward_input()->mutable_forward();
      wide = &output_;
    } else {
      attributes = op_.mutable_convolution_backward_weight()->mutable_forward();
      wide = &inputs_[1];
      weights = &output_;
    }
    COTAN_ASSIGN_OR_RETURN(const auto sum_type,
                           SingleValue<cudnnDataType_t>(convolution, CUDNN_ATTR_CONVOLUTION_COMP_TYPE));
    is_double_ = sum_type == CUDNN_DATA_DOUBLE;
    if (is_double_ != (inputs_[0].dtype == DType::kFloat64)) {
      return absl::UnimplementedError("sums of a convolution are in f64 for f64 operands only");
    }
    COTAN_ASSIGN_OR_RETURN(const auto strides, convolution.Values<int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES));
    COTAN_ASSIGN_OR_RETURN(const auto dilations, convolution.Values<int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS));
    COTAN_ASSIGN_OR_RETURN(const auto before, convolution.Values<int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS));
    COTAN_ASSIGN_OR_RETURN(const auto after, convolution.Values<int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS));
    if (before != after) return absl::UnimplementedError("paddings before and after differ");
    for (const int64_t stride : strides) attributes->add_stride(stride);
    for (const int64_t dilation : dilations) attributes->add_dilation(dilation);
    for (const int64_t padding : before) attributes->add_padding(padding);
    attributes->set_groups(wide->layout.sizes[1] / weights->layout.sizes[1]);
    return absl::OkStatus();
  }

  KernelFactory Factory() const {
    if (op_.has_convolution()) return is_double_ ? reference::MakeConvolution : cpu::MakeConvolution;
    if (op_.has_convolution_backward_input()) {
      return is_double_ ? reference::MakeConvolutionBackwardInput : cpu::MakeConvolutionBackwardInput;
    }
    return is_double_ ? reference::MakeConvolutionBackwardWeight : cpu::MakeConvolutionBackwardWeight;
  }

  absl::Status PrepareKernel() {
    const auto spec = [&](const TensorInfo& tensor) {
      const DimVector& sizes = tensor.layout.sizes;
      return TensorSpec{is_double_ ? DType::kFloat64 : DType::kFloat32, {sizes, ContiguousStrides(sizes), 0}};
    };
    const std::vector<TensorSpec> inputs = {spec(inputs_[0]), spec(inputs_[1])};
    const std::vector<TensorSpec> outputs = {spec(output_)};
    const KernelRequest request = {
        .op = op_, .inputs = inputs, .outputs = outputs, .symbols = {}, .threads = kThreads, .name = label_};
    COTAN_ASSIGN_OR_RETURN(kernel_, Factory()(request));
    scratch_.resize(kernel_->scratch_bytes() + kScratchAlignment);
    return absl::OkStatus();
  }

  bool is_double_ = false;
  serialization::Op op_;
  std::unique_ptr<Kernel> kernel_;
  std::vector<char> scratch_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<GraphOperation>> ReadConvolution(const LoggedDescriptor& operation) {
  auto result = std::make_unique<ConvolutionOperation>();
  COTAN_RETURN_IF_ERROR(result->Read(operation));
  return result;
}

}  // namespace cotan::cuda::sim
