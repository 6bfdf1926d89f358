// SPDX-License-Identifier: Apache-2.0

// One kernel for a matrix product and the expression that computes its right operand.
//
// Such an operand is a weight that is stored as small integers: an expression dequantizes it for each product. As a
// kernel of its own, the expression writes the whole matrix to memory; a kernel of both ops computes a block of it,
// multiplies by it while it is in cache, and uses the same memory for the next block.
#ifndef COTAN_KERNELS_API_COMPUTED_OPERAND_H_
#define COTAN_KERNELS_API_COMPUTED_OPERAND_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/api/kernel.h"

namespace cotan {

// The two ops, each with the operands that it has by itself. Borrowed for a call only.
struct ComputedOperandRequest {
  // A matmul without epilogue; inputs[1] is the computed operand.
  const KernelRequest& product;
  // A pointwise expression with one output, dense and row-major. Element (0, ..., 0) of it and of product.inputs[1]
  // is the same one in memory, and both have the same number of elements.
  const KernelRequest& expression;
};

// The functions of a backend for such pairs.
struct ComputedOperandKernels {
  // Returns whether `make` makes a kernel for the pair that is expected to take no longer than the two ops by
  // themselves. It depends on the ops and their operands alone, not on threads or the device.
  bool (*takes)(const ComputedOperandRequest& request) = nullptr;
  // Prepares the kernel of a pair that `takes` accepts. KernelArgs::inputs are those of the product without the
  // computed operand, then those of the expression; outputs are those of the product. Errors as KernelFactory.
  absl::StatusOr<std::unique_ptr<Kernel>> (*make)(const ComputedOperandRequest& request) = nullptr;
};

}  // namespace cotan

#endif  // COTAN_KERNELS_API_COMPUTED_OPERAND_H_
