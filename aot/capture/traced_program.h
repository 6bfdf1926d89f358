// SPDX-License-Identifier: Apache-2.0

// The result of tracing. This header and the stages that read it do not include LibTorch.
#ifndef COTAN_AOT_CAPTURE_TRACED_PROGRAM_H_
#define COTAN_AOT_CAPTURE_TRACED_PROGRAM_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "aot/ir/graph.h"
#include "base/dtype.h"
#include "base/layout.h"
#include "serialization/schema/metadata.pb.h"
#include "serialization/schema/program.pb.h"

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

// Inputs and results of the function for the example inputs.
struct ReferenceRun {
  std::vector<TensorData> inputs;     // per graph input of kind kUserInput, in order
  std::vector<TensorData> outputs;    // what the forward returns: user inputs that are written back,
                                      // user outputs, intermediate bases of the graph
  std::vector<TensorData> mutated;    // per graph output of kind kMutatedInput, kInputUpdate or
                                      // kInputStorage, in order
  std::vector<TensorData> tangents;   // per graph input of kind kTangent, in order
  std::vector<TensorData> gradients;  // per graph output of kind kGradient with a value, in order
  int64_t rng_seed = 0;
  int64_t rng_offset = 0;
};

// A tensor's expected content after a reference run.
struct ExpectedState {
  std::string state;
  TensorData content;
  // Absolute error that is allowed in addition to rounding.
  double slack = 0;
};

// One traced function.
//
// Training: `graph` is the joint graph. Its inputs are, in order, parameters, buffers, user inputs,
// constants, the RNG state if any op draws, tangents, and effect tokens if there are effects (effects.h).
// Its outputs are effect tokens, mutated inputs, the user outputs that are not aliases of inputs or bases,
// intermediate bases, and gradients of the inputs that require grad. Tangents and outputs are in the order
// of DerivedMetadata.
// Inference: no tangents, no gradients.
//
// Ops are LibTorch's after its own decompositions: functional ones and views, with arguments in schema
// order. Conventions:
//   - A number in the place of a tensor is a 0-d tensor without influence on type promotion:
//     aten.add.Tensor(%0, 2.0, 1).
//   - Layouts, devices, generators and memory formats are none.
//   - cotan.random_uniform.default(%rng, [sizes], slice) returns f32 in [0, 1).
//   - cotan.effect.default(%token, %value, "print", "name", "message") returns the next token.
//   - Batch norm is aten._native_batch_norm_legit_functional.default or
//     aten._native_batch_norm_legit_no_training.default.
struct TracedProgram {
  Graph graph;
  // True if gradients were enabled when the function was called.
  bool grad_enabled = true;
  // Metadata of the caller's inputs and outputs.
  serialization::ViewAndMutationMeta metadata;
  // Metadata of the program's arguments, and how they are made from the caller's inputs (duplicate inputs,
  // synthetic bases); unset if the arguments are the inputs.
  std::optional<serialization::ViewAndMutationMeta> program_metadata;
  std::optional<serialization::InputBinding> input_binding;
  serialization::GraphSignature signature;
  // Indices of the caller's inputs that are views made under no_grad, ascending; see program.proto.
  std::vector<int> no_grad_view_inputs;
  std::vector<TracedState> states;
  // Philox blocks that one run draws (constant for static shapes).
  SymInt rng_blocks = 0;
  ReferenceRun reference;
  // By tangent: the tangents of the results that its result is computed from, ascending; see program.proto. Empty
  // without a backward.
  std::vector<std::vector<int>> result_dependencies = {};
  // Reason why the backward was omitted from `graph`; empty: it was not.
  std::string backward_refusal = {};
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_CAPTURE_TRACED_PROGRAM_H_
