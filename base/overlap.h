// Whether tensors that share a storage share elements: exact, for any strides.
#ifndef COTAN_BASE_OVERLAP_H_
#define COTAN_BASE_OVERLAP_H_

#include <cstdint>

#include "base/layout.h"

namespace cotan {

// Whether some byte belongs to an element of `a` and to one of `b`. Both lie in
// the same storage, with elements of `a_bytes` and `b_bytes`. Interleaved
// columns, for example, do not overlap.
// Takes time by the number of dimensions, not of elements, unless strides are
// very irregular.
bool LayoutsOverlap(const StridedLayout& a, int64_t a_bytes, const StridedLayout& b, int64_t b_bytes);

// Whether two indexes address the same element, as in expanded tensors.
bool OverlapsItself(const StridedLayout& layout);

// Whether each element of `part` is one of `whole`; both are of one size, in the
// same storage. Takes time by the number of elements of `part`, unless one is a
// permutation of the other.
bool Covers(const StridedLayout& whole, const StridedLayout& part);

}  // namespace cotan

#endif  // COTAN_BASE_OVERLAP_H_
