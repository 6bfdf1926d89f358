// SPDX-License-Identifier: Apache-2.0

// A convolution of cuDNN, executed on the memory of a simulated GPU.
#ifndef COTAN_KERNELS_CUDA_SIM_CUDNN_CONVOLUTION_CALL_H_
#define COTAN_KERNELS_CUDA_SIM_CUDNN_CONVOLUTION_CALL_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/dtype.h"
#include "base/layout.h"
#include "kernels/api/kernel.h"
#include "kernels/cuda/sim/cudnn/descriptor_log.h"
#include "kernels/cuda/sim/device_memory.h"
#include "serialization/schema/program.pb.h"

namespace cotan::cuda::sim {

// An operation with the addresses of one call: operands, then the workspace.
struct ConvolutionAddresses {
  std::vector<uint64_t> inputs;
  uint64_t result = 0;
  uint64_t workspace = 0;
};

// A convolution by its definition: f32, f16 and bf16 on the CPU kernel of this project, f64 on the reference kernel.
class ConvolutionCall {
 public:
  // A tensor of the operation.
  struct Operand {
    int64_t id = 0;
    int64_t alignment = 1;  // bytes
    DType dtype = DType::kUndefined;
    StridedLayout layout;
  };

  // Reads the operation of an execution plan whose workspace has `workspace_bytes`.
  // FailedPrecondition: the plan is not one of a convolution, or an attribute is missing. Unimplemented: paddings
  // before and after differ, factors are not 1 and 0, or dtypes differ.
  static absl::StatusOr<std::shared_ptr<ConvolutionCall>> Create(const LoggedDescriptor& plan, int64_t workspace_bytes);

  // Finds the addresses that a variant pack gives to the operands.
  // InvalidArgument: a pointer is missing, null or misaligned.
  absl::StatusOr<ConvolutionAddresses> Addresses(const LoggedDescriptor& pack) const;

  // Computes the result and leaves rubbish in the workspace.
  // OutOfRange: an operand or the workspace is not inside of an allocation. InvalidArgument: the result or the
  // workspace overlap another operand. FailedPrecondition: an element of an input was never written.
  absl::Status Run(const ConvolutionAddresses& addresses, DeviceMemory& memory);

  const std::string& label() const { return label_; }

 private:
  absl::Status ReadTensors(const LoggedDescriptor& operation);
  absl::Status ReadAttributes(const LoggedDescriptor& operation);
  absl::Status CheckMemory(const ConvolutionAddresses& addresses, DeviceMemory& memory) const;
  absl::Status PrepareKernel();

  std::string label_;
  int64_t workspace_bytes_ = 0;
  serialization::Op op_;
  std::vector<Operand> inputs_;
  Operand result_;
  std::unique_ptr<Kernel> kernel_;
  std::vector<char> scratch_;
};

}  // namespace cotan::cuda::sim

#endif  // COTAN_KERNELS_CUDA_SIM_CUDNN_CONVOLUTION_CALL_H_
