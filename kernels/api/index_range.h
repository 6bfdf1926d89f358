// SPDX-License-Identifier: Apache-2.0

// The range of values of an index operand. Values are data, so kernels check them in Run(); this file gives
// all kernels the same check and message.
#ifndef COTAN_KERNELS_API_INDEX_RANGE_H_
#define COTAN_KERNELS_API_INDEX_RANGE_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/api/kernel.h"
#include "serialization/schema/op_kind.h"

namespace cotan {

struct IndexRange {
  // The number of positions that the index selects from.
  int64_t size = 0;
  // True if values in [-size, 0) are allowed; they count from the end.
  bool from_end = false;
  // A value that is allowed even if it is outside the range (ignore_index).
  std::optional<int64_t> ignored = std::nullopt;

  // Returns the range of a CheckedIndex op.
  // InvalidArgument: its size is negative or does not parse.
  // Errors of SymInt::Evaluate().
  static absl::StatusOr<IndexRange> Of(const KernelRequest& request);

  int64_t lowest() const { return from_end ? -size : 0; }
  bool Allows(int64_t value) const { return (value >= lowest() && value < size) || value == ignored; }
  // Returns the position of an allowed value: a number in [0, size), or the ignored value itself.
  int64_t Resolve(int64_t value) const { return value < 0 && value != ignored ? value + size : value; }

  // Returns InvalidArgument for `value`, found at row-major `position` of an index with these sizes: "gather:
  // index[1,0] is 4, outside [-4, 4)".
  absl::Status OutOfRangeError(OpKind kind, absl::Span<const int64_t> sizes, int64_t position, int64_t value) const;
};

}  // namespace cotan

#endif  // COTAN_KERNELS_API_INDEX_RANGE_H_
