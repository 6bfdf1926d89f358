// SPDX-License-Identifier: Apache-2.0

// Computes statistics of an artifact for the summary of the compile tool.
#ifndef COTAN_AOT_TOOLS_ARTIFACT_SUMMARY_H_
#define COTAN_AOT_TOOLS_ARTIFACT_SUMMARY_H_

#include <cstdint>

#include "serialization/schema/program.pb.h"

namespace cotan::aot {

// Returns the bytes of the values that a method saves for its backward; a dynamic size counts as 1.
int64_t SavedBytes(const serialization::Method& method);

// Returns the number of ops of `method`, which belongs to `artifact`: for each call those of its block.
int64_t NumOps(const serialization::Artifact& artifact, const serialization::Method& method);

// Numbers of elements of all parameters and of the trained ones.
struct ParameterCount {
  int64_t all = 0;
  int64_t trained = 0;
};
// Returns the parameter counts of `artifact`.
ParameterCount ParametersOf(const serialization::Artifact& artifact);

}  // namespace cotan::aot

#endif  // COTAN_AOT_TOOLS_ARTIFACT_SUMMARY_H_
