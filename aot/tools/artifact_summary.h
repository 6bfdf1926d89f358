// What is in an artifact, for people.
#ifndef COTAN_AOT_TOOLS_ARTIFACT_SUMMARY_H_
#define COTAN_AOT_TOOLS_ARTIFACT_SUMMARY_H_

#include <cstdint>

#include "serialization/schema/program.pb.h"

namespace cotan::aot {

// Bytes of the values that a method keeps for its backward, dynamic sizes counted
// as 1.
int64_t SavedBytes(const serialization::Method& method);

// Elements of parameters: all, and those that are trained.
struct ParameterCount {
  int64_t all = 0;
  int64_t trained = 0;
};
ParameterCount ParametersOf(const serialization::Artifact& artifact);

}  // namespace cotan::aot

#endif  // COTAN_AOT_TOOLS_ARTIFACT_SUMMARY_H_
