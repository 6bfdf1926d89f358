// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/cublaslt/product_contract.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"

namespace cotan::cuda::sim {
namespace {

using cublaslt::cublasComputeType_t;
using cublaslt::cudaDataType_t;

// The combinations that the vendor documents for cublasLtMatmul, as far as the types here can name them.
struct TypeCombination {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  cudaDataType_t factors;  // a and b
  cudaDataType_t result;   // c and d
};
constexpr TypeCombination kTypeCombinations[] = {
    {cublaslt::CUBLAS_COMPUTE_32F, cublaslt::CUDA_R_32F, cublaslt::CUDA_R_32F, cublaslt::CUDA_R_32F},
    {cublaslt::CUBLAS_COMPUTE_32F, cublaslt::CUDA_R_32F, cublaslt::CUDA_R_16F, cublaslt::CUDA_R_16F},
    {cublaslt::CUBLAS_COMPUTE_32F, cublaslt::CUDA_R_32F, cublaslt::CUDA_R_16F, cublaslt::CUDA_R_32F},
    {cublaslt::CUBLAS_COMPUTE_32F, cublaslt::CUDA_R_32F, cublaslt::CUDA_R_16BF, cublaslt::CUDA_R_16BF},
    {cublaslt::CUBLAS_COMPUTE_32F, cublaslt::CUDA_R_32F, cublaslt::CUDA_R_16BF, cublaslt::CUDA_R_32F},
    {cublaslt::CUBLAS_COMPUTE_32F_FAST_TF32, cublaslt::CUDA_R_32F, cublaslt::CUDA_R_32F, cublaslt::CUDA_R_32F},
    {cublaslt::CUBLAS_COMPUTE_64F, cublaslt::CUDA_R_64F, cublaslt::CUDA_R_64F, cublaslt::CUDA_R_64F},
};

constexpr uint64_t kWorkspaceAlignment = 256;

absl::Status CheckTypes(const ProductSignature& signature) {
  const std::optional<cudaDataType_t> bias = signature.operation.bias_type;
  if (signature.AddsBias() && bias && *bias != signature.d.type) {
    return absl::UnimplementedError(
        absl::StrCat("a bias of type ", *bias, " is not supported for a result of type ", signature.d.type));
  }
  for (const TypeCombination& types : kTypeCombinations) {
    if (types.compute == signature.operation.compute_type && types.scale == signature.operation.scale_type &&
        types.factors == signature.a.type && types.factors == signature.b.type && types.result == signature.c.type &&
        types.result == signature.d.type) {
      return absl::OkStatus();
    }
  }
  return absl::UnimplementedError(absl::StrCat("compute type ", signature.operation.compute_type, " with scale type ",
                                               signature.operation.scale_type,
                                               " is not supported for matrices of types ", signature.a.type, ", ",
                                               signature.b.type, ", ", signature.c.type, ", ", signature.d.type));
}

absl::Status CheckMatrix(absl::string_view name, const LayoutAttributes& layout, int64_t rows, int64_t columns,
                         int32_t batch_count) {
  if (layout.rows != rows || layout.columns != columns) {
    return absl::InvalidArgumentError(
        absl::StrCat("matrix ", name, " is ", layout.rows, "x", layout.columns, ", expected ", rows, "x", columns));
  }
  if (layout.leading_dimension < layout.rows) {
    return absl::InvalidArgumentError(absl::StrCat("matrix ", name, " has leading dimension ", layout.leading_dimension,
                                                   " for ", layout.rows, " rows"));
  }
  if (layout.batch_count != batch_count || layout.batch_stride < 0) {
    return absl::InvalidArgumentError(absl::StrCat("matrix ", name, " has a batch of ", layout.batch_count,
                                                   " with stride ", layout.batch_stride, ", expected ", batch_count,
                                                   " matrices"));
  }
  return absl::OkStatus();
}

struct Range {
  uint64_t begin = 0;
  uint64_t end = 0;
};

bool Overlaps(const Range& x, const Range& y) { return x.begin < y.end && y.begin < x.end; }

// From the first to the last element of the batch.
Range Extent(const LayoutAttributes& layout, uint64_t address) {
  const int64_t last =
      (layout.batch_count - 1) * layout.batch_stride + (layout.columns - 1) * layout.leading_dimension + layout.rows;
  return {address, address + static_cast<uint64_t>(last * layout.ElementBytes())};
}

Range BiasRange(const ProductArguments& product) {
  const LayoutAttributes& d = product.signature.d;
  return {product.bias, product.bias + static_cast<uint64_t>(d.rows * d.ElementBytes())};
}

// Returns the contiguous parts of all matrices, sorted.
std::vector<Range> Parts(const LayoutAttributes& layout, uint64_t address) {
  std::vector<Range> parts;
  const int64_t matrices = layout.batch_stride == 0 ? 1 : layout.batch_count;
  for (int64_t i = 0; i < matrices; ++i) {
    for (int64_t j = 0; j < layout.columns; ++j) {
      const int64_t begin = (i * layout.batch_stride + j * layout.leading_dimension) * layout.ElementBytes();
      const int64_t end = begin + layout.rows * layout.ElementBytes();
      parts.push_back({address + static_cast<uint64_t>(begin), address + static_cast<uint64_t>(end)});
    }
  }
  std::sort(parts.begin(), parts.end(), [](const Range& x, const Range& y) { return x.begin < y.begin; });
  return parts;
}

// Returns whether a sorted list of parts overlaps itself.
bool OverlapsItself(const std::vector<Range>& parts) {
  for (size_t i = 1; i < parts.size(); ++i) {
    if (parts[i - 1].end > parts[i].begin) return true;
  }
  return false;
}

bool SharesElements(const std::vector<Range>& x, const std::vector<Range>& y) {
  // A matrix that overlaps itself has a part that reaches behind the ends of later ones, so each is compared with all
  // that begin before its end.
  uint64_t longest = 0;
  for (const Range& part : y) longest = std::max(longest, part.end - part.begin);
  for (const Range& part : x) {
    const uint64_t first = part.begin > longest ? part.begin - longest : 0;
    auto it = std::lower_bound(y.begin(), y.end(), first, [](const Range& r, uint64_t at) { return r.begin < at; });
    for (; it != y.end() && it->begin < part.end; ++it) {
      if (Overlaps(part, *it)) return true;
    }
  }
  return false;
}

absl::Status CheckWorkspace(const ProductArguments& product) {
  if (product.workspace_bytes == 0) return absl::OkStatus();
  if (product.workspace == 0 || product.workspace % kWorkspaceAlignment != 0) {
    return absl::InvalidArgumentError("the workspace is not aligned to 256 bytes");
  }
  const Range workspace = {product.workspace, product.workspace + product.workspace_bytes};
  const ProductSignature& s = product.signature;
  const bool overlaps = Overlaps(workspace, Extent(s.a, product.a)) || Overlaps(workspace, Extent(s.b, product.b)) ||
                        Overlaps(workspace, Extent(s.d, product.d)) ||
                        (product.beta != 0 && Overlaps(workspace, Extent(s.c, product.c))) ||
                        (s.AddsBias() && Overlaps(workspace, BiasRange(product)));
  if (overlaps) return absl::InvalidArgumentError("the workspace overlaps a matrix or the bias");
  return absl::OkStatus();
}

}  // namespace

int64_t LayoutAttributes::ElementBytes() const {
  switch (type) {
    case cublaslt::CUDA_R_16F:
    case cublaslt::CUDA_R_16BF:
      return 2;
    case cublaslt::CUDA_R_64F:
      return 8;
    case cublaslt::CUDA_R_32F:
      break;
  }
  return 4;
}

absl::Status CheckSignature(const ProductSignature& signature) {
  COTAN_RETURN_IF_ERROR(CheckTypes(signature));
  const OperationAttributes& operation = signature.operation;
  const int64_t m = signature.d.rows;
  const int64_t n = signature.d.columns;
  const bool transposes_a = operation.transpose_a == cublaslt::CUBLAS_OP_T;
  const bool transposes_b = operation.transpose_b == cublaslt::CUBLAS_OP_T;
  const int64_t k = transposes_a ? signature.a.rows : signature.a.columns;
  if (m <= 0 || n <= 0 || k <= 0 || signature.d.batch_count <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("an empty product: M=", m, " N=", n, " K=", k, ", ", signature.d.batch_count, " matrices"));
  }
  const int32_t batch = signature.d.batch_count;
  COTAN_RETURN_IF_ERROR(CheckMatrix("a", signature.a, transposes_a ? k : m, transposes_a ? m : k, batch));
  COTAN_RETURN_IF_ERROR(CheckMatrix("b", signature.b, transposes_b ? n : k, transposes_b ? k : n, batch));
  COTAN_RETURN_IF_ERROR(CheckMatrix("c", signature.c, m, n, batch));
  return CheckMatrix("d", signature.d, m, n, batch);
}

absl::Status CheckOverlaps(const ProductArguments& product) {
  const ProductSignature& s = product.signature;
  const Range d = Extent(s.d, product.d);
  const std::vector<Range> parts = Parts(s.d, product.d);
  if ((s.d.batch_count > 1 && s.d.batch_stride == 0) || OverlapsItself(parts)) {
    return absl::InvalidArgumentError("elements of matrix d overlap");
  }
  for (const auto& [name, layout, address] :
       {std::make_tuple("a", &s.a, product.a), std::make_tuple("b", &s.b, product.b)}) {
    if (Overlaps(d, Extent(*layout, address)) && SharesElements(parts, Parts(*layout, address))) {
      return absl::InvalidArgumentError(absl::StrCat("matrix d overlaps matrix ", name));
    }
  }
  if (s.AddsBias() && SharesElements({BiasRange(product)}, parts)) {
    return absl::InvalidArgumentError("matrix d overlaps the bias");
  }
  const bool is_in_place = product.c == product.d && s.c == s.d;
  if (product.beta != 0 && !is_in_place && Overlaps(d, Extent(s.c, product.c)) &&
      SharesElements(parts, Parts(s.c, product.c))) {
    return absl::InvalidArgumentError("matrix d overlaps matrix c, and is not the same matrix");
  }
  return CheckWorkspace(product);
}

}  // namespace cotan::cuda::sim
