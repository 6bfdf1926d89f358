// Makes the method of a function on flat tensors that of the function with
// wrapper types: its metadata and names tell of the caller's arguments and
// results, and how these are made of flat values.
#ifndef COTAN_AOT_AOTAUTOGRAD_WRAP_METHOD_H_
#define COTAN_AOT_AOTAUTOGRAD_WRAP_METHOD_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "serialization/metadata/wrapper_meta.h"
#include "serialization/schema/program.pb.h"

namespace cotan::aot {

// The caller's tensors, each made of flat values, which are counted from 0.
struct WrapperStructure {
  std::vector<FlatMeta> inputs;
  std::vector<FlatMeta> outputs;
};

// Names of the caller's tensors: "input.0", "output.1".
std::vector<std::string> InputNames(const WrapperStructure& structure);
std::vector<std::string> OutputNames(const WrapperStructure& structure);

// `method` is a forward whose metadata and signature are those of the flat
// function, and whose inputs are called FlatNames(structure.inputs,
// InputNames()). If no tensor is a wrapper, nothing changes.
// Unimplemented: a part of an argument gets another storage (set_); the
// message names it.
absl::Status WrapForward(const WrapperStructure& structure, serialization::Method& method);

// Names the tangents of a backward after the caller's results.
void WrapBackward(const WrapperStructure& structure, serialization::Method& method);

}  // namespace cotan::aot

#endif  // COTAN_AOT_AOTAUTOGRAD_WRAP_METHOD_H_
