// SPDX-License-Identifier: Apache-2.0

// Applies view steps to the geometry of a strided tensor.
#ifndef COTAN_SERIALIZATION_METADATA_VIEW_GEOMETRY_H_
#define COTAN_SERIALIZATION_METADATA_VIEW_GEOMETRY_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/dtype.h"
#include "base/layout.h"
#include "serialization/metadata/view_step.h"
#include "serialization/schema/metadata.pb.h"

namespace cotan {

// Dtype and layout of a tensor in its storage.
struct ViewGeometry {
  DType dtype = DType::kUndefined;
  StridedLayout layout;
  friend bool operator==(const ViewGeometry&, const ViewGeometry&) = default;
};

// Returns the geometry of the view of `source` that `step` makes. `symbols` are the values of s0, s1, ... in the step's
// size expressions. `source` has a dtype, sizes that pass BoundedElements(), and strides and offset of at most
// kMaxElements. The result stays inside the elements of `source`, except for AsStrided, which addresses the storage:
// the caller checks its extent. InvalidArgument: the step does not fit the source (a dimension or index out of range,
// another number of elements, malformed sizes); the message has the step. FailedPrecondition: the view is not
// expressible with strides for this layout; it is after a copy to row-major order. Unimplemented: a view that sets the
// conj or neg bit.
absl::StatusOr<ViewGeometry> ApplyViewStep(const ViewStep& step, const ViewGeometry& source,
                                           absl::Span<const int64_t> symbols);
// Parses `step`, then applies it. InvalidArgument and Unimplemented also of ParseViewStep().
absl::StatusOr<ViewGeometry> ApplyViewStep(const serialization::ViewStep& step, const ViewGeometry& source,
                                           absl::Span<const int64_t> symbols);

// Checks a step without its source. InvalidArgument unless it has a known kind, well-formed size
// expressions over `num_symbols` symbols and a known dtype.
absl::Status CheckViewStep(const serialization::ViewStep& step, int num_symbols);

// Returns a description for messages: "permute(1, 0)", "slice(dim=0, 2:s0:1)".
std::string ViewStepText(const serialization::ViewStep& step);

}  // namespace cotan

#endif  // COTAN_SERIALIZATION_METADATA_VIEW_GEOMETRY_H_
