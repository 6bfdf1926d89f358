// SPDX-License-Identifier: Apache-2.0

// Matrix products of f32 with few rows, which take the time of reading the right matrix: it is read once, in the order
// in which it is stored, and nothing is packed. For processors with AVX-512.
#ifndef COTAN_KERNELS_CPU_MATMUL_FEW_ROWS_H_
#define COTAN_KERNELS_CPU_MATMUL_FEW_ROWS_H_

#include <memory>

#include "kernels/api/kernel.h"
#include "kernels/cpu/matmul/matmul_geometry.h"
#include "kernels/cpu/matmul/matmul_steps.h"

namespace cotan::cpu {

// Returns the kernel of a product under the conditions of ProductMaker, or null if it has a batch or more than four
// rows (or columns, if the result is dense along them and there is no bias), or a right matrix that is stored by rows
// and small, or the processor lacks AVX-512. Results are bitwise equal for any thread count.
std::unique_ptr<Kernel> MakeFewRowsProduct(const MatmulGeometry& geometry, Addend addend, int threads);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_MATMUL_FEW_ROWS_H_
