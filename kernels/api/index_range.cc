// SPDX-License-Identifier: Apache-2.0

#include "kernels/api/index_range.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/layout.h"
#include "base/status_macros.h"
#include "base/sym_int.h"

namespace cotan {
namespace {

std::string PositionText(absl::Span<const int64_t> sizes, int64_t position) {
  DimVector at(sizes.size());
  for (size_t d = at.size(); d-- > 0;) {
    at[d] = position % sizes[d];
    position /= sizes[d];
  }
  return absl::StrJoin(at, ",");
}

}  // namespace

absl::StatusOr<IndexRange> IndexRange::Of(const KernelRequest& request) {
  const serialization::CheckedIndex& op = request.op.checked_index();
  COTAN_ASSIGN_OR_RETURN(const SymInt size, SymInt::Parse(op.size()));
  IndexRange range;
  COTAN_ASSIGN_OR_RETURN(range.size, size.Evaluate(request.symbols));
  if (range.size < 0) return absl::InvalidArgumentError(absl::StrCat("size is ", range.size, ", expected at least 0"));
  range.from_end = op.from_end();
  if (op.has_ignored()) range.ignored = op.ignored();
  return range;
}

absl::Status IndexRange::OutOfRangeError(OpKind kind, absl::Span<const int64_t> sizes, int64_t position,
                                         int64_t value) const {
  std::string message = absl::StrCat(OpKindName(kind), ": index[", PositionText(sizes, position), "] is ", value,
                                     ", outside [", lowest(), ", ", size, ")");
  if (ignored.has_value()) absl::StrAppend(&message, " and not ", *ignored, ", which is ignored");
  return absl::InvalidArgumentError(message);
}

}  // namespace cotan
