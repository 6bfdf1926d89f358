// SPDX-License-Identifier: Apache-2.0

#include "aot/dynamic/trace_comparison.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace cotan::aot {
namespace {

// Adds the sizes that are equal in both traces of a method.
void AddFixedSizes(const Graph& a, const Graph& b, absl::btree_set<int64_t>& fixed) {
  for (ValueId id = 0; id < std::min(a.num_values(), b.num_values()); ++id) {
    const SymIntVector &ours = a.value(id).type.sizes, &theirs = b.value(id).type.sizes;
    for (size_t d = 0; d < std::min(ours.size(), theirs.size()); ++d) {
      if (ours[d] == theirs[d] && ours[d].is_constant() && ours[d].constant() > 1) fixed.insert(ours[d].constant());
    }
  }
}

// Returns true if `small` has the sizes that are equal in `a` and `b`.
bool HasFixedSizes(const TensorType& small, const TensorType& a, const TensorType& b) {
  if (small.dtype != a.dtype || small.sizes.size() != a.sizes.size()) return false;
  for (size_t d = 0; d < a.sizes.size(); ++d) {
    if (a.sizes[d] == b.sizes[d] && small.sizes[d] != a.sizes[d]) return false;
  }
  return true;
}

}  // namespace

void AddFixedSizes(absl::Span<const MethodTraces> methods, absl::btree_set<int64_t>& fixed) {
  for (const MethodTraces& method : methods) {
    if (method.graphs.size() > 1) AddFixedSizes(method.graphs[0], method.graphs[1], fixed);
  }
}

absl::Status CheckOutputsAtSmallSize(const DynamicShapes& shapes, const DimVector& point,
                                     absl::Span<const MethodTraces> methods, absl::Span<const Graph> small) {
  for (size_t m = 0; m < small.size(); ++m) {
    const Graph &one = small[m], &a = methods[m].graphs[0], &b = methods[m].graphs[1];
    for (size_t o = 0; o < a.outputs().size(); ++o) {
      const GraphOutput& output = a.outputs()[o];
      if (output.kind != OutputKind::kUserOutput || output.value == kNoValue) continue;
      const ValueId value = o < one.outputs().size() ? one.outputs()[o].value : kNoValue;
      if (value != kNoValue &&
          HasFixedSizes(one.value(value).type, a.value(output.value).type, b.value(b.outputs()[o].value).type)) {
        continue;
      }
      return absl::InvalidArgumentError(absl::StrCat(
          "with ", shapes.ToString(point), ", which the declared ranges allow, '", methods[m].name,
          "' does not return the '", output.name, "' that it returns at larger sizes; declare a range from 2"));
    }
  }
  return absl::OkStatus();
}

}  // namespace cotan::aot
