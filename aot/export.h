// SPDX-License-Identifier: Apache-2.0

// Exports modules and functions as one graph of ATen ops with a signature, for tools other than
// Cotan's runtime. The graph has no calling convention around it (torch/_functorch/aot_autograd.py,
// aot_export_module and aot_export_joint_simple); constructs that need one are InvalidArgument.
//
//   cotan::aot::ExportOptions options;
//   options.trace_joint = true;
//   options.output_loss_index = 0;
//   COTAN_ASSIGN_OR_RETURN(auto exported, cotan::aot::ExportModule([] { return Net(); }, {x}, options));
//   puts(PrintGraph(exported.graph).c_str());
#ifndef COTAN_AOT_EXPORT_H_
#define COTAN_AOT_EXPORT_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "aot/capture/decomposition.h"
#include "aot/capture/traced_program.h"
#include "aot/dynamic/dynamic_dim.h"
#include "aot/frontend/callable.h"
#include "aot/frontend/module.h"

namespace cotan::aot {

// Options with the names of aot_export_module().
struct ExportOptions {
  // If true, the graph also computes the gradients of the loss, output `output_loss_index` (counted
  // from 0), with respect to all parameters and inputs that require grad. If false, the function
  // runs with gradients disabled.
  bool trace_joint = false;
  std::optional<int> output_loss_index;
  // Functions only: number of leading examples that are states. Those that require grad are
  // parameters, the others buffers; their names are p0, p1, ...
  int num_parameters_and_buffers = 0;
  // Must be false: graphs of ops above autograd are not supported (InvalidArgument).
  bool pre_dispatch = false;
  // Seed of LibTorch's default generator before a module is constructed.
  uint64_t seed = 0;
  // Decompositions of ATen ops (capture/decomposition.h). InvalidArgument: an entry that CheckDecompositions() rejects.
  DecompositionTable decompositions = {};
  // Must be empty (Unimplemented): an exported graph has the sizes of the examples. The artifacts of the compile
  // functions have dynamic dimensions.
  std::vector<DynamicDim> dynamic_dims = {};
};

// An exported graph (see TracedProgram). Inputs: parameters, buffers, user inputs, then captured
// constants and the RNG state, if any; tangents only from ExportJointTensorFunction(). Outputs: the
// new contents of mutated buffers and user inputs, the user outputs, and the gradients of
// parameters and user inputs.
struct ExportedGraph {
  Graph graph;
  serialization::GraphSignature signature;
  serialization::ViewAndMutationMeta metadata;
  // Initial contents of parameters and buffers, and captured constants.
  std::vector<TracedState> states;
};

// Exports a module or a function; the errors are those of CompileModule() and
// CompileFunction(), and
// InvalidArgument: pre_dispatch is set; sizes, strides or storage of an input change; an input that
// requires grad is written to; the same tensor is given twice, or inputs share memory, and one of
// them is written to.
// InvalidArgument with trace_joint: output_loss_index is unset or out of range; the loss does not
// require grad or is not a scalar; another output requires grad; a parameter is written to; an
// input that requires grad has no gradient.
absl::StatusOr<ExportedGraph> ExportModuleFactory(const ModuleFactory& factory, const std::vector<at::Tensor>& examples,
                                                  const ExportOptions& options);
absl::StatusOr<ExportedGraph> ExportTensorFunction(const TensorFunction& function,
                                                   const std::vector<at::Tensor>& examples,
                                                   const ExportOptions& options);

// Exports a joint graph with one tangent for each output that requires grad or, without
// `trace_joint`, the graph of the function with gradients disabled (aot_export_joint_simple). The
// forward of the partitioned graph has the inputs and outputs of the function. `decompositions` as in
// ExportOptions.
// InvalidArgument: the errors of ExportTensorFunction() without trace_joint; an input is written
// to; an output shares memory with an input or with another tensor.
absl::StatusOr<ExportedGraph> ExportJointTensorFunction(const TensorFunction& function,
                                                        const std::vector<at::Tensor>& examples, bool trace_joint,
                                                        const DecompositionTable& decompositions = {});

// Exports a module. `factory` is as for CompileModule().
template <typename Factory>
absl::StatusOr<ExportedGraph> ExportModule(Factory factory, const std::vector<at::Tensor>& examples,
                                           const ExportOptions& options) {
  return ExportModuleFactory(AdaptFactory(std::move(factory)), examples, options);
}

// Exports a callable on tensors (frontend/callable.h).
template <typename Callable>
absl::StatusOr<ExportedGraph> ExportFunction(Callable function, const std::vector<at::Tensor>& examples,
                                             const ExportOptions& options) {
  return ExportTensorFunction(AdaptFunction(std::move(function)), examples, options);
}

// Exports a callable with ExportJointTensorFunction().
template <typename Callable>
absl::StatusOr<ExportedGraph> ExportJoint(Callable function, const std::vector<at::Tensor>& examples, bool trace_joint,
                                          const DecompositionTable& decompositions = {}) {
  return ExportJointTensorFunction(AdaptFunction(std::move(function)), examples, trace_joint, decompositions);
}

}  // namespace cotan::aot

#endif  // COTAN_AOT_EXPORT_H_
