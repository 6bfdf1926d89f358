// SPDX-License-Identifier: Apache-2.0

// One view op on a tensor: the typed form of serialization::ViewStep. A chain of steps leads from a base to
// an output that aliases it.
#ifndef COTAN_SERIALIZATION_METADATA_VIEW_STEP_H_
#define COTAN_SERIALIZATION_METADATA_VIEW_STEP_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/dtype.h"
#include "base/sym_int.h"
#include "google/protobuf/repeated_field.h"
#include "serialization/schema/metadata.pb.h"

namespace cotan {

// The kinds of views; each is documented at its message. Dimensions count from 0 and are those of the
// source unless a comment says otherwise.
namespace view {

struct View {
  SymIntVector sizes;
  friend bool operator==(const View&, const View&) = default;
};
struct Permute {
  std::vector<int> dims;  // a permutation of [0, rank)
  friend bool operator==(const Permute&, const Permute&) = default;
};
struct Expand {
  SymIntVector sizes;
  friend bool operator==(const Expand&, const Expand&) = default;
};
struct Slice {
  int dim = 0;
  SymInt start;
  SymInt end;
  SymInt step = 1;
  friend bool operator==(const Slice&, const Slice&) = default;
};
struct Select {
  int dim = 0;
  SymInt index;
  friend bool operator==(const Select&, const Select&) = default;
};
struct AsStrided {
  SymIntVector sizes;
  SymIntVector strides;  // elements, as many as sizes
  SymInt offset;         // elements from the start of the storage
  friend bool operator==(const AsStrided&, const AsStrided&) = default;
};
struct Squeeze {
  std::vector<int> dims;  // ascending
  friend bool operator==(const Squeeze&, const Squeeze&) = default;
};
struct Unsqueeze {
  int dim = 0;  // of the result
  friend bool operator==(const Unsqueeze&, const Unsqueeze&) = default;
};
struct Diagonal {
  int dim1 = 0;
  int dim2 = 1;
  int64_t offset = 0;  // > 0: above the main diagonal
  friend bool operator==(const Diagonal&, const Diagonal&) = default;
};
struct Unfold {
  int dim = 0;
  int64_t size = 0;  // >= 0
  int64_t step = 1;  // >= 1
  friend bool operator==(const Unfold&, const Unfold&) = default;
};
struct DTypeView {
  DType dtype = DType::kUndefined;
  friend bool operator==(const DTypeView&, const DTypeView&) = default;
};
struct ViewAsReal {
  friend bool operator==(ViewAsReal, ViewAsReal) { return true; }
};
struct ViewAsComplex {
  friend bool operator==(ViewAsComplex, ViewAsComplex) { return true; }
};
struct Detach {
  friend bool operator==(Detach, Detach) { return true; }
};
struct Conjugate {
  friend bool operator==(Conjugate, Conjugate) { return true; }
};
struct Negate {
  friend bool operator==(Negate, Negate) { return true; }
};
struct Alias {
  friend bool operator==(Alias, Alias) { return true; }
};

}  // namespace view

using ViewStep =
    std::variant<view::View, view::Permute, view::Expand, view::Slice, view::Select, view::AsStrided, view::Squeeze,
                 view::Unsqueeze, view::Diagonal, view::Unfold, view::DTypeView, view::ViewAsReal, view::ViewAsComplex,
                 view::Detach, view::Conjugate, view::Negate, view::Alias>;

// Converts steps. InvalidArgument, with the member's path below `field`: a text that is not a size
// expression, or a violation of the comments above. Unimplemented: a kind or dtype of a newer version.
absl::StatusOr<ViewStep> ParseViewStep(const serialization::ViewStep& proto, absl::string_view field);
absl::StatusOr<std::vector<ViewStep>> ParseViewSteps(
    const google::protobuf::RepeatedPtrField<serialization::ViewStep>& protos, absl::string_view field);

serialization::ViewStep ToProto(const ViewStep& step);

// Returns a description for messages, as ViewStepText() does: "slice(dim=0, 1:s0:2)".
std::string ToString(const ViewStep& step);
// Returns the steps' descriptions, separated by periods: "permute(1, 0).select(dim=0, 2)".
std::string ToString(absl::Span<const ViewStep> steps);

}  // namespace cotan

#endif  // COTAN_SERIALIZATION_METADATA_VIEW_STEP_H_
