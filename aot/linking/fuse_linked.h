// SPDX-License-Identifier: Apache-2.0

// Optimizes linked methods (linking/link_builder.h).
#ifndef COTAN_AOT_LINKING_FUSE_LINKED_H_
#define COTAN_AOT_LINKING_FUSE_LINKED_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "serialization/schema/program.pb.h"

namespace cotan::aot {

// Returns the artifact with each linked method fused across the programs whose ops it contains: expressions of
// accumulations, sums and casts with those of the programs. Inputs, outputs and keys stay. A method that ImportMethod()
// does not support keeps its ops. InvalidArgument: a method is not linked.
absl::StatusOr<serialization::Artifact> FuseLinked(const serialization::Artifact& captures);

// Returns FailedPrecondition if a linked method contains ops of a method that none of the artifacts has: it was
// recorded with another version of a program, and will never be found. The message names the methods.
absl::Status CheckSources(const serialization::Artifact& captures,
                          absl::Span<const serialization::Artifact* const> programs);

}  // namespace cotan::aot

#endif  // COTAN_AOT_LINKING_FUSE_LINKED_H_
