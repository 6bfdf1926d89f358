// SPDX-License-Identifier: Apache-2.0

// Products of random matrices, for tests of kernels under the conditions of ProductMaker.
#ifndef COTAN_KERNELS_CPU_MATMUL_PRODUCT_CASES_H_
#define COTAN_KERNELS_CPU_MATMUL_PRODUCT_CASES_H_

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/dtype.h"
#include "kernels/api/kernel.h"
#include "kernels/cpu/matmul/matmul_geometry.h"
#include "kernels/cpu/matmul/matmul_steps.h"

namespace cotan::cpu {

// Returns the geometry of `batch` products with `gap` unused elements after each row of a matrix, or column if stored
// by columns; with one batch loop, whatever its size.
MatmulGeometry MakeProductGeometry(int64_t batch, int64_t m, int64_t k, int64_t n, bool a_columns, bool b_columns,
                                   int64_t gap);

// The values are those of `dtype`: f32 or bf16.
struct ProductCase {
  MatmulGeometry geometry;
  DType dtype = DType::kFloat32;
  std::vector<float> a, b, bias, c;
};

// Makes matrices of MakeProductGeometry(), without a loop if there is one product.
ProductCase MakeProductCase(int64_t batch, int64_t m, int64_t k, int64_t n, bool a_columns, bool b_columns, int64_t gap,
                            std::mt19937_64& random, DType dtype = DType::kFloat32);

// Makes the kernel that is tested, or returns null if there is none.
using ProductFactory =
    absl::FunctionRef<std::unique_ptr<Kernel>(const MatmulGeometry& geometry, Addend addend, int threads)>;

// Returns the memory of the result after a run, empty without a kernel.
std::vector<float> Multiply(const ProductCase& c, Addend addend, ProductFactory factory, int threads);

// Expects the result within a tolerance relative to the sum of the products' magnitudes, and a rounding to bf16, and
// equal bits with several threads.
void ExpectProduct(const ProductCase& c, Addend addend, ProductFactory factory);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_MATMUL_PRODUCT_CASES_H_
