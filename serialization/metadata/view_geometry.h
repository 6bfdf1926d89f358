// Applies view steps to geometry: what a view of a strided tensor looks like.
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

// How a tensor's elements lie in its storage.
struct ViewGeometry {
  DType dtype = DType::kUndefined;
  StridedLayout layout;
  friend bool operator==(const ViewGeometry&, const ViewGeometry&) = default;
};

// `source` seen through `step`. `symbols` are the values of s0, s1, ... in the
// step's size expressions. `source` has a dtype, sizes that pass
// BoundedElements(), and strides and offset of at most kMaxElements.
// The result has as many elements as it says and stays inside the elements of
// `source`, except for AsStrided, which addresses the storage: the caller
// checks its extent.
// InvalidArgument: the step does not fit the source (a dimension or index out
// of range, other number of elements, malformed sizes); the message names it.
// FailedPrecondition: it would fit, but this memory cannot be seen so without a
// copy; after a copy to row-major order it can. Unimplemented: a view that
// changes how elements are read (conjugate of complex numbers, negate).
absl::StatusOr<ViewGeometry> ApplyViewStep(const ViewStep& step, const ViewGeometry& source,
                                           absl::Span<const int64_t> symbols);
// The same, parsed first. Errors also of ParseViewStep().
absl::StatusOr<ViewGeometry> ApplyViewStep(const serialization::ViewStep& step, const ViewGeometry& source,
                                           absl::Span<const int64_t> symbols);

// What can be checked of a step alone: a known kind, well-formed size
// expressions over `num_symbols` symbols, a known dtype.
absl::Status CheckViewStep(const serialization::ViewStep& step, int num_symbols);

// "permute(1, 0)", "slice(dim=0, 2:s0:1)": for people.
std::string ViewStepText(const serialization::ViewStep& step);

}  // namespace cotan

#endif  // COTAN_SERIALIZATION_METADATA_VIEW_GEOMETRY_H_
