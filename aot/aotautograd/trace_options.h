// SPDX-License-Identifier: Apache-2.0

// Options of Trace() (tracer.h).
#ifndef COTAN_AOT_AOTAUTOGRAD_TRACE_OPTIONS_H_
#define COTAN_AOT_AOTAUTOGRAD_TRACE_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "aot/capture/decomposition.h"
#include "aot/decompositions/attention_form.h"
#include "aot/ir/graph.h"
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
  // The function is a vector-Jacobian product, which runs another one again (vjp.h): its writes to states are dropped,
  // and it sets the RNG state that random ops read itself, so that the session's does not advance.
  bool recomputes_forward = false;
  // The order of the derivative that such a function computes; 0: the function is none.
  int derivative_order = 0;
  // Such a function, of this or a lower order, has arguments that say which of its tangents are defined.
  bool takes_tangent_flags = false;
  // Nesting of the caller's inputs and outputs, with one leaf for each; unset: flat tuples.
  std::optional<TreeSpec> in_spec = {};
  std::optional<TreeSpec> out_spec = {};
  // Mixed precision: bf16 or f16; kUndefined: none (capture/autocast.h).
  DType autocast = DType::kUndefined;
  // Form of scaled_dot_product_attention.
  AttentionRule attention = {};
  // Seed of the random numbers that the example run draws.
  uint64_t seed = 0;
  // If true, ReferenceRun.gradients has copies of the gradients of the example run; if false, it is empty.
  bool store_gradients = true;
  // Decompositions of ATen ops, borrowed for the call; null: none besides the built-in ones.
  const DecompositionTable* decompositions = nullptr;
  // Returns the ops of a traced graph that are not supported by later stages; they are reported in
  // one message with all other unsupported constructs. Null: none.
  std::function<std::vector<std::string>(const Graph& graph)> unsupported_ops = nullptr;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_AOTAUTOGRAD_TRACE_OPTIONS_H_
