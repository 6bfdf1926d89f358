// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/forward_trace.h"

#include <c10/util/Exception.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "aot/aotautograd/joint.h"
#include "aot/aotautograd/loss_metadata.h"
#include "aot/aotautograd/synthetic_base_metadata.h"
#include "aot/aotautograd/view_and_mutation.h"
#include "aot/capture/tensor_data.h"
#include "aot/capture/variable_watch.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

using at::TensorBase;

// Watches what a traced function asks of the gradients of `arguments`, the tensors that it gets. A trace has the
// function's part of such a gradient only; the caller's Variable has the sum of all parts. So calls of retain_grad()
// are noted for the runtime, which retains the gradient of that Variable; and in the backward that is traced, a hook
// that returns another tensor than the gradient throws. Hooks that only look at the gradient see the function's part.
class ArgumentWatch final : public VariableWatch {
 public:
  explicit ArgumentWatch(const std::vector<at::Tensor>& arguments)
      : arguments_(arguments), retained_(arguments.size(), false) {}

  // Returns, by argument, whether retain_grad() was called.
  const std::vector<bool>& retained() const { return retained_; }

  Hook OnRegisterHook(const TensorBase& self, Hook hook) const override {
    const int argument = IndexOf(self);
    if (argument < 0) return hook;
    return [hook = std::move(hook), argument](const TensorBase& gradient) {
      TensorBase replaced = hook(gradient);
      TORCH_CHECK_VALUE(!replaced.defined() || replaced.is_same(gradient), "a hook that the function adds to argument ",
                        argument,
                        " replaces its gradient, of which the function computes only a part. Add the hook "
                        "to the Variable that the function is called with (Variable::AddHook()), or to a value that "
                        "the function computes from the argument");
      return replaced;
    };
  }
  void OnRetainGrad(const TensorBase& self) const override {
    const int argument = IndexOf(self);
    if (argument >= 0) retained_[static_cast<size_t>(argument)] = true;
  }

 private:
  // Returns the position of `tensor` among the arguments; -1: it is none.
  int IndexOf(const TensorBase& tensor) const {
    for (size_t i = 0; i < arguments_.size(); ++i) {
      if (arguments_[i].is_same(tensor)) return static_cast<int>(i);
    }
    return -1;
  }

  const std::vector<at::Tensor>& arguments_;
  mutable std::vector<bool> retained_;
};

class ForwardTracer {
 public:
  explicit ForwardTracer(JointTrace& trace) : trace_(trace) {}

  absl::Status Run(const TensorFunction& function);

 private:
  // Calls the function and sets the outputs.
  void Call(const TensorFunction& function);
  // Returns whether a result, or the new content of an argument, is computed from each tensor.
  std::vector<bool> UsedInside(const std::vector<at::Tensor>& tensors) const;
  // Checks that the gradients of `tensors`, arguments with new content and outputs by index, are those that arrive at
  // the caller's variables. InvalidArgument: the function computes other results from one, or adds a hook to it.
  absl::Status CheckRetained(const std::vector<at::Tensor>& tensors, size_t num_arguments) const;
  // Notes in the metadata of which arguments and outputs the function called retain_grad(). Errors of CheckRetained().
  absl::Status MarkRetained();
  // Restricts the metadata to the gradient of the loss (kLoss).
  absl::Status DifferentiateLossOnly();
  void AddOutputs();
  void AddMutatedInput(int argument, MutationType type);

  JointTrace& trace_;
  std::vector<bool> retained_;  // by user input; empty: none
};

// Returns the kind of output by which the program itself gives a user input its new content or storage.
OutputKind InGraphMutationKind(const InputAliasInfo& info) {
  if (!info.mutates_storage_metadata) return OutputKind::kInputUpdate;
  const bool is_new = info.new_storage->owner == NewStorage::Owner::kProgram;
  return is_new ? OutputKind::kInputStorage : OutputKind::kSharedStorage;
}

void ForwardTracer::Call(const TensorFunction& function) {
  const std::vector<at::Tensor>& inputs = trace_.program_arguments.function_inputs;
  if (trace_.options.backward != TraceOptions::Backward::kOutputs) {
    trace_.outputs = function(inputs);
    return;
  }
  const ArgumentWatch watch(inputs);
  trace_.outputs = function(inputs);
  retained_ = watch.retained();
}

std::vector<bool> ForwardTracer::UsedInside(const std::vector<at::Tensor>& tensors) const {
  std::vector<at::Tensor> roots;
  for (const std::vector<at::Tensor>* values : {&trace_.outputs, &trace_.arguments}) {
    std::copy_if(values->begin(), values->end(), std::back_inserter(roots),
                 [](const at::Tensor& value) { return value.defined() && value.requires_grad(); });
  }
  std::vector<bool> used(tensors.size(), false);
  for (const torch::autograd::Node* node : ReachableNodes(roots)) {
    for (const torch::autograd::Edge& edge : node->next_edges()) {
      for (size_t i = 0; i < tensors.size() && edge.is_valid(); ++i) {
        if (!tensors[i].defined() || edge.function.get() != tensors[i].grad_fn().get()) continue;
        used[i] = used[i] || edge.input_nr == tensors[i].output_nr();
      }
    }
  }
  return used;
}

absl::Status ForwardTracer::CheckRetained(const std::vector<at::Tensor>& tensors, size_t num_arguments) const {
  const std::vector<bool> used = UsedInside(tensors);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const bool has_hooks =
        tensors[i].defined() && torch::autograd::impl::get_autograd_meta(tensors[i])->cpp_hooks_list_ != nullptr;
    if (!used[i] && !has_hooks) continue;
    const bool is_argument = i < num_arguments;
    return absl::InvalidArgumentError(absl::StrCat(
        "the function calls retain_grad() of ", is_argument ? "argument " : "its result ",
        is_argument ? i : i - num_arguments, used[i] ? " and computes other results from it" : " and adds a hook to it",
        is_argument ? " after it has written it" : "",
        ", so that the gradient that its caller has is another one. Do this outside of the function"));
  }
  return absl::OkStatus();
}

absl::Status ForwardTracer::MarkRetained() {
  // The variables of a forward that runs again have been marked by its first run.
  if (trace_.options.backward != TraceOptions::Backward::kOutputs || trace_.options.recomputes_forward) {
    return absl::OkStatus();
  }
  ViewAndMutationMetaFields& facts = trace_.first.facts;
  const std::vector<at::Tensor>& arguments = trace_.program_arguments.function_inputs;
  std::vector<at::Tensor> retained(arguments.size() + trace_.outputs.size());  // with a grad_fn of the function
  for (size_t i = 0; i < arguments.size(); ++i) {
    InputAliasInfo& info = facts.input_info[trace_.states.size() + i];
    info.retains_grad = retained_[i] && info.requires_grad;
    const bool keeps_grad_fn = !info.mutates_metadata &&
                               (info.mutations_under_no_grad_or_inference_mode || info.mutations_hidden_from_autograd);
    if (info.retains_grad && !keeps_grad_fn) retained[i] = arguments[i];
  }
  for (size_t i = 0; i < trace_.outputs.size(); ++i) {
    OutputAliasInfo& info = facts.output_info[i];
    const at::Tensor& output = trace_.outputs[i];
    if (!info.is_tensor() || !info.requires_grad || info.output_type == OutputType::kIsInput) continue;
    info.retains_grad = output.requires_grad() && output.retains_grad();
    if (info.retains_grad) retained[arguments.size() + i] = output;
  }
  const auto is_defined = [](const at::Tensor& tensor) { return tensor.defined(); };
  if (std::none_of(retained.begin(), retained.end(), is_defined)) return absl::OkStatus();
  return CheckRetained(retained, arguments.size());
}

absl::Status ForwardTracer::Run(const TensorFunction& function) {
  const std::vector<InputAtEntry> entry = DescribeInputs(trace_.arguments);
  Call(function);
  trace_.has_effects = trace_.AddTokenOutput(/*index=*/0);
  trace_.output_names = NamesFor(trace_.outputs.size(), trace_.options.output_names, "output");
  if (const int loss = trace_.LossOutput(); loss >= 0 && loss < static_cast<int>(trace_.outputs.size())) {
    trace_.output_names[static_cast<size_t>(loss)] = "loss";
  }
  if (trace_.outputs.size() != trace_.first.facts.output_info.size()) {
    return absl::InvalidArgumentError(absl::StrCat("the function returned ", trace_.first.facts.output_info.size(),
                                                   " values in the first run and ", trace_.outputs.size(),
                                                   " in the second; it must return the same number in every call"));
  }
  AnalysisOptions analysis_options;
  analysis_options.keep_input_mutations = trace_.options.keep_input_mutations;
  analysis_options.grad_enabled_at_entry = trace_.options.grad_enabled;
  COTAN_ASSIGN_OR_RETURN(Analysis analysis, Analyze(entry, trace_.arguments, trace_.outputs, analysis_options));
  trace_.intermediate_bases = std::move(analysis.intermediate_bases);
  if (trace_.first.bound.binding.has_bases()) {
    PropagateRequiresGrad(analysis.facts, trace_.facts);
    PropagateRequiresGrad(analysis.facts, trace_.first.facts);
  }
  if (static_cast<int>(trace_.intermediate_bases.size()) != trace_.facts.num_intermediate_bases) {
    return absl::InvalidArgumentError(
        "the results of the function share memory differently in the second run; it must be deterministic");
  }
  if (trace_.options.backward == TraceOptions::Backward::kLoss) COTAN_RETURN_IF_ERROR(DifferentiateLossOnly());
  COTAN_RETURN_IF_ERROR(MarkRetained());
  trace_.derived = DerivedMetadata::Of(trace_.facts);
  AddOutputs();
  return absl::OkStatus();
}

absl::Status ForwardTracer::DifferentiateLossOnly() {
  COTAN_RETURN_IF_ERROR(CheckLoss(trace_.outputs, trace_.LossOutput()));
  for (size_t i = 0; i < trace_.program_arguments.arguments.size(); ++i) {
    const InputAliasInfo& info = trace_.facts.input_info[i];
    const bool is_seen =
        info.mutates_data && !info.mutations_hidden_from_autograd && !info.mutations_under_no_grad_or_inference_mode;
    if (!is_seen || !trace_.program_arguments.arguments[i].requires_grad) continue;
    trace_.recorder.ReportUnsupported(
        absl::StrCat("'", trace_.GraphInputOf(static_cast<int>(i)).name, "'"),
        "it requires a gradient and is written to; in a step with a loss only the loss can have a "
        "gradient");
  }
  for (ViewAndMutationMetaFields* facts : {&trace_.facts, &trace_.first.facts}) {
    RestrictToLoss(trace_.outputs, trace_.LossOutput(), *facts);
  }
  return absl::OkStatus();
}

void ForwardTracer::AddOutputs() {
  for (size_t i = 0; i < trace_.arguments.size(); ++i) {
    const MutationType type = MutationTypeOf(trace_.facts.input_info[i]);
    if (type != MutationType::kNotMutated) AddMutatedInput(static_cast<int>(i), type);
  }
  for (const ForwardReturn& value : trace_.derived.forward_returns) {
    if (value.is_tensor_alias || value.tensor.kind == ForwardTensor::Kind::kMutatedInput) continue;
    const bool is_base = value.tensor.kind == ForwardTensor::Kind::kIntermediateBase;
    if (!is_base && !trace_.facts.output_info[static_cast<size_t>(value.tensor.index)].is_tensor()) continue;
    const at::Tensor& tensor = trace_.TensorOf(value.tensor);
    trace_.recorder.graph().AddOutput(trace_.recorder.ValueOf(tensor),
                                      is_base ? OutputKind::kIntermediateBase : OutputKind::kUserOutput,
                                      value.tensor.index, trace_.NameOf(value.tensor));
    trace_.program.reference.outputs.push_back(ToTensorData(trace_.recorder.RealOf(tensor)));
  }
}

void ForwardTracer::AddMutatedInput(int argument, MutationType type) {
  const InputAliasInfo& info = trace_.facts.input_info[static_cast<size_t>(argument)];
  const GraphInput input = trace_.GraphInputOf(argument);
  const bool is_state = input.kind != InputKind::kUserInput;
  if (info.mutation_inductor_storage_resize) {
    trace_.recorder.ReportUnsupported(absl::StrCat("'", input.name, "'"), "its storage is resized");
  }
  if (is_state && info.mutates_metadata) {
    trace_.recorder.ReportUnsupported(
        absl::StrCat("'", input.name, "'"),
        "the sizes, strides or storage of a parameter or buffer are changed (transpose_, resize_, set_)");
  }
  if (!info.mutates_data && !info.mutates_storage_metadata) return;
  const OutputKind kind =
      is_state || type != MutationType::kMutatedInGraph ? OutputKind::kMutatedInput : InGraphMutationKind(info);
  const at::Tensor tensor = kind == OutputKind::kInputStorage
                                ? StorageContentOf(trace_.arguments[static_cast<size_t>(argument)])
                                : trace_.AtExit(argument);
  const ValueId value = kind == OutputKind::kSharedStorage ? input.value : trace_.recorder.ValueOf(tensor);
  const int graph_input = trace_.program_arguments.arguments[static_cast<size_t>(argument)].graph_input;
  trace_.recorder.graph().AddOutput(value, kind, graph_input, input.name);
  trace_.program.reference.mutated.push_back(ToTensorData(trace_.recorder.RealOf(tensor)));
  const bool is_returned = kind == OutputKind::kMutatedInput && !is_state;
  if (is_returned) trace_.program.reference.outputs.push_back(trace_.program.reference.mutated.back());
}

}  // namespace

absl::Status TraceForward(const TensorFunction& function, JointTrace& trace) {
  return ForwardTracer(trace).Run(function);
}

}  // namespace cotan::aot
