// SPDX-License-Identifier: Apache-2.0

// Elements of tensors as bytes, for tests of ops that move elements of any dtype, complex ones included.
#ifndef COTAN_KERNELS_CUDA_COPY_BYTE_TENSOR_H_
#define COTAN_KERNELS_CUDA_COPY_BYTE_TENSOR_H_

#include <cstdint>
#include <random>
#include <string>

#include "absl/types/span.h"
#include "kernels/testing/host_tensor.h"

namespace cotan::cuda::testing {

inline constexpr DType kAllDTypes[] = {DType::kBool,    DType::kUInt8,   DType::kInt8,      DType::kInt16,
                                       DType::kInt32,   DType::kInt64,   DType::kFloat16,   DType::kBFloat16,
                                       DType::kFloat32, DType::kFloat64, DType::kComplex64, DType::kComplex128};

// Returns a tensor of random bytes.
cotan::testing::HostTensor RandomBytes(DType dtype, StridedLayout layout, std::mt19937_64& random);

// Returns the bytes of the element at `index`.
std::string ElementBytes(const cotan::testing::HostTensor& tensor, absl::Span<const int64_t> index);

// Returns the bytes of all elements in row-major order.
std::string AllBytes(const cotan::testing::HostTensor& tensor);

}  // namespace cotan::cuda::testing

#endif  // COTAN_KERNELS_CUDA_COPY_BYTE_TENSOR_H_
