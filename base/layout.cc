// SPDX-License-Identifier: Apache-2.0

#include "base/layout.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace cotan {

int64_t NumElements(absl::Span<const int64_t> sizes) {
  int64_t count = 1;
  for (int64_t size : sizes) count *= size;
  return count;
}

int64_t CheckedNumElements(absl::Span<const int64_t> sizes) {
  int64_t count = 1;
  bool empty = false;
  for (int64_t size : sizes) {
    if (size < 0) return -1;
    if (size == 0) {
      empty = true;
      continue;
    }
    if (__builtin_mul_overflow(count, size, &count)) return -1;
  }
  return empty ? 0 : count;
}

DimVector ContiguousStrides(absl::Span<const int64_t> sizes) {
  DimVector strides(sizes.size());
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= std::max<int64_t>(sizes[i], 1);
  }
  return strides;
}

DimVector DenseStrides(absl::Span<const int64_t> sizes, absl::Span<const int64_t> dim_order) {
  if (dim_order.empty()) return ContiguousStrides(sizes);
  DimVector strides(sizes.size());
  int64_t stride = 1;
  for (size_t i = dim_order.size(); i-- > 0;) {
    const auto dim = static_cast<size_t>(dim_order[i]);
    strides[dim] = stride;
    stride *= std::max<int64_t>(sizes[dim], 1);
  }
  return strides;
}

bool IsContiguous(const StridedLayout& layout) {
  if (absl::c_linear_search(layout.sizes, 0)) return true;
  int64_t expected = 1;
  for (size_t i = layout.sizes.size(); i-- > 0;) {
    if (layout.sizes[i] == 1) continue;
    if (layout.strides[i] != expected) return false;
    expected *= layout.sizes[i];
  }
  return true;
}

bool IsDenseNonOverlapping(const StridedLayout& layout) {
  DimVector order;
  for (size_t i = 0; i < layout.sizes.size(); ++i) {
    if (layout.sizes[i] == 0) return true;
    if (layout.sizes[i] != 1) order.push_back(static_cast<int64_t>(i));
  }
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return layout.strides[static_cast<size_t>(a)] < layout.strides[static_cast<size_t>(b)];
  });
  int64_t expected = 1;
  for (int64_t dim : order) {
    if (layout.strides[static_cast<size_t>(dim)] != expected) return false;
    expected *= layout.sizes[static_cast<size_t>(dim)];
  }
  return true;
}

int64_t StorageExtent(const StridedLayout& layout) {
  int64_t last = layout.offset;
  for (size_t i = 0; i < layout.sizes.size(); ++i) {
    if (layout.sizes[i] == 0) return 0;
    last += (layout.sizes[i] - 1) * layout.strides[i];
  }
  return last + 1;
}

std::string ToString(const StridedLayout& layout) {
  std::string text = absl::StrCat("[", absl::StrJoin(layout.sizes, ","), "]{", absl::StrJoin(layout.strides, ","), "}");
  if (layout.offset != 0) absl::StrAppend(&text, "+", layout.offset);
  return text;
}

}  // namespace cotan
