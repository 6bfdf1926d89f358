// SPDX-License-Identifier: Apache-2.0

// Makes one program for all sizes from programs compiled at the trace points. No LibTorch.
#ifndef COTAN_AOT_DYNAMIC_UNIFY_H_
#define COTAN_AOT_DYNAMIC_UNIFY_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "aot/dynamic/dynamic_shapes.h"
#include "aot/dynamic/learn_sizes.h"
#include "base/layout.h"
#include "serialization/schema/program.pb.h"

namespace cotan::aot {

// `learned`: the size expressions that the traces contain.
// Unifies the methods `methods[k]`, one method compiled with the symbols' values points[k]: sizes
// and numbers that differ become expressions of the symbols. All methods are equal afterwards.
// InvalidArgument: the methods differ in more than sizes and numbers, or no expression fits one;
// the message names the op.
absl::Status UnifyMethods(const DynamicShapes& shapes, absl::Span<const DimVector> points, const LearnedSizes& learned,
                          absl::Span<serialization::Method* const> methods);

// Unifies all methods of artifacts and returns the bytes of the result; `files[k]` are the bytes
// compiled at points[k]. Keeps the reference runs of the first.
// InvalidArgument: an error of UnifyMethods(), or the states, methods or captured constants differ. Errors of
// CheckCountsAreKnown().
absl::StatusOr<std::string> UnifyArtifacts(const DynamicShapes& shapes, absl::Span<const DimVector> points,
                                           const LearnedSizes& learned, std::vector<std::string> files);

}  // namespace cotan::aot

#endif  // COTAN_AOT_DYNAMIC_UNIFY_H_
