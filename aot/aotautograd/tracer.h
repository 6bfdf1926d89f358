// Runs a function of tensors once, on example inputs, and returns its graph.
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

struct TraceOptions {
  enum class Backward : uint8_t {
    kNone,     // inference
    kOutputs,  // one tangent for each value of the forward that requires grad (DerivedMetadata)
    kLoss,     // one tangent, of output `loss_output`
  };
  std::string name = "forward";  // of the graph
  Backward backward = Backward::kNone;
  // Negative: counts from the end. The output is named "loss".
  int loss_output = 0;
  // Whether gradients are enabled when the function is called.
  bool grad_enabled = true;
  // Whether the program may write inputs itself where nobody can tell.
  bool keep_input_mutations = true;
  // Whether an undefined tensor among the outputs stands for None.
  bool undefined_outputs_are_none = false;
  // Names of inputs and outputs; missing ones are "input.I" and "output.I".
  std::vector<std::string> input_names = {};
  std::vector<std::string> output_names = {};
  // How the caller's inputs and outputs are nested, as many leaves as there are;
  // unset: flat tuples.
  std::optional<TreeSpec> in_spec = {};
  std::optional<TreeSpec> out_spec = {};
  // Mixed precision: bf16 or f16; kUndefined = none (autocast.h).
  DType autocast = DType::kUndefined;
  // Seed of the session's generator: of what the example run draws.
  uint64_t seed = 0;
  // Ops that are written in terms of others. Null: none; outlives the call.
  const DecompositionTable* decompositions = nullptr;
  // Names the ops of a traced graph that cannot be compiled, so that they are
  // refused in the same message as all else. Null: none.
  std::function<std::vector<std::string>(const Graph& graph)> unsupported_ops = nullptr;
};

// Traces `function`. An input requires grad if its example does, and is a leaf
// if that is one; parameters as their ModuleState says. Random ops draw from
// Philox with `seed`, offset 0. With kOutputs, if no tangent would enter the
// backward, the result is an inference graph. An output that is a number in a
// tensor's place (LibTorch's wrapped number) is no tensor but that number.
//
// Unimplemented: the function does what a graph cannot express: reads tensors'
// data, writes to or keeps tensors that are no registered buffers, has results
// of data-dependent size, uses unsupported ops; the message lists everything
// found.
// InvalidArgument: CheckDecompositions(); SignatureOf(); the function threw
// (the message is the exception's), an output is undefined (unless that is
// allowed), or (kLoss) `loss_output` is out of range, no scalar of a floating
// point dtype, or does not depend on a tensor that requires grad.
//
// Not thread-safe; one trace at a time in a process, as tracing changes
// process-wide settings of LibTorch's dispatcher when first called.
absl::StatusOr<TracedProgram> Trace(const TensorFunction& function, absl::Span<const ModuleState> states,
                                    absl::Span<const at::Tensor> inputs, const TraceOptions& options);

}  // namespace cotan::aot

#endif  // COTAN_AOT_AOTAUTOGRAD_TRACER_H_
