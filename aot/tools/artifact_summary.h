// What is in an artifact, for people.
#ifndef COTAN_AOT_TOOLS_ARTIFACT_SUMMARY_H_
#define COTAN_AOT_TOOLS_ARTIFACT_SUMMARY_H_

#include <cstdint>
#include <string>

#include "serialization/program.pb.h"

namespace cotan::aot {

// Bytes of a method's values, dynamic sizes counted as 1.
struct MethodBytes {
  int64_t saved = 0;  // kept for the backward
  // Most results of ops alive at once, if no op works in place.
  int64_t peak = 0;
};
MethodBytes BytesOf(const serialization::Method& method);

// Elements of parameters: all, and those that are trained.
struct ParameterCount {
  int64_t all = 0;
  int64_t trained = 0;
};
ParameterCount ParametersOf(const serialization::Artifact& artifact);

// "3.1 MiB", "512 B".
std::string BytesText(int64_t bytes);

}  // namespace cotan::aot

#endif  // COTAN_AOT_TOOLS_ARTIFACT_SUMMARY_H_
