// SPDX-License-Identifier: Apache-2.0

// Bounds of integers that an expression computes from positions, constants and sizes, as the indices of a resized image
// or of an adaptive pool.
#ifndef COTAN_PLANNING_INDEX_RANGE_H_
#define COTAN_PLANNING_INDEX_RANGE_H_

#include <cstdint>
#include <limits>

#include "absl/types/span.h"
#include "serialization/schema/program.pb.h"

namespace cotan {

// Both ends are inside. An end at the limit of int64_t is not known.
struct IndexRange {
  int64_t min = std::numeric_limits<int64_t>::min();
  int64_t max = std::numeric_limits<int64_t>::max();

  bool operator==(const IndexRange&) const = default;
};

// Returns bounds of the elements that the expression `op` stores in its output `output`, by interval arithmetic
// (Moore, Interval Analysis, 1966). Elements of op inputs and what is computed from floating point numbers have none,
// but a minimum or maximum of such a value as an integer and of a bounded one has. `symbols`: the sizes of the call.
IndexRange RangeOfOutput(const serialization::Op& op, int output, absl::Span<const int64_t> symbols);

}  // namespace cotan

#endif  // COTAN_PLANNING_INDEX_RANGE_H_
