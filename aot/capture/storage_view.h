// as_strided in graphs. Values of a graph are lists of elements without strides:
// geometry that is told in terms of a tensor's memory is told here in terms of
// its elements in row-major order.
#ifndef COTAN_AOT_CAPTURE_STORAGE_VIEW_H_
#define COTAN_AOT_CAPTURE_STORAGE_VIEW_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "base/layout.h"

namespace cotan::aot {

struct StorageView {
  // The dimensions of the tensor in this order, outermost first, are as they lie
  // in memory. Empty: as they are.
  std::vector<int64_t> order;
  // Of the view in the tensor so permuted, if it were row-major and began at 0.
  std::vector<int64_t> strides;
  int64_t offset = 0;
};

// The view with `view`'s geometry of the memory that a tensor with the layout
// `tensor` lies in; offsets are from the start of the storage. Unset: the tensor
// has gaps or elements in one place that the view cannot be told without, or the
// view reaches beyond it.
std::optional<StorageView> ToStorageView(const StridedLayout& tensor, const StridedLayout& view);

// Where each element of the view, in row-major order, is among those of the
// tensor. Unset: one is none of them, or elements of the tensor share a place.
std::optional<std::vector<int64_t>> ToPositions(const StridedLayout& tensor, const StridedLayout& view);

}  // namespace cotan::aot

#endif  // COTAN_AOT_CAPTURE_STORAGE_VIEW_H_
