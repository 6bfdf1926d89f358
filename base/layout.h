// SPDX-License-Identifier: Apache-2.0

// Geometry of a strided tensor, without data; used by every stage from the compiler's analysis to the
// kernels.
#ifndef COTAN_BASE_LAYOUT_H_
#define COTAN_BASE_LAYOUT_H_

#include <cstdint>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"

namespace cotan {

// Sizes, strides and permutations; most tensors have at most six dimensions.
using DimVector = absl::InlinedVector<int64_t, 6>;

// Sizes, strides and offset of a tensor, in elements, not bytes. Strides may be 0 (expanded) but not
// negative. sizes.size() == strides.size().
struct StridedLayout {
  DimVector sizes;
  DimVector strides;
  int64_t offset = 0;  // of element (0, ..., 0) from the start of the storage

  int rank() const { return static_cast<int>(sizes.size()); }
  friend bool operator==(const StridedLayout&, const StridedLayout&) = default;
};

// Returns the product of the sizes: 1 for rank 0, 0 if any size is 0. The caller has checked that it does
// not overflow (see CheckedNumElements()).
int64_t NumElements(absl::Span<const int64_t> sizes);

// Returns the product of the sizes, or -1 if a size is negative or the product exceeds int64.
int64_t CheckedNumElements(absl::Span<const int64_t> sizes);

// Returns row-major strides as PyTorch computes them (a size of 0 counts as 1).
DimVector ContiguousStrides(absl::Span<const int64_t> sizes);

// Returns the strides of a dense tensor whose dimensions have the order `dim_order` in memory, outermost
// first: {0, 2, 3, 1} is channels last. `dim_order` is a permutation of [0, sizes.size()), or empty for
// row-major.
DimVector DenseStrides(absl::Span<const int64_t> sizes, absl::Span<const int64_t> dim_order);

// Returns whether row-major iteration visits consecutive elements (Tensor::is_contiguous()). Dimensions of
// size 1 may have any stride; an empty tensor is contiguous.
bool IsContiguous(const StridedLayout& layout);

// Returns whether the elements fill [offset, offset + numel) without gap or overlap, for any order of
// dimensions.
bool IsDenseNonOverlapping(const StridedLayout& layout);

// Returns the number of elements from the start of the storage to the last element of the tensor,
// inclusive; 0 for an empty tensor.
int64_t StorageExtent(const StridedLayout& layout);

// Returns "[2,3]{3,1}+4": sizes, strides and, if not 0, the offset.
std::string ToString(const StridedLayout& layout);

}  // namespace cotan

#endif  // COTAN_BASE_LAYOUT_H_
