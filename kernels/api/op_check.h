// SPDX-License-Identifier: Apache-2.0

// Checks of an op against its operands. Every kernel factory on every device and the verifier of artifacts
// begin with them. An op that passes reads and writes only the elements that its operands' layouts describe.
#ifndef COTAN_KERNELS_API_OP_CHECK_H_
#define COTAN_KERNELS_API_OP_CHECK_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/layout.h"
#include "kernels/api/kernel.h"
#include "serialization/schema/program.pb.h"

namespace cotan {

// Checks counts, dtypes, sizes and attributes of `request.op` against program.proto. Values of an index
// operand are data: kernels check them in Run().
// InvalidArgument: the op or an operand is invalid; the message names the op and the operand, the value found
// and the value expected.
// Unimplemented: no kernel supports a dtype.
absl::Status CheckOp(const KernelRequest& request);

// Checks the layouts of all operands, the part of CheckOp() that is the same for all ops: each has as many
// strides as sizes, no size or stride is negative, extents fit int64, and no two elements of an output share
// memory.
// InvalidArgument: a layout violates these rules.
absl::Status CheckOperandLayouts(const KernelRequest& request);

// Returns the size of the convolution's output along spatial dimension `dim`, for an input of `input` and a
// kernel of `kernel` elements. The attributes have passed CheckOp().
int64_t ConvolutionOutputSize(const serialization::Convolution& op, int dim, int64_t input, int64_t kernel);

// Returns the size of a pool's output along spatial dimension `dim` for an input of `input` elements, with
// ATen's formula (pooling_output_shape in aten/src/ATen/native/Pool.h).
int64_t PoolOutputSize(const serialization::Pool& op, int dim, int64_t input);

}  // namespace cotan

#endif  // COTAN_KERNELS_API_OP_CHECK_H_
