// SPDX-License-Identifier: Apache-2.0

// Artifacts of linked methods.
#ifndef COTAN_LINKING_LINKED_ARTIFACT_H_
#define COTAN_LINKING_LINKED_ARTIFACT_H_

#include "absl/types/span.h"
#include "serialization/schema/program.pb.h"

namespace cotan {

// Returns an artifact of methods that have `linked` set and different names.
serialization::Artifact LinkedArtifact(absl::Span<const serialization::Method> methods);

}  // namespace cotan

#endif  // COTAN_LINKING_LINKED_ARTIFACT_H_
