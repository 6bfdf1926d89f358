// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/tracer.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "aot/aotautograd/backward_trace.h"
#include "aot/aotautograd/first_pass.h"
#include "aot/aotautograd/forward_trace.h"
#include "aot/aotautograd/joint_trace.h"
#include "aot/aotautograd/signature.h"
#include "aot/capture/autocast.h"
#include "aot/capture/proxy_tensor.h"
#include "aot/capture/real_scope.h"
#include "aot/capture/recorder.h"
#include "aot/decompositions/attention.h"
#include "aot/decompositions/trace_scope.h"
#include "base/status_macros.h"
#include "serialization/metadata/view_and_mutation_meta.h"

namespace cotan::aot {
namespace {

// Returns the sort key of graph inputs; see TracedProgram.
int Rank(InputKind kind) {
  switch (kind) {
    case InputKind::kParameter:
      return 0;
    case InputKind::kBuffer:
      return 1;
    case InputKind::kUserInput:
      return 2;
    case InputKind::kConstant:
      return 3;
    case InputKind::kRngState:
      return 4;
    case InputKind::kToken:
      return 6;
    default:
      return 5;
  }
}

// Calls the function with the options' mixed precision and form of attention. Throws if an output is undefined and the
// options do not allow that.
std::vector<at::Tensor> CallWithOptions(const TensorFunction& function, const std::vector<at::Tensor>& arguments,
                                        const TraceOptions& options) {
  const AutocastScope autocast(options.autocast);
  const AttentionScope attention(options.attention);
  std::vector<at::Tensor> outputs = function(arguments);
  for (size_t i = 0; i < outputs.size() && !options.undefined_outputs_are_none; ++i) {
    if (!outputs[i].defined()) throw std::invalid_argument(absl::StrCat("output ", i, " is an undefined tensor"));
  }
  return outputs;
}

// Reports results of ops that are alive although the trace has dropped its tensors.
void ReportKeptTensors(Recorder& recorder) {
  std::vector<ValueId> kept;
  for (const ProxyTensorImpl* proxy : recorder.epoch()->live) kept.push_back(proxy->value());
  std::sort(kept.begin(), kept.end());
  for (const Node& node : recorder.graph().nodes()) {
    for (ValueId output : node.outputs) {
      if (!std::binary_search(kept.begin(), kept.end(), output)) continue;
      recorder.ReportUnsupported(
          absl::StrCat("a result of ", node.op, node.source.empty() ? "" : absl::StrCat(" in '", node.source, "'")),
          "it is kept after the call, in an attribute or a captured variable; make that a registered "
          "buffer and write to it in place (copy_)");
    }
  }
}

// Returns Unimplemented with the unsupported constructs reported so far, if any.
absl::Status StatusOfDiagnostics(const JointTrace& trace) {
  const std::vector<std::string>& diagnostics = trace.recorder.diagnostics();
  if (diagnostics.empty()) return absl::OkStatus();
  return CannotBeCompiled(trace.options.name, absl::StrJoin(diagnostics, "\n  "));
}

// Unimplemented: all unsupported constructs, leaked proxies and unsupported ops included.
absl::Status CheckSupported(JointTrace& trace) {
  ReportKeptTensors(trace.recorder);
  if (trace.options.unsupported_ops != nullptr) {
    for (const std::string& op : trace.options.unsupported_ops(trace.recorder.graph())) {
      trace.recorder.ReportUnsupported(op, "it is not supported");
    }
  }
  return StatusOfDiagnostics(trace);
}

// InvalidArgument: the function or its backward has set the grad() of an argument or state, which the program does not
// have, or called backward() such that it reached one.
absl::Status CheckNoGrad(JointTrace& trace) {
  const auto has_grad = [](const at::Tensor& leaf) {
    return leaf.defined() && leaf.requires_grad() && leaf.is_leaf() && leaf.grad().defined();
  };
  const auto refuse = [](const std::string& name) {
    return absl::InvalidArgumentError(
        absl::StrCat("the function calls backward(), which adds to the grad() of '", name,
                     "', or sets it (mutable_grad()), and a program does not have it: compute the gradient with "
                     "torch::autograd::grad(), or call backward() of a detached copy "
                     "(detach().requires_grad_())"));
  };
  for (size_t i = 0; i < trace.arguments.size(); ++i) {
    const ProgramArgument& argument = trace.program_arguments.arguments[i];
    if (!has_grad(argument.primal) && !has_grad(argument.tensor)) continue;
    return refuse(trace.GraphInputOf(static_cast<int>(i)).name);
  }
  for (size_t i = 0; i < trace.program_arguments.function_inputs.size(); ++i) {
    if (has_grad(trace.program_arguments.function_inputs[i])) return refuse(trace.input_names[i]);
  }
  return absl::OkStatus();
}

// Removes the RNG state and effect tokens if they are unused, and sorts the graph inputs by kind.
void FinishGraphInputs(JointTrace& trace) {
  std::vector<GraphInput>& inputs = trace.recorder.graph().inputs();
  if (trace.recorder.random_blocks() == 0 || trace.options.recomputes_forward) {
    std::erase_if(inputs, [](const GraphInput& i) { return i.kind == InputKind::kRngState; });
  }
  std::erase_if(inputs, [&trace](const GraphInput& i) {
    return i.kind == InputKind::kToken && !(i.index == 0 ? trace.has_effects : trace.has_backward_effects);
  });
  std::stable_sort(inputs.begin(), inputs.end(),
                   [](const GraphInput& a, const GraphInput& b) { return Rank(a.kind) < Rank(b.kind); });
}

absl::Status AddSignature(const ViewAndMutationMeta& metadata, JointTrace& trace) {
  CallingConvention call;
  call.user_inputs = trace.input_names;
  call.user_outputs = trace.output_names;
  call.graph_inputs = trace.program_arguments.graph_inputs;
  call.in_spec = trace.options.in_spec;
  call.out_spec = trace.options.out_spec;
  if (trace.options.backward == TraceOptions::Backward::kLoss) call.loss_output = trace.LossOutput();
  const absl::StatusOr<GraphSignature> signature = SignatureOf(trace.program.graph, metadata, call);
  if (!signature.ok()) {
    return absl::Status(signature.status().code(),
                        absl::StrCat("the signature of '", trace.options.name, "': ", signature.status().message()));
  }
  trace.program.signature = signature->ToProto();
  return absl::OkStatus();
}

absl::StatusOr<TracedProgram> Finish(JointTrace& trace) {
  FinishGraphInputs(trace);
  for (ViewAndMutationMetaFields* facts : {&trace.first.facts, &trace.facts}) {
    if (trace.has_effects) facts->tokens = {"ordered"};
    facts->num_backward_tokens = trace.has_backward_effects ? 1 : 0;
  }
  Graph& graph = trace.recorder.graph();
  graph.Compact();
  trace.program.states.insert(trace.program.states.end(), trace.recorder.constants().begin(),
                              trace.recorder.constants().end());
  trace.program.grad_enabled = trace.options.grad_enabled;
  trace.program.rng_blocks = SymInt(trace.options.recomputes_forward ? 0 : trace.recorder.random_blocks());
  trace.program.graph = std::move(graph);
  COTAN_ASSIGN_OR_RETURN(const ViewAndMutationMeta metadata, ViewAndMutationMeta::Create(std::move(trace.first.facts)));
  COTAN_RETURN_IF_ERROR(AddSignature(metadata, trace));
  trace.program.metadata = metadata.ToProto();
  if (!trace.first.bound.binding.is_identity()) {
    COTAN_ASSIGN_OR_RETURN(const ViewAndMutationMeta inner, ViewAndMutationMeta::Create(std::move(trace.facts)));
    trace.program.program_metadata = inner.ToProto();
    trace.program.input_binding = trace.first.bound.binding.ToProto();
  }
  return std::move(trace.program);
}

}  // namespace

absl::StatusOr<TracedProgram> Trace(const TensorFunction& traced, absl::Span<const ModuleState> states,
                                    absl::Span<const at::Tensor> inputs, const TraceOptions& options) {
  COTAN_RETURN_IF_ERROR(CheckAutocast(options.autocast));
  RegisterTracing();
  if (options.decompositions != nullptr) COTAN_RETURN_IF_ERROR(CheckDecompositions(*options.decompositions));
  const TensorFunction function = [&](const std::vector<at::Tensor>& arguments) {
    return CallWithOptions(traced, arguments, options);
  };
  COTAN_ASSIGN_OR_RETURN(FirstPass first, RunFirstPass(function, states, inputs, options));
  const TraceScope scope(options.grad_enabled);
  JointTrace trace(states, std::move(first), options);
  try {
    trace.InstallProxies(inputs);
    absl::Status ran = TraceForward(function, trace);
    if (ran.ok()) ran = TraceBackward(trace);
    if (ran.ok()) ran = CheckNoGrad(trace);
    trace.Release();
    COTAN_RETURN_IF_ERROR(CheckSupported(trace));
    COTAN_RETURN_IF_ERROR(ran);
    return Finish(trace);
  } catch (...) {
    // The exception may follow from an unsupported construct.
    COTAN_RETURN_IF_ERROR(StatusOfDiagnostics(trace));
    return StatusFromCurrentException(absl::StrCat("tracing '", options.name, "'"));
  }
}

}  // namespace cotan::aot
