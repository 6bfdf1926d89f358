// SPDX-License-Identifier: Apache-2.0

// Matmul ops with an epilogue.
#ifndef COTAN_KERNELS_CPU_MATMUL_MATMUL_EPILOGUE_H_
#define COTAN_KERNELS_CPU_MATMUL_MATMUL_EPILOGUE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/api/kernel.h"

namespace cotan::cpu {

// Returns the kernel of a matmul op with an epilogue: the one-pass kernel of matmul_update.h where it covers
// the op, otherwise a kernel of `product` that writes the whole product to scratch, followed by the
// expression.
//
// InvalidArgument: from CheckOp(). Unimplemented: from `product`.
absl::StatusOr<std::unique_ptr<Kernel>> MakeMatmulEpilogue(const KernelRequest& request, KernelFactory product);

// Makes the kernel of MakeMatmulEpilogue() with `expr` in place of MakeExpr(). Errors of `expr`, too.
absl::StatusOr<std::unique_ptr<Kernel>> MakeMatmulEpilogueWith(const KernelRequest& request, KernelFactory product,
                                                               KernelFactory expr);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_MATMUL_MATMUL_EPILOGUE_H_
