// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/vjp.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "aot/aotautograd/joint.h"
#include "aot/aotautograd/materialized_grads.h"
#include "aot/aotautograd/tangent_markers.h"
#include "aot/aotautograd/view_and_mutation.h"
#include "aot/capture/autocast.h"
#include "aot/capture/recorder.h"
#include "aot/capture/tensor_data.h"
#include "base/status_macros.h"
#include "serialization/metadata/derived_metadata.h"
#include "serialization/metadata/view_and_mutation_meta.h"

namespace cotan::aot {
namespace {

// What the product needs to know of the function's trace.
struct TraceFacts {
  std::vector<ForwardTensor> tangents;  // the value of each tangent
  std::vector<bool> has_gradient;       // by state and argument
  std::vector<bool> is_source;          // by state and argument: autograd is asked for its gradient
  bool draws_random_numbers = false;
  int order = 1;             // of the derivative
  bool takes_flags = false;  // after the tangents
  // Marks tangents and gradients for GuardUndefinedTangents(): it takes flags, or the function does.
  bool marks_tangents = false;
};

// The vector-Jacobian product as a callable.
class Product {
 public:
  Product(TensorFunction function, absl::Span<const ModuleState> states, DType autocast, TraceFacts facts)
      : function_(std::move(function)), states_(states), autocast_(autocast), facts_(std::move(facts)) {}

  std::vector<at::Tensor> operator()(const std::vector<at::Tensor>& inputs) const {
    const c10::AutoGradMode recorded(true);
    const auto num_tangents = static_cast<std::ptrdiff_t>(facts_.tangents.size());
    const auto first_tangent = inputs.begin() + static_cast<std::ptrdiff_t>(facts_.is_source.size() - states_.size());
    const auto first_flag = first_tangent + num_tangents;
    std::vector<at::Tensor> tangents(first_tangent, first_flag);
    if (facts_.marks_tangents) {
      tangents =
          MarkTangents(tangents, {first_flag, first_flag + (facts_.takes_flags ? num_tangents : 0)}, facts_.order);
    }
    if (facts_.draws_random_numbers) CurrentRecorder()->rng_state = inputs.back();
    std::vector<at::Tensor> arguments;
    for (const ModuleState& state : states_) arguments.push_back(state.tensor);
    arguments.insert(arguments.end(), inputs.begin(), first_tangent);
    const std::vector<at::Tensor> roots = Run(arguments, {inputs.begin(), first_tangent});
    return GradientsOf(roots, tangents, arguments);
  }

 private:
  // Runs the function and returns the values that have tangents.
  std::vector<at::Tensor> Run(const std::vector<at::Tensor>& arguments, const std::vector<at::Tensor>& inputs) const {
    const std::vector<InputAtEntry> entry = DescribeInputs(arguments);
    std::vector<at::Tensor> outputs;
    {
      const AutocastScope autocast(autocast_);
      outputs = function_(inputs);
    }
    at::GradMode::set_enabled(true);  // the function may have disabled it
    absl::StatusOr<Analysis> analysis = Analyze(entry, arguments, outputs, {});
    if (!analysis.ok()) throw std::runtime_error(std::string(analysis.status().message()));
    std::vector<at::Tensor> roots;
    for (const ForwardTensor& tangent : facts_.tangents) {
      const auto index = static_cast<size_t>(tangent.index);
      const bool is_output = tangent.kind == ForwardTensor::Kind::kOutput;
      roots.push_back(is_output ? outputs.at(index) : analysis->intermediate_bases.at(index));
    }
    return roots;
  }

  std::vector<at::Tensor> GradientsOf(const std::vector<at::Tensor>& roots, const std::vector<at::Tensor>& tangents,
                                      const std::vector<at::Tensor>& arguments) const {
    std::vector<at::Tensor> used_roots, used_tangents, sources;
    for (size_t t = 0; t < roots.size(); ++t) {
      if (!IsDifferentiable(roots[t])) continue;
      used_roots.push_back(roots[t]);
      used_tangents.push_back(tangents[t]);
    }
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (facts_.is_source[i]) sources.push_back(arguments[i]);
    }
    const std::vector<at::Tensor> gradients = Differentiate(used_roots, used_tangents, sources);
    std::vector<at::Tensor> results;
    size_t next = 0;
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (!facts_.is_source[i]) continue;
      const at::Tensor& gradient = gradients[next++];
      if (gradient.defined() != facts_.has_gradient[i]) {
        throw std::runtime_error(absl::StrCat("input ", i,
                                              " has a gradient in only one of two runs of the function; it "
                                              "must be deterministic"));
      }
      if (gradient.defined()) results.push_back(gradient);
    }
    return results;
  }

  // Calls autograd with create_graph, and marks the gradients.
  std::vector<at::Tensor> Differentiate(const std::vector<at::Tensor>& roots, const std::vector<at::Tensor>& tangents,
                                        const std::vector<at::Tensor>& sources) const {
    MaterializedGrads materialized(*CurrentRecorder());
    if (facts_.marks_tangents) materialized.AddHooks(roots);
    std::optional<GradientGates> gates;
    if (facts_.marks_tangents) gates.emplace(roots, sources);
    std::vector<at::Tensor> gradients = torch::autograd::grad(roots, sources, tangents, /*retain_graph=*/true,
                                                              /*create_graph=*/true, /*allow_unused=*/true);
    materialized.ReplaceClones();
    return gradients;
  }

  TensorFunction function_;
  absl::Span<const ModuleState> states_;
  DType autocast_;
  TraceFacts facts_;
};

absl::Status Refuse(const TraceOptions& options, const std::string& what) {
  return absl::UnimplementedError(absl::StrCat("'", options.name, "' cannot be compiled with this order: ", what,
                                               ". Compile it with CompileOptions::order = 1, or compute the second "
                                               "derivatives inside the function (torch::autograd::grad with "
                                               "create_graph)"));
}

// Unimplemented: the function cannot be run again to differentiate its gradients.
absl::Status CheckCanRunAgain(const TraceOptions& options, const TracedProgram& traced,
                              const ViewAndMutationMetaFields& facts, size_t num_states,
                              const std::vector<std::string>& names) {
  if (traced.input_binding.has_value()) {
    return Refuse(options, "two of its arguments are one tensor or share memory, and it writes to them");
  }
  for (size_t i = num_states; i < facts.input_info.size(); ++i) {
    const InputAliasInfo& info = facts.input_info[i];
    const bool is_changed = info.requires_grad_at_entry.value_or(info.requires_grad) != info.requires_grad;
    if (!info.is_mutated() && !info.mutates_storage_metadata && !is_changed) continue;
    return Refuse(options, absl::StrCat("it writes to or changes its argument '", names[i - num_states],
                                        "', and its gradients are computed by running it again"));
  }
  for (const TangentMeta& tangent : facts.tangents) {
    if (tangent.source.kind != ForwardTensor::Kind::kMutatedInput) continue;
    return Refuse(options, "it writes to a buffer or parameter a value that has a gradient");
  }
  if (!facts.backward_mutated_inputs.empty()) {
    return Refuse(options, "its backward writes to an argument, parameter or buffer");
  }
  if (!facts.tokens.empty() || facts.num_backward_tokens > 0) {
    return Refuse(options, "it has effects (prints, metrics or assertions), which running it again would repeat");
  }
  return absl::OkStatus();
}

// Returns the examples, of which no two are one tensor.
std::vector<at::Tensor> Distinct(absl::Span<const at::Tensor> examples) {
  std::vector<at::Tensor> distinct;
  for (const at::Tensor& example : examples) {
    const auto is_same = [&](const at::Tensor& other) { return other.is_same(example); };
    const bool is_new = std::none_of(distinct.begin(), distinct.end(), is_same);
    distinct.push_back(is_new ? example : example.detach().clone().requires_grad_(example.requires_grad()));
  }
  return distinct;
}

// Returns which inputs the graph has a gradient of.
std::vector<bool> InputsWithGradient(const Graph& graph, size_t num_inputs) {
  std::vector<bool> has_gradient(num_inputs, false);
  for (const GraphOutput& output : graph.outputs()) {
    if (output.kind != OutputKind::kGradient || output.value == kNoValue) continue;
    has_gradient.at(static_cast<size_t>(output.index)) = true;
  }
  return has_gradient;
}

// Returns the inputs that a gradient is computed for: those that required grad, without views made under no_grad.
std::vector<bool> Sources(const TracedProgram& traced, const ViewAndMutationMetaFields& facts) {
  std::vector<bool> is_source;
  for (const InputAliasInfo& info : facts.input_info) {
    is_source.push_back(info.requires_grad_at_entry.value_or(info.requires_grad));
  }
  for (const int input : traced.no_grad_view_inputs) is_source.at(static_cast<size_t>(input)) = false;
  return is_source;
}

// Returns `name`, or NAME.I if it is one of `names`: tangents of several orders have the same name.
std::string Unique(const std::string& name, const std::vector<std::string>& names) {
  std::string unique = name;
  for (int i = 2; std::find(names.begin(), names.end(), unique) != names.end(); ++i) {
    unique = absl::StrCat(name, ".", i);
  }
  return unique;
}

// Returns the names of the user inputs: those of the function, its tangents, their flags if there are several, the RNG
// state.
std::vector<std::string> InputNames(const TracedProgram& traced) {
  std::vector<std::string> names(traced.signature.user_inputs().begin(), traced.signature.user_inputs().end());
  const size_t first_tangent = names.size();
  for (const GraphInput& input : traced.graph.inputs()) {
    if (input.kind == InputKind::kTangent) names.push_back(Unique(input.name, names));
  }
  const size_t first_flag = names.size();
  for (size_t t = first_tangent; t < first_flag && first_flag - first_tangent > 1; ++t) {
    names.push_back(Unique(absl::StrCat(names[t], ".is_defined"), names));
  }
  if (traced.rng_blocks != SymInt(0)) names.push_back(Unique("rng_state", names));
  return names;
}

std::vector<std::string> OutputNames(const Graph& graph) {
  std::vector<std::string> names;
  for (const GraphOutput& output : graph.outputs()) {
    if (output.kind == OutputKind::kGradient && output.value != kNoValue) {
      names.push_back(absl::StrCat("gradient.", output.name));
    }
  }
  return names;
}

}  // namespace

absl::StatusOr<VectorJacobianProduct> VectorJacobianProductOf(const TensorFunction& function,
                                                              absl::Span<const ModuleState> states,
                                                              absl::Span<const at::Tensor> inputs,
                                                              const TraceOptions& options,
                                                              const TracedProgram& traced) {
  COTAN_ASSIGN_OR_RETURN(const ViewAndMutationMeta metadata, ViewAndMutationMeta::FromProto(traced.metadata));
  const ViewAndMutationMetaFields& facts = metadata.facts();
  const std::vector<std::string> names = InputNames(traced);
  COTAN_RETURN_IF_ERROR(CheckCanRunAgain(options, traced, facts, states.size(), names));
  TraceFacts needed;
  for (const TangentMeta& tangent : facts.tangents) needed.tangents.push_back(tangent.source);
  needed.has_gradient = InputsWithGradient(traced.graph, facts.input_info.size());
  needed.is_source = Sources(traced, facts);
  needed.draws_random_numbers = traced.rng_blocks != SymInt(0);
  needed.order = options.derivative_order + 1;
  needed.takes_flags = needed.tangents.size() > 1;
  needed.marks_tangents = needed.takes_flags || options.takes_tangent_flags;

  VectorJacobianProduct product;
  product.options = options;
  product.options.recomputes_forward = true;
  product.options.derivative_order = needed.order;
  product.options.takes_tangent_flags = needed.marks_tangents;
  product.options.grad_enabled = true;
  product.options.autocast = DType::kUndefined;  // only the forward is under autocast
  product.options.undefined_outputs_are_none = false;
  product.options.input_names = names;
  product.options.output_names = OutputNames(traced.graph);
  product.options.in_spec.reset();
  product.options.out_spec.reset();
  product.inputs = Distinct(inputs);
  for (const TensorData& tangent : traced.reference.tangents) {
    product.inputs.push_back(FromTensorData(tangent).requires_grad_(true));
  }
  for (size_t t = 0; t < needed.tangents.size() && needed.takes_flags; ++t) {
    product.inputs.push_back(at::ones({}, at::TensorOptions(at::kBool)));
  }
  if (needed.draws_random_numbers) {
    at::Tensor state = at::empty({2}, at::TensorOptions(at::kLong));
    state.mutable_data_ptr<int64_t>()[0] = static_cast<int64_t>(options.seed);
    state.mutable_data_ptr<int64_t>()[1] = 0;
    product.inputs.push_back(std::move(state));
  }
  product.function = Product(function, states, options.autocast, std::move(needed));
  return product;
}

absl::Status CheckReadsNoWrittenState(absl::Span<const std::string> written, const Graph& product) {
  absl::flat_hash_set<ValueId> read;
  for (const Node& node : product.nodes()) {
    for (const ValueId operand : TensorOperands(node)) read.insert(operand);
  }
  for (const GraphOutput& output : product.outputs()) read.insert(output.value);
  for (const GraphInput& input : product.inputs()) {
    const bool is_state = input.kind == InputKind::kParameter || input.kind == InputKind::kBuffer;
    if (!is_state || !read.contains(input.value)) continue;
    if (std::find(written.begin(), written.end(), input.name) == written.end()) continue;
    return absl::UnimplementedError(absl::StrCat(
        "'", product.name, "' cannot be compiled: the function writes to '", input.name,
        "', and its gradients depend on the content that this had before. Compile it with CompileOptions::order = 1"));
  }
  return absl::OkStatus();
}

}  // namespace cotan::aot
