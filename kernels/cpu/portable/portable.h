// SPDX-License-Identifier: Apache-2.0

// Matrix products and convolutions without oneDNN: for dtypes that oneDNN lacks, and for small binaries.
#ifndef COTAN_KERNELS_CPU_PORTABLE_PORTABLE_H_
#define COTAN_KERNELS_CPU_PORTABLE_PORTABLE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/api/computed_operand.h"
#include "kernels/api/kernel.h"

namespace cotan::cpu {

// Factories of matmul (f32, f64, i32, i64) and of the convolution ops (f32, f64), with any strides. A
// convolution gathers the windows of each image into a matrix (im2col) and multiplies; operands that are not
// row-major are copied to scratch. Results are bitwise equal for any thread count.
//
// InvalidArgument: from CheckOp(). Unimplemented: another dtype.
absl::StatusOr<std::unique_ptr<Kernel>> MakePortableMatmul(const KernelRequest& request);
absl::StatusOr<std::unique_ptr<Kernel>> MakePortableConvolution(const KernelRequest& request);

// Makes the kernel of an f32 product whose right operand an expression computes (computed_operand.h). Results are
// bitwise equal to those of MakeExpr() and MakePortableMatmul(), for any thread count.
//
// InvalidArgument: TakesComputedOperand() is false.
absl::StatusOr<std::unique_ptr<Kernel>> MakePortableMatmulOfComputedOperand(const ComputedOperandRequest& request);

// Factories of the same kernels for one dtype, T: a matmul without epilogue (float, double, int32_t, int64_t), and the
// convolution ops (float, double). Each references the code of its dtype only, so that a binary need not link the rest.
//
// InvalidArgument: from CheckOp(). Unimplemented: the op has another dtype.
template <typename T>
absl::StatusOr<std::unique_ptr<Kernel>> MakePortableProductOf(const KernelRequest& request);
template <typename T>
absl::StatusOr<std::unique_ptr<Kernel>> MakePortableConvolutionOf(const KernelRequest& request);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_PORTABLE_PORTABLE_H_
