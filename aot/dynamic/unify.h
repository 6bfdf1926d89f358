// One program for all sizes from programs for some. No LibTorch.
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

// `learned`: what the traces told of the sizes.
// `methods[k]`: one method as compiled with the values points[k] of the symbols.
// Sizes and numbers that differ become expressions of the symbols in all of
// them, which are equal afterwards but for what the points do not tell apart.
// InvalidArgument: the methods differ in more than sizes, or in a way that is no
// known function of the sizes; the message names the op.
absl::Status UnifyMethods(const DynamicShapes& shapes, absl::Span<const DimVector> points, const LearnedSizes& learned,
                          absl::Span<serialization::Method* const> methods);

// The same for whole artifacts: `files[k]` are their bytes. Reference runs are
// those of the first.
// InvalidArgument: as above; the states differ.
absl::StatusOr<std::string> UnifyArtifacts(const DynamicShapes& shapes, absl::Span<const DimVector> points,
                                           const LearnedSizes& learned, std::vector<std::string> files);

}  // namespace cotan::aot

#endif  // COTAN_AOT_DYNAMIC_UNIFY_H_
