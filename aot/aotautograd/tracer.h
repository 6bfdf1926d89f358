// SPDX-License-Identifier: Apache-2.0

// Traces a function of tensors on example inputs: analysis, input binding, then the inference or
// joint graph (torch/_functorch/_aot_autograd/graph_capture.py, aot_dispatch_base_graph and
// aot_dispatch_autograd_graph).
#ifndef COTAN_AOT_AOTAUTOGRAD_TRACER_H_
#define COTAN_AOT_AOTAUTOGRAD_TRACER_H_

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "aot/aotautograd/trace_options.h"
#include "aot/capture/traced_function.h"
#include "aot/capture/traced_program.h"

namespace cotan::aot {

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
