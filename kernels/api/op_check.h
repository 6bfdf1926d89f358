// Whether an op may be given these operands: the first half of every kernel
// factory on every device, and of the loader's verifier. An op that passes
// reads and writes only the elements its operands' layouts describe.
#ifndef COTAN_KERNELS_API_OP_CHECK_H_
#define COTAN_KERNELS_API_OP_CHECK_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/layout.h"
#include "kernels/api/kernel.h"
#include "serialization/schema/program.pb.h"

namespace cotan {

// Checks counts, dtypes, sizes and attributes of `request.op` against
// program.proto. Values of an index operand are data: kernels check them in
// Run().
// InvalidArgument: something is wrong; the message names op, operand, what was
// found and what is expected. Unimplemented: a dtype that no kernel has.
absl::Status CheckOp(const KernelRequest& request);

// The part of CheckOp() that holds for all ops: ranks agree with strides, no
// negative size or stride, extents fit int64, no two elements of an output
// share memory.
absl::Status CheckOperandLayouts(const KernelRequest& request);

// Size of the convolution's output along spatial dimension `dim`, for an input
// of `input` and a kernel of `kernel` elements. Attributes have passed CheckOp.
int64_t ConvolutionOutputSize(const serialization::Convolution& op, int dim, int64_t input, int64_t kernel);

// Size of a pool's output along spatial dimension `dim`, as ATen computes it.
int64_t PoolOutputSize(const serialization::Pool& op, int dim, int64_t input);

}  // namespace cotan

#endif  // COTAN_KERNELS_API_OP_CHECK_H_
