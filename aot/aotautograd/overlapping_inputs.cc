// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/overlapping_inputs.h"

#include <cstdint>

#include "base/dtype.h"
#include "base/overlap.h"

namespace cotan::aot {
bool DefinitelyDisjoint(const StridedLayout& a, const StridedLayout& b) {
  if (NumElements(a.sizes) == 0 || NumElements(b.sizes) == 0) return true;
  const StridedLayout& left = a.offset <= b.offset ? a : b;
  const StridedLayout& right = a.offset <= b.offset ? b : a;
  if (StorageExtent(left) <= right.offset) return true;
  // Column ranges of the same row-major matrix may be disjoint.
  const bool rows = left.rank() == 2 && right.rank() == 2 && left.strides[1] == 1 && right.strides[1] == 1 &&
                    left.strides[0] == right.strides[0] && left.strides[0] > 0;
  if (!rows) return false;
  const int64_t distance = (right.offset - left.offset) % left.strides[0];
  return right.offset - left.offset >= left.sizes[1] && distance >= left.sizes[1] &&
         distance + right.sizes[1] <= left.strides[0];
}

bool MayOverlap(const InputDescription& a, const InputDescription& b) {
  if (a.dtype == b.dtype) return !DefinitelyDisjoint(a.layout, b.layout);
  return LayoutsOverlap(a.layout, static_cast<int64_t>(ByteSize(a.dtype)), b.layout,
                        static_cast<int64_t>(ByteSize(b.dtype)));
}

}  // namespace cotan::aot
