// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/cudnn/convolution_call.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cpu/convolution/convolution.h"
#include "kernels/reference/ops.h"

namespace cotan::cuda::sim {
namespace {

using namespace cudnn;  // NOLINT(google-build-using-namespace): the vendor's names

constexpr int kThreads = 2;
constexpr int64_t kScratchAlignment = 64;
constexpr std::byte kRubbish{0xa5};

absl::StatusOr<DType> ToDType(cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_FLOAT:
      return DType::kFloat32;
    case CUDNN_DATA_DOUBLE:
      return DType::kFloat64;
    case CUDNN_DATA_HALF:
      return DType::kFloat16;
    case CUDNN_DATA_BFLOAT16:
      return DType::kBFloat16;
  }
  return absl::UnimplementedError(absl::StrCat("the simulator has no cuDNN data type ", type));
}

template <typename T>
absl::StatusOr<T> Value(const LoggedDescriptor& descriptor, cudnnBackendAttributeName_t name) {
  COTAN_ASSIGN_OR_RETURN(const std::vector<T> values, descriptor.Values<T>(name));
  if (values.size() == 1) return values[0];
  return absl::FailedPreconditionError(absl::StrCat("attribute ", name, " has ", values.size(), " elements"));
}

absl::StatusOr<ConvolutionCall::Operand> ReadTensor(const LoggedDescriptor& operation,
                                                    cudnnBackendAttributeName_t name) {
  COTAN_ASSIGN_OR_RETURN(const std::shared_ptr<const LoggedDescriptor> tensor, operation.Descriptor(name));
  ConvolutionCall::Operand operand;
  COTAN_ASSIGN_OR_RETURN(operand.id, Value<int64_t>(*tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID));
  COTAN_ASSIGN_OR_RETURN(operand.alignment, Value<int64_t>(*tensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT));
  COTAN_ASSIGN_OR_RETURN(const auto type, Value<cudnnDataType_t>(*tensor, CUDNN_ATTR_TENSOR_DATA_TYPE));
  COTAN_ASSIGN_OR_RETURN(operand.dtype, ToDType(type));
  COTAN_ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, tensor->Values<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS));
  COTAN_ASSIGN_OR_RETURN(const std::vector<int64_t> strides, tensor->Values<int64_t>(CUDNN_ATTR_TENSOR_STRIDES));
  operand.layout.sizes.assign(sizes.begin(), sizes.end());
  operand.layout.strides.assign(strides.begin(), strides.end());
  return operand;
}

// The factors of the product and of the old result must be 1 and 0.
absl::Status CheckFactor(const LoggedDescriptor& operation, cudnnBackendAttributeName_t name, double expected) {
  COTAN_ASSIGN_OR_RETURN(const LoggedDescriptor::Attribute* attribute, operation.Find(name));
  double value = 0;
  if (attribute->type == CUDNN_TYPE_DOUBLE) {
    COTAN_ASSIGN_OR_RETURN(value, Value<double>(operation, name));
  } else {
    COTAN_ASSIGN_OR_RETURN(value, Value<float>(operation, name));
  }
  if (value == expected) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("the simulator has no factor ", value, " for attribute ", name));
}

int64_t ExtentBytes(const ConvolutionCall::Operand& operand) {
  return StorageExtent(operand.layout) * static_cast<int64_t>(ByteSize(operand.dtype));
}

bool Overlap(uint64_t a, int64_t a_bytes, uint64_t b, int64_t b_bytes) {
  return a < b + static_cast<uint64_t>(b_bytes) && b < a + static_cast<uint64_t>(a_bytes);
}

// Calls fn(byte offset in the operand, row-major position) for each element.
template <typename Fn>
absl::Status ForEachElement(const ConvolutionCall::Operand& operand, Fn fn) {
  const StridedLayout& layout = operand.layout;
  DimVector index(layout.sizes.size(), 0);
  const auto size = static_cast<int64_t>(ByteSize(operand.dtype));
  for (int64_t i = 0; i < NumElements(layout.sizes); ++i) {
    int64_t offset = 0;
    for (size_t d = 0; d < index.size(); ++d) offset += index[d] * layout.strides[d];
    COTAN_RETURN_IF_ERROR(fn(offset * size, i * size));
    for (size_t d = index.size(); d-- > 0;) {
      if (++index[d] < layout.sizes[d]) break;
      index[d] = 0;
    }
  }
  return absl::OkStatus();
}

// The memory in which a kernel of the host accesses an operand: the device's own if the operand is dense, otherwise a
// row-major copy.
class HostOperand {
 public:
  HostOperand(const ConvolutionCall::Operand& operand, uint64_t address, DeviceMemory& memory)
      : operand_(operand), address_(address), memory_(memory) {}

  // Returns the layout that the kernel sees.
  static StridedLayout LayoutOf(const ConvolutionCall::Operand& operand) {
    if (IsDenseNonOverlapping(operand.layout)) return operand.layout;
    return {operand.layout.sizes, ContiguousStrides(operand.layout.sizes), 0};
  }

  absl::StatusOr<const void*> Read() {
    if (IsDenseNonOverlapping(operand_.layout)) {
      return memory_.ViewForRead(address_, static_cast<uint64_t>(ExtentBytes(operand_)));
    }
    Allocate();
    COTAN_RETURN_IF_ERROR(ForEachElement(operand_, [&](int64_t offset, int64_t position) {
      return memory_.Read(address_ + static_cast<uint64_t>(offset), Element(position));
    }));
    return copy_.data();
  }

  absl::StatusOr<void*> BeginWrite() {
    if (IsDenseNonOverlapping(operand_.layout)) {
      return memory_.ViewForWrite(address_, static_cast<uint64_t>(ExtentBytes(operand_)));
    }
    Allocate();
    return copy_.data();
  }
  absl::Status EndWrite() {
    if (IsDenseNonOverlapping(operand_.layout)) return absl::OkStatus();
    return ForEachElement(operand_, [&](int64_t offset, int64_t position) {
      return memory_.Write(address_ + static_cast<uint64_t>(offset), Element(position));
    });
  }

 private:
  void Allocate() { copy_.resize(static_cast<size_t>(NumElements(operand_.layout.sizes)) * ByteSize(operand_.dtype)); }
  absl::Span<std::byte> Element(int64_t position) {
    return absl::MakeSpan(copy_).subspan(static_cast<size_t>(position), ByteSize(operand_.dtype));
  }

  const ConvolutionCall::Operand& operand_;
  const uint64_t address_;
  DeviceMemory& memory_;
  std::vector<std::byte> copy_;
};

KernelFactory FactoryOf(const serialization::Op& op, DType dtype) {
  const bool is_double = dtype == DType::kFloat64;
  if (op.has_convolution()) return is_double ? reference::MakeConvolution : cpu::MakeConvolution;
  if (op.has_convolution_backward_input()) {
    return is_double ? reference::MakeConvolutionBackwardInput : cpu::MakeConvolutionBackwardInput;
  }
  return is_double ? reference::MakeConvolutionBackwardWeight : cpu::MakeConvolutionBackwardWeight;
}

}  // namespace

absl::StatusOr<std::shared_ptr<ConvolutionCall>> ConvolutionCall::Create(const LoggedDescriptor& plan,
                                                                         int64_t workspace_bytes) {
  COTAN_ASSIGN_OR_RETURN(const std::shared_ptr<const LoggedDescriptor> config,
                         plan.Descriptor(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG));
  if (config == nullptr || config->proposed_by == nullptr) {
    return absl::FailedPreconditionError("the engine configuration of a plan does not come from a heuristic");
  }
  COTAN_ASSIGN_OR_RETURN(const std::shared_ptr<const LoggedDescriptor> graph,
                         config->proposed_by->Descriptor(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH));
  COTAN_ASSIGN_OR_RETURN(const std::shared_ptr<const LoggedDescriptor> operation,
                         graph->Descriptor(CUDNN_ATTR_OPERATIONGRAPH_OPS));
  auto call = std::make_shared<ConvolutionCall>();
  call->workspace_bytes_ = workspace_bytes;
  COTAN_RETURN_IF_ERROR(call->ReadTensors(*operation));
  COTAN_RETURN_IF_ERROR(call->ReadAttributes(*operation));
  for (const Operand& input : call->inputs_) {
    if (input.dtype != call->result_.dtype) return absl::UnimplementedError("dtypes of a convolution differ");
  }
  COTAN_RETURN_IF_ERROR(call->PrepareKernel());
  return call;
}

// Inputs are in the order of the op's.
absl::Status ConvolutionCall::ReadTensors(const LoggedDescriptor& operation) {
  std::array<cudnnBackendAttributeName_t, 3> names;  // inputs, then the result
  switch (operation.type) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      label_ = "cudnn convolution";
      names = {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
               CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y};
      break;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      label_ = "cudnn convolution backward data";
      names = {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX};
      break;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      label_ = "cudnn convolution backward filter";
      names = {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW};
      break;
    default:
      return absl::FailedPreconditionError(absl::StrCat("the simulator has no operation of type ", operation.type));
  }
  for (size_t i = 0; i < 2; ++i) {
    COTAN_ASSIGN_OR_RETURN(Operand operand, ReadTensor(operation, names[i]));
    inputs_.push_back(std::move(operand));
  }
  COTAN_ASSIGN_OR_RETURN(result_, ReadTensor(operation, names[2]));
  return absl::OkStatus();
}

absl::Status ConvolutionCall::ReadAttributes(const LoggedDescriptor& operation) {
  serialization::Convolution* attributes = nullptr;
  const Operand* wide = &inputs_[0];
  const Operand* weights = &inputs_[1];
  cudnnBackendAttributeName_t descriptor = CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC;
  cudnnBackendAttributeName_t alpha = CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA;
  cudnnBackendAttributeName_t beta = CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA;
  if (operation.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR) {
    attributes = op_.mutable_convolution();
  } else if (operation.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR) {
    attributes = op_.mutable_convolution_backward_input()->mutable_forward();
    wide = &result_;
    descriptor = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC;
    alpha = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA;
    beta = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA;
  } else {
    attributes = op_.mutable_convolution_backward_weight()->mutable_forward();
    wide = &inputs_[1];
    weights = &result_;
    descriptor = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC;
    alpha = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA;
    beta = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA;
  }
  COTAN_RETURN_IF_ERROR(CheckFactor(operation, alpha, 1));
  COTAN_RETURN_IF_ERROR(CheckFactor(operation, beta, 0));
  COTAN_ASSIGN_OR_RETURN(const std::shared_ptr<const LoggedDescriptor> convolution, operation.Descriptor(descriptor));
  COTAN_ASSIGN_OR_RETURN(const auto strides, convolution->Values<int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES));
  COTAN_ASSIGN_OR_RETURN(const auto dilations, convolution->Values<int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS));
  COTAN_ASSIGN_OR_RETURN(const auto before, convolution->Values<int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS));
  COTAN_ASSIGN_OR_RETURN(const auto after, convolution->Values<int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS));
  if (before != after) return absl::UnimplementedError("paddings before and after differ");
  for (const int64_t stride : strides) attributes->add_stride(stride);
  for (const int64_t dilation : dilations) attributes->add_dilation(dilation);
  for (const int64_t padding : before) attributes->add_padding(padding);
  attributes->set_groups(wide->layout.sizes[1] / weights->layout.sizes[1]);
  return absl::OkStatus();
}

absl::StatusOr<ConvolutionAddresses> ConvolutionCall::Addresses(const LoggedDescriptor& pack) const {
  COTAN_ASSIGN_OR_RETURN(const auto ids, pack.Values<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS));
  COTAN_ASSIGN_OR_RETURN(const auto pointers, pack.Values<uint64_t>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS));
  if (ids.size() != pointers.size()) return absl::InvalidArgumentError("a variant pack has more ids than pointers");
  const auto find = [&](const Operand& operand) -> absl::StatusOr<uint64_t> {
    const auto found = std::find(ids.begin(), ids.end(), operand.id);
    if (found == ids.end()) {
      return absl::InvalidArgumentError(absl::StrCat("the variant pack has no pointer of tensor ", operand.id));
    }
    const uint64_t address = pointers[static_cast<size_t>(found - ids.begin())];
    if (address == 0 || address % static_cast<uint64_t>(operand.alignment) != 0) {
      return absl::InvalidArgumentError(absl::StrCat("the address ", absl::Hex(address), " of tensor ", operand.id,
                                                     " is not aligned to ", operand.alignment,
                                                     " bytes, as its descriptor promises"));
    }
    return address;
  };
  ConvolutionAddresses addresses;
  for (const Operand& input : inputs_) {
    COTAN_ASSIGN_OR_RETURN(const uint64_t address, find(input));
    addresses.inputs.push_back(address);
  }
  COTAN_ASSIGN_OR_RETURN(addresses.result, find(result_));
  if (workspace_bytes_ > 0) {
    COTAN_ASSIGN_OR_RETURN(addresses.workspace, Value<uint64_t>(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE));
    if (addresses.workspace == 0 || addresses.workspace % 16 != 0) {
      return absl::InvalidArgumentError(absl::StrCat("the plan needs a workspace of ", workspace_bytes_,
                                                     " bytes, aligned to 16; the variant pack has the address ",
                                                     absl::Hex(addresses.workspace)));
    }
  }
  return addresses;
}

absl::Status ConvolutionCall::CheckMemory(const ConvolutionAddresses& addresses, DeviceMemory& memory) const {
  const auto check = [&](absl::string_view name, uint64_t address, int64_t bytes) {
    const absl::Status status = memory.CheckBounds(address, static_cast<uint64_t>(bytes));
    return absl::Status(status.code(), absl::StrCat(label_, ", ", name, ": ", status.message()));
  };
  COTAN_RETURN_IF_ERROR(check("result", addresses.result, ExtentBytes(result_)));
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const int64_t bytes = ExtentBytes(inputs_[i]);
    COTAN_RETURN_IF_ERROR(check(absl::StrCat("input ", i), addresses.inputs[i], bytes));
    if (Overlap(addresses.inputs[i], bytes, addresses.result, ExtentBytes(result_)) ||
        Overlap(addresses.inputs[i], bytes, addresses.workspace, workspace_bytes_)) {
      return absl::InvalidArgumentError(absl::StrCat(label_, ": input ", i, " overlaps the result or the workspace"));
    }
  }
  if (workspace_bytes_ == 0) return absl::OkStatus();
  COTAN_RETURN_IF_ERROR(check("workspace", addresses.workspace, workspace_bytes_));
  if (Overlap(addresses.result, ExtentBytes(result_), addresses.workspace, workspace_bytes_)) {
    return absl::InvalidArgumentError(absl::StrCat(label_, ": the workspace overlaps the result"));
  }
  return absl::OkStatus();
}

absl::Status ConvolutionCall::PrepareKernel() {
  std::vector<TensorSpec> inputs;
  for (const Operand& input : inputs_) inputs.push_back({input.dtype, HostOperand::LayoutOf(input)});
  const std::vector<TensorSpec> outputs = {{result_.dtype, HostOperand::LayoutOf(result_)}};
  const KernelRequest request = {
      .op = op_, .inputs = inputs, .outputs = outputs, .symbols = {}, .threads = kThreads, .name = label_};
  COTAN_ASSIGN_OR_RETURN(kernel_, FactoryOf(op_, result_.dtype)(request));
  scratch_.resize(kernel_->scratch_bytes() + kScratchAlignment);
  return absl::OkStatus();
}

absl::Status ConvolutionCall::Run(const ConvolutionAddresses& addresses, DeviceMemory& memory) {
  COTAN_RETURN_IF_ERROR(CheckMemory(addresses, memory));
  if (workspace_bytes_ > 0) {
    COTAN_ASSIGN_OR_RETURN(std::byte * workspace,
                           memory.ViewForWrite(addresses.workspace, static_cast<uint64_t>(workspace_bytes_)));
    std::fill_n(workspace, workspace_bytes_, kRubbish);
  }
  std::vector<HostOperand> operands;
  std::vector<void*> inputs;
  operands.reserve(inputs_.size());
  for (size_t i = 0; i < inputs_.size(); ++i) {
    operands.emplace_back(inputs_[i], addresses.inputs[i], memory);
    COTAN_ASSIGN_OR_RETURN(const void* input, operands.back().Read());
    inputs.push_back(const_cast<void*>(input));
  }
  HostOperand result(result_, addresses.result, memory);
  COTAN_ASSIGN_OR_RETURN(void* output, result.BeginWrite());
  auto scratch = reinterpret_cast<uintptr_t>(scratch_.data());
  scratch = (scratch + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
  COTAN_RETURN_IF_ERROR(
      kernel_->Run({.inputs = inputs.data(), .outputs = &output, .scratch = reinterpret_cast<void*>(scratch)}));
  return result.EndWrite();
}

}  // namespace cotan::cuda::sim
