// SPDX-License-Identifier: Apache-2.0

// Matrix products of cuBLASLt as steps of a plan.
#ifndef COTAN_KERNELS_CUDA_CUBLASLT_PRODUCT_CALL_H_
#define COTAN_KERNELS_CUDA_CUBLASLT_PRODUCT_CALL_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "kernels/cuda/launch/library_call.h"

namespace cotan::cuda {

// A matrix of each product of a batch, stored by columns. Strides are in elements.
struct ProductMatrix {
  int64_t leading_dimension = 1;  // distance of two columns; at least the stored rows
  int64_t batch_stride = 0;       // 0: the same matrix for the whole batch
  bool transposed = false;        // the stored matrix is the transpose of the operand
  friend bool operator==(const ProductMatrix&, const ProductMatrix&) = default;
};

// Starts of the matrices of a call, in elements from the addresses of the step's arguments.
struct ProductOffsets {
  int64_t a = 0, b = 0, c = 0, d = 0;  // c: of the addend
  friend bool operator==(const ProductOffsets&, const ProductOffsets&) = default;
};

// The addend of a product, which is added before rounding.
enum class ProductAddend : uint8_t {
  kNone,
  kMatrix,  // C, of m x n
  kBias,    // a vector of m elements, without gaps, to each column
};

// D = A B, D = A B + C, or D = A B + bias: D is m x n, A is m x k, B is k x n, none of them empty. C and D are not
// transposed. C may be D itself, with the same layout; D overlaps none of A, B and bias.
struct ProductDescription {
  DType dtype = DType::kUndefined;  // f16, bf16, f32 or f64; sums are in f32, for f64 in f64
  int64_t m = 0, n = 0, k = 0;
  int64_t batch_count = 1;  // of each call, at most kMaxBatchCount
  ProductMatrix a, b, c, d;
  ProductAddend addend = ProductAddend::kNone;  // kBias: batch_count is 1
  std::vector<ProductOffsets> calls;            // one batch each
  friend bool operator==(const ProductDescription&, const ProductDescription&) = default;

  // Grids of GPUs have at most this many layers.
  static constexpr int64_t kMaxBatchCount = 65535;
  static constexpr int64_t kMaxBiasBytes = 1 << 20;
};

// A call whose arguments are the addresses of a, b, d, or of a, b, the addend, d. They are aligned to elements at
// least. Results do not depend on what else runs, and are the same in each run.
class ProductCall final : public LibraryCallSpec {
 public:
  explicit ProductCall(ProductDescription description) : description_(std::move(description)) {}

  const ProductDescription& description() const { return description_; }

  absl::StatusOr<std::unique_ptr<LibraryOperation>> Prepare(VendorLibraries& libraries) const override;

 private:
  const ProductDescription description_;
};

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_CUBLASLT_PRODUCT_CALL_H_
