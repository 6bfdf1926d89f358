// SPDX-License-Identifier: Apache-2.0

// Matrix products of f32, bf16 and f16 by oneDNN, also by avx512_gemm.h (f32) and avx512_bf16_gemm.h.
#ifndef COTAN_KERNELS_CPU_MATMUL_MATMUL_H_
#define COTAN_KERNELS_CPU_MATMUL_MATMUL_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/api/computed_operand.h"
#include "kernels/api/kernel.h"

namespace cotan::cpu {

// Factory of the matmul op for f32, bf16 and f16, with or without an epilogue: sums are computed in f32 and
// rounded once. Operands may have any strides: matrices that are dense along rows or columns are read in
// place, others are packed into scratch first. Results are bitwise equal for any thread count.
//
// InvalidArgument: from CheckOp().
absl::StatusOr<std::unique_ptr<Kernel>> MakeMatmul(const KernelRequest& request);

// Makes the kernel of a product whose right operand an expression computes (computed_operand.h). Results are bitwise
// equal for any thread count, and where avx512_gemm.h makes the product equal to those of MakeExpr() and MakeMatmul().
//
// InvalidArgument: TakesComputedOperand() is false.
absl::StatusOr<std::unique_ptr<Kernel>> MakeMatmulOfComputedOperand(const ComputedOperandRequest& request);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_MATMUL_MATMUL_H_
