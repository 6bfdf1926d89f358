// Convolutions of f32 by oneDNN: one to three spatial dimensions, groups,
// dilation, transposed.
#ifndef COTAN_KERNELS_CPU_CONVOLUTION_CONVOLUTION_H_
#define COTAN_KERNELS_CPU_CONVOLUTION_CONVOLUTION_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/api/kernel.h"

namespace cotan::cpu {

// Factories of the convolution ops. Operands may have any strides; channels
// last ({0, 2, 3, 1}) is read and written in place, other layouts go through
// scratch. Weights are brought into oneDNN's order in every run, since they
// change in every step. Convolution and backward_input are bitwise equal for
// any thread count; so is backward_weight, for which threads share output
// channels but never the sum over a batch.
//
// InvalidArgument: from CheckOp().
absl::StatusOr<std::unique_ptr<Kernel>> MakeConvolution(const KernelRequest& request);
absl::StatusOr<std::unique_ptr<Kernel>> MakeConvolutionBackwardInput(const KernelRequest& request);
absl::StatusOr<std::unique_ptr<Kernel>> MakeConvolutionBackwardWeight(const KernelRequest& request);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_CONVOLUTION_CONVOLUTION_H_
