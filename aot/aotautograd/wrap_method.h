// SPDX-License-Identifier: Apache-2.0

// Converts the method of a function on flat tensors to the method of the function with wrapper
// types: metadata and names then describe the caller's arguments and results, and how these are
// made of flat tensors (AOTAutograd: aot_dispatch_subclass).
#ifndef COTAN_AOT_AOTAUTOGRAD_WRAP_METHOD_H_
#define COTAN_AOT_AOTAUTOGRAD_WRAP_METHOD_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "serialization/metadata/wrapper_meta.h"
#include "serialization/schema/program.pb.h"

namespace cotan::aot {

// Structure of the caller's tensors over the flat tensors, which are counted from 0 in `inputs` and
// in `outputs`.
struct WrapperStructure {
  std::vector<FlatMeta> inputs;
  std::vector<FlatMeta> outputs;
};

// Returns the names of the caller's inputs: "input.0", "input.1".
std::vector<std::string> InputNames(const WrapperStructure& structure);
// Returns the names of the caller's outputs: "output.0", "output.1".
std::vector<std::string> OutputNames(const WrapperStructure& structure);

// Converts `method`, a forward with the metadata and signature of the flat function and with inputs
// named FlatNames(structure.inputs, InputNames()). Without wrappers it does not change.
// Unimplemented: a part of an argument gets another storage (set_) or is resized; the message has
// its name. Internal: `structure` has another number of flat tensors than the method.
absl::Status WrapForward(const WrapperStructure& structure, serialization::Method& method);

// Renames the tangents of a backward after the caller's results: "tangent.output.1.scale".
void WrapBackward(const WrapperStructure& structure, serialization::Method& method);

}  // namespace cotan::aot

#endif  // COTAN_AOT_AOTAUTOGRAD_WRAP_METHOD_H_
