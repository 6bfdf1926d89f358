// SPDX-License-Identifier: Apache-2.0

// Traces a function of tensors on example inputs: analysis, input binding, then the inference or
// joint graph (torch/_functorch/_aot_autograd/graph_capture.py, aot_dispatch_base_graph and
// aot_dispatch_autograd_graph).
#ifndef COTAN_AOT_AOTAUTOGRAD_TRACER_H_
#define COTAN_AOT_AOTAUTOGRAD_TRACER_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "aot/capture/decomposition.h"
#include "aot/capture/traced_function.h"
#include "aot/capture/traced_program.h"
#include "base/dtype.h"
#include "serialization/metadata/tree_spec.h"

namespace cotan::aot {

// Options of Trace().
struct TraceOptions {
  enum class Backward : uint8_t {
    kNone,     // inference
    kOutputs,  // one tangent for each value of the forward that requires grad (DerivedMetadata)
    kLoss,     // one tangent, of output `loss_output`
  };
  std::string name = "forward";  // of the graph
  Backward backward = Backward::kNone;
  // kLoss: index of the loss among the outputs; negative: counts from the end. The output is named
  // "loss".
  int loss_output = 0;
  // Grad mode at entry of the function.
  bool grad_enabled = true;
  // If true, the program writes the new content of a mutated input itself where this is
  // unobservable (AOTConfig.keep_inference_input_mutations).
  bool keep_input_mutations = true;
  // If true, an undefined tensor among the outputs stands for None; if false, it is
  // InvalidArgument.
  bool undefined_outputs_are_none = false;
  // Names of inputs and outputs; missing ones are "input.I" and "output.I".
  std::vector<std::string> input_names = {};
  std::vector<std::string> output_names = {};
  // Nesting of the caller's inputs and outputs, with one leaf for each; unset: flat tuples.
  std::optional<TreeSpec> in_spec = {};
  std::optional<TreeSpec> out_spec = {};
  // Mixed precision: bf16 or f16; kUndefined: none (capture/autocast.h).
  DType autocast = DType::kUndefined;
  // Seed of the random numbers that the example run draws.
  uint64_t seed = 0;
  // Decompositions of ATen ops, borrowed for the call; null: none besides the built-in ones.
  const DecompositionTable* decompositions = nullptr;
  // Returns the ops of a traced graph that are not supported by later stages; they are reported in
  // one message with all other unsupported constructs. Null: none.
  std::function<std::vector<std::string>(const Graph& graph)> unsupported_ops = nullptr;
};

// Returns the graph, metadata and signature of `function`, and its results on the examples.
// requires_grad and is_leaf of an input are those of its example, of a parameter those of its
// ModuleState. Random ops draw from Philox with `seed` at offset 0. With kOutputs, if the backward
// would have no tangents, the result is an inference graph. An output that is a wrapped number of
// LibTorch becomes a constant in the metadata.
//
// Unimplemented: the function uses constructs that a graph cannot express: it reads data of
// tensors, writes to or keeps tensors that are not registered buffers, has results of
// data-dependent size, or uses unsupported ops. The message lists everything found.
// InvalidArgument: those of CheckAutocast(), CheckDecompositions(), BindInputs() and SignatureOf();
// the function throws (the message has the exception's text); an output is undefined and
// undefined_outputs_are_none is false; with kLoss, `loss_output` is out of range, or the output is
// not a scalar of a floating point dtype or does not depend on a tensor that requires grad.
//
// Not thread-safe: one trace at a time in a process. The first call changes process-wide settings
// of LibTorch's dispatcher.
absl::StatusOr<TracedProgram> Trace(const TensorFunction& function, absl::Span<const ModuleState> states,
                                    absl::Span<const at::Tensor> inputs, const TraceOptions& options);

}  // namespace cotan::aot

#endif  // COTAN_AOT_AOTAUTOGRAD_TRACER_H_
