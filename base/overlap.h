// SPDX-License-Identifier: Apache-2.0

// Exact tests of whether tensors that share a storage share elements, for any strides.
#ifndef COTAN_BASE_OVERLAP_H_
#define COTAN_BASE_OVERLAP_H_

#include <cstdint>

#include "base/layout.h"

namespace cotan {

// Returns whether some byte belongs to an element of `a` and to one of `b`. Both are in the same storage
// and have elements of `a_bytes` and `b_bytes` bytes. Interleaved columns, for example, do not overlap. The
// time depends on the number of dimensions, not of elements, unless strides are very irregular.
bool LayoutsOverlap(const StridedLayout& a, int64_t a_bytes, const StridedLayout& b, int64_t b_bytes);

// Returns whether two indexes address the same element, as in expanded tensors.
bool OverlapsItself(const StridedLayout& layout);

// Returns whether each element of `part` is an element of `whole`. Both are in the same storage and have
// elements of the same number of bytes. The time is linear in the number of elements of `part`, unless one
// is a permutation of the other.
bool Covers(const StridedLayout& whole, const StridedLayout& part);

}  // namespace cotan

#endif  // COTAN_BASE_OVERLAP_H_
