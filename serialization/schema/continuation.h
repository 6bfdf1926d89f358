// SPDX-License-Identifier: Apache-2.0

// Chains of methods: sizing methods compute sizes that depend on data, and the method that a caller calls goes on with
// them (Method.continuation).
#ifndef COTAN_SERIALIZATION_SCHEMA_CONTINUATION_H_
#define COTAN_SERIALIZATION_SCHEMA_CONTINUATION_H_

#include <vector>

#include "serialization/schema/program.pb.h"

namespace cotan {

// Returns whether callers may call the method: it is not a sizing method.
inline bool IsCallable(const serialization::Method& method) { return !method.has_continuation(); }

// Returns the indexes into artifact.methods of the sizing methods of `method`, in the order in which they run; none if
// no size depends on data. A chain that is a circle, which VerifyArtifact() refuses, ends after all methods.
std::vector<int> SizingMethodsOf(const serialization::Artifact& artifact, const serialization::Method& method);

// Returns the number of inputs of `method` that callers give: all, or those of the first method of its chain. The
// inputs after them are given by the sizing method before it. For a backward, the saved values count as given.
int NumArguments(const serialization::Artifact& artifact, const serialization::Method& method);

}  // namespace cotan

#endif  // COTAN_SERIALIZATION_SCHEMA_CONTINUATION_H_
