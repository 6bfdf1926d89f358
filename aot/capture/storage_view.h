// SPDX-License-Identifier: Apache-2.0

// Converts the geometry of as_strided for graphs. Values of a graph are lists of elements without strides:
// storage offsets and strides become row-major element indices.
#ifndef COTAN_AOT_CAPTURE_STORAGE_VIEW_H_
#define COTAN_AOT_CAPTURE_STORAGE_VIEW_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "base/layout.h"

namespace cotan::aot {

struct StorageView {
  // Permutation of the tensor's dimensions to the order in memory, outermost first. Empty: the identity.
  std::vector<int64_t> order;
  // Strides and offset of the view in the permuted tensor, if that were row-major and began at 0.
  std::vector<int64_t> strides;
  int64_t offset = 0;
};

// Converts the storage offset and strides of `view`, a view of the storage of a tensor with the layout
// `tensor`, to row-major element indices of that tensor. Unset: elements of the tensor overlap, the view is
// not a strided view of its elements (it reads memory in gaps, for example), or the view reaches beyond the
// tensor.
std::optional<StorageView> ToStorageView(const StridedLayout& tensor, const StridedLayout& view);

// Returns, for each element of the view in row-major order, the row-major index of the same element in the
// tensor. Unset: an element of the view is not one of the tensor, or elements of the tensor overlap.
std::optional<std::vector<int64_t>> ToPositions(const StridedLayout& tensor, const StridedLayout& view);

}  // namespace cotan::aot

#endif  // COTAN_AOT_CAPTURE_STORAGE_VIEW_H_
