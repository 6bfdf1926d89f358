// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/cublaslt/host_product.h"

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/half.h"
#include "base/status_macros.h"
#include "oneapi/dnnl/dnnl.h"

namespace cotan::cuda::sim {
namespace {

// Returns `value` with 10 fraction bits.
float RoundToTf32(float value) {
  if (!std::isfinite(value)) return value;
  return std::bit_cast<float>((std::bit_cast<uint32_t>(value) + 0x1000U) & ~0x1fffU);
}

template <typename T>
T Decode(cublaslt::cudaDataType_t type, const std::byte* from) {
  uint16_t half = 0;
  float f32 = 0;
  double f64 = 0;
  switch (type) {
    case cublaslt::CUDA_R_16F:
      std::memcpy(&half, from, sizeof(half));
      return static_cast<T>(Float16ToFloat(half));
    case cublaslt::CUDA_R_16BF:
      std::memcpy(&half, from, sizeof(half));
      return static_cast<T>(BFloat16ToFloat(half));
    case cublaslt::CUDA_R_64F:
      std::memcpy(&f64, from, sizeof(f64));
      return static_cast<T>(f64);
    case cublaslt::CUDA_R_32F:
      break;
  }
  std::memcpy(&f32, from, sizeof(f32));
  return static_cast<T>(f32);
}

template <typename T>
void Encode(cublaslt::cudaDataType_t type, T value, std::byte* to) {
  const auto f32 = static_cast<float>(value);
  const auto f64 = static_cast<double>(value);
  uint16_t half = 0;
  switch (type) {
    case cublaslt::CUDA_R_16F:
      half = FloatToFloat16(f32);
      std::memcpy(to, &half, sizeof(half));
      return;
    case cublaslt::CUDA_R_16BF:
      half = FloatToBFloat16(f32);
      std::memcpy(to, &half, sizeof(half));
      return;
    case cublaslt::CUDA_R_64F:
      std::memcpy(to, &f64, sizeof(f64));
      return;
    case cublaslt::CUDA_R_32F:
      std::memcpy(to, &f32, sizeof(f32));
      return;
  }
}

uint64_t ColumnAddress(const LayoutAttributes& layout, uint64_t address, int64_t batch, int64_t column) {
  return address + static_cast<uint64_t>((batch * layout.batch_stride + column * layout.leading_dimension) *
                                         layout.ElementBytes());
}

// Reads a stored matrix into a dense one.
template <typename T>
absl::Status ReadMatrix(const DeviceMemory& memory, const LayoutAttributes& layout, uint64_t address, int64_t batch,
                        std::vector<T>& to) {
  to.resize(static_cast<size_t>(layout.rows * layout.columns));
  for (int64_t j = 0; j < layout.columns; ++j) {
    COTAN_ASSIGN_OR_RETURN(const std::byte* column,
                           memory.ViewForRead(ColumnAddress(layout, address, batch, j),
                                              static_cast<uint64_t>(layout.rows * layout.ElementBytes())));
    T* const values = &to[static_cast<size_t>(j * layout.rows)];
    for (int64_t i = 0; i < layout.rows; ++i) values[i] = Decode<T>(layout.type, column + i * layout.ElementBytes());
  }
  return absl::OkStatus();
}

template <typename T>
absl::Status WriteMatrix(DeviceMemory& memory, const LayoutAttributes& layout, uint64_t address, int64_t batch,
                         const std::vector<T>& from) {
  for (int64_t j = 0; j < layout.columns; ++j) {
    COTAN_ASSIGN_OR_RETURN(std::byte * column,
                           memory.ViewForWrite(ColumnAddress(layout, address, batch, j),
                                               static_cast<uint64_t>(layout.rows * layout.ElementBytes())));
    const T* const values = &from[static_cast<size_t>(j * layout.rows)];
    for (int64_t i = 0; i < layout.rows; ++i) Encode(layout.type, values[i], column + i * layout.ElementBytes());
  }
  return absl::OkStatus();
}

// Multiplies dense matrices stored by columns.
absl::Status Multiply(const ProductSignature& s, const std::vector<float>& a, const std::vector<float>& b,
                      std::vector<float>& d) {
  const bool transposes_a = s.operation.transpose_a == cublaslt::CUBLAS_OP_T;
  const bool transposes_b = s.operation.transpose_b == cublaslt::CUBLAS_OP_T;
  const int64_t k = transposes_a ? s.a.rows : s.a.columns;
  // oneDNN stores by rows: it multiplies the transposes.
  const dnnl_status_t status = dnnl_sgemm(transposes_b ? 'T' : 'N', transposes_a ? 'T' : 'N', s.d.columns, s.d.rows, k,
                                          1, b.data(), s.b.rows, a.data(), s.a.rows, 0, d.data(), s.d.rows);
  if (status == dnnl_success) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("dnnl_sgemm returns ", status));
}

absl::Status Multiply(const ProductSignature& s, const std::vector<double>& a, const std::vector<double>& b,
                      std::vector<double>& d) {
  const bool transposes_a = s.operation.transpose_a == cublaslt::CUBLAS_OP_T;
  const bool transposes_b = s.operation.transpose_b == cublaslt::CUBLAS_OP_T;
  const int64_t m = s.d.rows;
  const int64_t k_size = transposes_a ? s.a.rows : s.a.columns;
  std::fill(d.begin(), d.end(), 0.0);
  for (int64_t j = 0; j < s.d.columns; ++j) {
    double* const column = &d[static_cast<size_t>(j * m)];
    for (int64_t k = 0; k < k_size; ++k) {
      const double y = b[static_cast<size_t>(transposes_b ? k * s.b.rows + j : j * s.b.rows + k)];
      const double* const x = transposes_a ? &a[static_cast<size_t>(k)] : &a[static_cast<size_t>(k * s.a.rows)];
      const int64_t step = transposes_a ? s.a.rows : 1;
      for (int64_t i = 0; i < m; ++i) column[i] = std::fma(x[i * step], y, column[i]);
    }
  }
  return absl::OkStatus();
}

template <typename T>
absl::Status ComputeBatch(const ProductArguments& product, DeviceMemory& memory) {
  const ProductSignature& s = product.signature;
  std::vector<T> a;
  std::vector<T> b;
  std::vector<T> c;
  std::vector<T> d(static_cast<size_t>(s.d.rows * s.d.columns));
  std::vector<T> bias;
  if (s.AddsBias()) {
    const LayoutAttributes vector = {.type = s.d.type, .rows = s.d.rows, .columns = 1, .leading_dimension = s.d.rows};
    COTAN_RETURN_IF_ERROR(ReadMatrix(memory, vector, product.bias, 0, bias));
  }
  const bool rounds = s.operation.compute_type == cublaslt::CUBLAS_COMPUTE_32F_FAST_TF32;
  const auto read = [&](const LayoutAttributes& layout, uint64_t address, int64_t i, std::vector<T>& to) {
    if (i > 0 && layout.batch_stride == 0) return absl::OkStatus();
    COTAN_RETURN_IF_ERROR(ReadMatrix(memory, layout, address, i, to));
    if (rounds) {
      for (T& x : to) x = static_cast<T>(RoundToTf32(static_cast<float>(x)));
    }
    return absl::OkStatus();
  };
  for (int64_t i = 0; i < s.d.batch_count; ++i) {
    COTAN_RETURN_IF_ERROR(read(s.a, product.a, i, a));
    COTAN_RETURN_IF_ERROR(read(s.b, product.b, i, b));
    COTAN_RETURN_IF_ERROR(Multiply(s, a, b, d));
    if (product.alpha != 1) {
      for (T& x : d) x *= static_cast<T>(product.alpha);
    }
    if (product.beta != 0) {
      COTAN_RETURN_IF_ERROR(ReadMatrix(memory, s.c, product.c, i, c));
      for (size_t j = 0; j < d.size(); ++j) d[j] += static_cast<T>(product.beta) * c[j];
    }
    for (size_t j = 0; j < d.size() && !bias.empty(); ++j) d[j] += bias[j % bias.size()];
    COTAN_RETURN_IF_ERROR(WriteMatrix(memory, s.d, product.d, i, d));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ComputeProduct(const ProductArguments& product, DeviceMemory& memory) {
  if (product.workspace_bytes > 0) {
    COTAN_ASSIGN_OR_RETURN(std::byte * workspace, memory.ViewForWrite(product.workspace, product.workspace_bytes));
    std::memset(workspace, 0xff, product.workspace_bytes);
  }
  if (product.signature.operation.compute_type == cublaslt::CUBLAS_COMPUTE_64F) {
    return ComputeBatch<double>(product, memory);
  }
  return ComputeBatch<float>(product, memory);
}

}  // namespace cotan::cuda::sim
