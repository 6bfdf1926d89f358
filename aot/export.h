// Graphs for other tools than Cotan's runtime: what a module or a function
// computes, as one graph of aten ops with a signature, and no calling convention
// around it. What would need one is refused.
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
#include "aot/capture/traced_program.h"
#include "aot/frontend/callable.h"
#include "aot/frontend/module.h"

namespace cotan::aot {

struct ExportOptions {
  // Whether the graph computes gradients too: of the loss, output
  // `output_loss_index` (counted from 0), by all parameters and inputs that
  // require grad. Without it, the function runs with gradients disabled.
  bool trace_joint = false;
  std::optional<int> output_loss_index;
  // Functions only: so many leading examples are parameters, those that require
  // grad, or buffers; they are called p0, p1, ...
  int num_parameters_and_buffers = 0;
  // A graph of ops as they were before autograd. There is none: refused.
  bool pre_dispatch = false;
  // Seeds LibTorch's generator before a module is constructed.
  uint64_t seed = 0;
};

// A graph (see TracedProgram) without tangents. Its inputs are parameters,
// buffers, user inputs, then captured constants and the RNG state, if any. Its
// outputs are the new contents of mutated buffers and user inputs, the user's
// outputs, and the gradients of parameters and user inputs.
struct ExportedGraph {
  Graph graph;
  serialization::GraphSignature signature;
  serialization::ViewAndMutationMeta metadata;
  // Initial contents of parameters and buffers, and constants.
  std::vector<TracedState> states;
};

// InvalidArgument, the message says which: pre_dispatch; an input whose sizes,
// strides or storage change; an input that requires grad and is written to; the
// same tensor given twice, or inputs that share memory, of which one is written
// to. With trace_joint: no output_loss_index, or no such output; a loss that
// does not require grad or is no scalar; another output that requires grad; an
// input that requires grad but has no gradient.
// Otherwise as CompileModule() and CompileFunction().
absl::StatusOr<ExportedGraph> ExportModuleFactory(const ModuleFactory& factory, const std::vector<at::Tensor>& examples,
                                                  const ExportOptions& options);
absl::StatusOr<ExportedGraph> ExportTensorFunction(const TensorFunction& function,
                                                   const std::vector<at::Tensor>& examples,
                                                   const ExportOptions& options);

// A joint graph with one tangent for each output that requires grad, or, without
// `trace_joint`, the graph of the function with gradients disabled. Partitioned,
// its forward takes and returns what the function does.
// InvalidArgument: as above, and for an input that is written to, or an output
// that shares memory with an input or with another tensor.
absl::StatusOr<ExportedGraph> ExportJointTensorFunction(const TensorFunction& function,
                                                        const std::vector<at::Tensor>& examples, bool trace_joint);

// See CompileModule() and CompileFunction() for what is taken.
template <typename Factory>
absl::StatusOr<ExportedGraph> ExportModule(Factory factory, const std::vector<at::Tensor>& examples,
                                           const ExportOptions& options) {
  return ExportModuleFactory(AdaptFactory(std::move(factory)), examples, options);
}

template <typename Callable>
absl::StatusOr<ExportedGraph> ExportFunction(Callable function, const std::vector<at::Tensor>& examples,
                                             const ExportOptions& options) {
  return ExportTensorFunction(AdaptFunction(std::move(function)), examples, options);
}

template <typename Callable>
absl::StatusOr<ExportedGraph> ExportJoint(Callable function, const std::vector<at::Tensor>& examples,
                                          bool trace_joint) {
  return ExportJointTensorFunction(AdaptFunction(std::move(function)), examples, trace_joint);
}

}  // namespace cotan::aot

#endif  // COTAN_AOT_EXPORT_H_
