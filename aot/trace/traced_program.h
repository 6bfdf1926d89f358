// What tracing hands to the rest of the compiler. No LibTorch from here on.
#ifndef COTAN_AOT_TRACE_TRACED_PROGRAM_H_
#define COTAN_AOT_TRACE_TRACED_PROGRAM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "aot/graph/graph.h"
#include "base/dtype.h"
#include "base/layout.h"
#include "serialization/metadata.pb.h"
#include "serialization/program.pb.h"

namespace cotan::aot {

// A tensor's content: dense, row-major, little-endian.
struct TensorData {
  DType dtype = DType::kUndefined;
  DimVector sizes;
  std::string bytes;
};

// A parameter, buffer or constant with its initial content.
struct TracedState {
  std::string name;
  serialization::State::Role role = serialization::State::PARAMETER;
  TensorData initial;
  bool requires_grad = false;
  bool persistent = true;
  std::vector<std::string> aliases;  // further names of a tied tensor
};

// What the function returned for the example inputs.
struct ReferenceRun {
  std::vector<TensorData> inputs;        // the user's inputs
  std::vector<TensorData> outputs;       // the user's outputs
  std::vector<TensorData> mutated;       // per graph output of kind kMutatedInput, in order
  std::vector<TensorData> gradients;     // per graph output of kind kGradient with a value, in order
  int64_t rng_seed = 0;
  int64_t rng_offset = 0;
};

// One traced function.
//
// Training: `graph` is the joint graph. Its inputs are, in order, parameters,
// buffers, user inputs, constants, the RNG state if any op draws, tangents of
// those user outputs that require grad. Its outputs are mutated inputs, user
// outputs, gradients of the inputs that require grad.
// Inference: no tangents, no gradients.
struct TracedProgram {
  Graph graph;
  serialization::ViewAndMutationMeta metadata;
  serialization::GraphSignature signature;
  std::vector<TracedState> states;
  // Philox blocks that one run draws (constant for static shapes).
  SymInt rng_blocks = 0;
  ReferenceRun reference;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_TRACE_TRACED_PROGRAM_H_
