// SPDX-License-Identifier: Apache-2.0

#include "aot/export.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "aot/aotautograd/analyze_function.h"
#include "aot/aotautograd/describe_examples.h"
#include "aot/aotautograd/input_binding.h"
#include "aot/aotautograd/tracer.h"
#include "aot/capture/proxy_tensor.h"
#include "aot/decompositions/trace_scope.h"
#include "aot/transforms/dead_code.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

using serialization::State;
using Backward = TraceOptions::Backward;

// Returns InvalidArgument "cannot export: ...".
template <typename... Parts>
absl::Status Refuse(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("cannot export: ", parts...));
}

// A function, its states and its examples.
struct Exportable {
  TensorFunction function;
  absl::Span<const ModuleState> states;
  const std::vector<at::Tensor>& examples;

  std::string InputName(size_t input) const {
    return input < states.size() ? absl::StrCat("'", states[input].name, "'")
                                 : absl::StrCat("input ", input - states.size());
  }
};

// InvalidArgument: input mutations and aliases that need a calling convention around the graph.
absl::Status CheckInputs(const Exportable& exportable, const ViewAndMutationMetaFields& facts, bool trace_joint) {
  for (size_t i = 0; i < facts.input_info.size(); ++i) {
    const InputAliasInfo& info = facts.input_info[i];
    if (!info.mutates_metadata) continue;
    return Refuse(exportable.InputName(i),
                  " has other sizes, strides or storage when the function returns (transpose_, resize_, set_); work on "
                  "a view of it instead");
  }
  for (size_t i = 0; i < facts.input_info.size(); ++i) {
    const InputAliasInfo& info = facts.input_info[i];
    if (!info.mutates_data || !info.requires_grad) continue;
    return Refuse(exportable.InputName(i), " requires grad and is written to; write to a clone of it, or detach it");
  }
  for (size_t i = 0; trace_joint && i < exportable.states.size(); ++i) {
    if (exportable.states[i].role != State::PARAMETER || !facts.input_info[i].mutates_data) continue;
    return Refuse(exportable.InputName(i),
                  " is a parameter and is written to; in a joint graph only buffers and user inputs may be: make it a "
                  "buffer");
  }
  COTAN_ASSIGN_OR_RETURN(const BoundInputs bound,
                         BindInputs(facts, DescribeExamples(exportable.states, exportable.examples)));
  if (bound.binding.has_duplicates()) {
    return Refuse("the same tensor is given as two inputs and written to; give a clone of it");
  }
  if (bound.binding.has_bases()) {
    return Refuse("inputs share memory, and one of them is written to; give a clone of the others");
  }
  return absl::OkStatus();
}

absl::StatusOr<ViewAndMutationMetaFields> FactsOf(const Exportable& exportable, bool grad_enabled, uint64_t seed) {
  AnalyzeFunctionOptions options;
  options.keep_input_mutations = false;
  options.grad_enabled = grad_enabled;
  options.seed = seed;
  return AnalyzeFunction(exportable.function, exportable.states, exportable.examples, options);
}

absl::Status CheckLossOnly(const ViewAndMutationMetaFields& facts, const ExportOptions& options) {
  if (!options.output_loss_index.has_value()) {
    return Refuse("trace_joint needs output_loss_index: which output is the scalar loss that gradients are taken of");
  }
  const int loss = *options.output_loss_index;
  const int count = static_cast<int>(facts.output_info.size());
  for (int i = 0; i < count; ++i) {
    if (i == loss || !facts.output_info[static_cast<size_t>(i)].requires_grad) continue;
    return Refuse("output ", i, " requires grad, but the loss is output ", loss,
                  ", and gradients are of the loss alone; detach() all other outputs");
  }
  if (loss < 0 || loss >= count) {
    return Refuse("the loss is output ", loss, ", but the function returns ", count, " tensors");
  }
  const OutputAliasInfo& info = facts.output_info[static_cast<size_t>(loss)];
  if (!info.requires_grad) return Refuse("output ", loss, " is to be the loss, but does not require grad");
  SymInt elements = 1;
  for (const SymInt& size : info.geometry->sizes) elements = elements * size;
  if (elements == SymInt(1)) return absl::OkStatus();
  return Refuse("output ", loss, " is to be the loss, but is not a scalar: it is ", info.geometry->ToString());
}

// Replaces the tangent of the loss by 1.
absl::Status SeedTangent(Graph& graph) {
  const auto tangent = std::find_if(graph.inputs().begin(), graph.inputs().end(),
                                    [](const GraphInput& input) { return input.kind == InputKind::kTangent; });
  if (tangent == graph.inputs().end()) return absl::InternalError("a joint graph without a tangent");
  const ValueId value = tangent->value;
  const TensorType type = graph.value(value).type;
  const std::vector<SymInt> sizes(type.sizes.begin(), type.sizes.end());
  const Node& ones = graph.InsertNode(graph.nodes().begin(), "aten.ones.default",
                                      {sizes, type.dtype, None{}, None{}, None{}}, {{type}});
  graph.ReplaceAllUses(value, ones.outputs[0]);
  graph.inputs().erase(tangent);
  graph.Compact();
  return absl::OkStatus();
}

absl::Status CheckGradients(const Graph& graph) {
  for (const GraphOutput& output : graph.outputs()) {
    if (output.kind != OutputKind::kGradient || output.value != kNoValue) continue;
    return Refuse("'", output.name, "' requires grad, but the loss does not depend on it; freeze or detach() it");
  }
  return absl::OkStatus();
}

absl::StatusOr<ExportedGraph> Exported(TracedProgram traced) {
  COTAN_RETURN_IF_ERROR(EliminateDeadCode(traced.graph).status());
  traced.graph.Compact();
  return ExportedGraph{std::move(traced.graph), std::move(traced.signature), std::move(traced.metadata),
                       std::move(traced.states)};
}

absl::StatusOr<ExportedGraph> Export(const Exportable& exportable, const ExportOptions& options) {
  if (options.pre_dispatch) {
    return Refuse("pre_dispatch is not supported: graphs are recorded below autograd",
                  options.trace_joint ? ", and such a graph could not contain gradients (trace_joint)" : "");
  }
  if (!options.dynamic_dims.empty()) {
    return absl::UnimplementedError(
        "cannot export: dynamic_dims are not supported: an exported graph has the sizes of the examples; export it for "
        "each size, or compile the model, whose artifact may have dynamic dimensions");
  }
  COTAN_ASSIGN_OR_RETURN(const ViewAndMutationMetaFields facts, FactsOf(exportable, options.trace_joint, options.seed));
  if (options.trace_joint) COTAN_RETURN_IF_ERROR(CheckLossOnly(facts, options));
  COTAN_RETURN_IF_ERROR(CheckInputs(exportable, facts, options.trace_joint));

  TraceOptions trace;
  trace.name = options.trace_joint ? "joint" : "inference";
  trace.backward = options.trace_joint ? Backward::kLoss : Backward::kNone;
  trace.loss_output = options.output_loss_index.value_or(0);
  trace.grad_enabled = options.trace_joint;
  trace.keep_input_mutations = false;
  trace.seed = options.seed;
  trace.decompositions = &options.decompositions;
  COTAN_ASSIGN_OR_RETURN(TracedProgram traced,
                         Trace(exportable.function, exportable.states, exportable.examples, trace));
  if (options.trace_joint) {
    COTAN_RETURN_IF_ERROR(CheckGradients(traced.graph));
    COTAN_RETURN_IF_ERROR(SeedTangent(traced.graph));
  }
  return Exported(std::move(traced));
}

// Leading examples of a function, as states.
struct LeadingStates {
  std::vector<ModuleState> states;  // parameters, then buffers
  std::vector<size_t> position;     // of each state among the function's inputs
};

LeadingStates MakeStates(absl::Span<const at::Tensor> examples) {
  LeadingStates result;
  const auto epoch = std::make_shared<TraceEpoch>();
  epoch->kind = TraceEpoch::Kind::kConstruction;
  for (const bool parameters : {true, false}) {
    for (size_t i = 0; i < examples.size(); ++i) {
      if (examples[i].requires_grad() != parameters) continue;
      ModuleState& state = result.states.emplace_back();
      state.name = absl::StrCat("p", i);
      state.role = parameters ? State::PARAMETER : State::BUFFER;
      state.initial = examples[i].detach();
      state.tensor = WrapFunctional(MakeProxy(state.initial, kNoValue, epoch));
      state.requires_grad = parameters;
      result.position.push_back(i);
    }
  }
  return result;
}

}  // namespace

absl::StatusOr<ExportedGraph> ExportModuleFactory(const ModuleFactory& factory, const std::vector<at::Tensor>& examples,
                                                  const ExportOptions& options) {
  COTAN_ASSIGN_OR_RETURN(const TraceableModule module, TraceableModule::Create(factory, {.seed = options.seed}));
  return Export({module.forward(), module.states(), examples}, options);
}

absl::StatusOr<ExportedGraph> ExportTensorFunction(const TensorFunction& function,
                                                   const std::vector<at::Tensor>& examples,
                                                   const ExportOptions& options) {
  const int count = options.num_parameters_and_buffers;
  if (count < 0 || static_cast<size_t>(count) > examples.size()) {
    return Refuse(count, " of ", examples.size(), " inputs cannot be parameters and buffers");
  }
  RegisterTracing();
  const auto first_input = examples.begin() + count;
  const LeadingStates leading = MakeStates({examples.data(), static_cast<size_t>(count)});
  const TensorFunction with_states = [&](const std::vector<at::Tensor>& inputs) {
    std::vector<at::Tensor> all(static_cast<size_t>(count));
    for (size_t i = 0; i < leading.states.size(); ++i) all[leading.position[i]] = leading.states[i].tensor;
    all.insert(all.end(), inputs.begin(), inputs.end());
    return function(all);
  };
  const std::vector<at::Tensor> user_examples(first_input, examples.end());
  return Export({with_states, leading.states, user_examples}, options);
}

absl::StatusOr<ExportedGraph> ExportJointTensorFunction(const TensorFunction& function,
                                                        const std::vector<at::Tensor>& examples, bool trace_joint,
                                                        const DecompositionTable& decompositions) {
  const Exportable exportable = {function, {}, examples};
  COTAN_ASSIGN_OR_RETURN(const ViewAndMutationMetaFields facts, FactsOf(exportable, trace_joint, /*seed=*/0));
  COTAN_RETURN_IF_ERROR(CheckInputs(exportable, facts, trace_joint));
  for (size_t i = 0; i < facts.input_info.size(); ++i) {
    if (facts.input_info[i].is_mutated())
      return Refuse(exportable.InputName(i), " is written to; write to a clone of it");
  }
  for (size_t i = 0; i < facts.output_info.size(); ++i) {
    const OutputType type = facts.output_info[i].output_type;
    if (type == OutputType::kNonAlias) continue;
    return Refuse("output ", i, " is an alias of another tensor (", OutputTypeName(type), "); return a clone of it");
  }
  TraceOptions trace;
  trace.name = trace_joint ? "joint" : "inference";
  trace.backward = trace_joint ? Backward::kOutputs : Backward::kNone;
  trace.grad_enabled = trace_joint;
  trace.keep_input_mutations = false;
  trace.decompositions = &decompositions;
  COTAN_ASSIGN_OR_RETURN(TracedProgram traced, Trace(function, {}, examples, trace));
  return Exported(std::move(traced));
}

}  // namespace cotan::aot
