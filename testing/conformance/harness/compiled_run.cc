// SPDX-License-Identifier: Apache-2.0

#include "testing/conformance/harness/compiled_run.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "aot/capture/tensor_data.h"
#include "base/status_macros.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/autograd/engine.h"
#include "runtime/autograd/grad_mode.h"
#include "runtime/autograd/tensor_ops.h"
#include "runtime/execution/program.h"

namespace cotan::conformance {
namespace {

// Returns ToTorch(tensor), but reads nothing beside the elements: ToHost() copies the memory between them, too, which
// may never have been written. A simulated GPU refuses that.
absl::StatusOr<at::Tensor> ElementsOf(const Tensor& tensor, TensorOps& ops) {
  if (&tensor.device() == &HostDevice() || tensor.is_contiguous()) return ToTorch(tensor);
  COTAN_ASSIGN_OR_RETURN(const Tensor dense, ops.Clone(tensor.WithConjNegBits({})));
  return ToTorch(dense.WithConjNegBits(tensor.reading()));
}

absl::StatusOr<TensorFacts> FactsOf(const Variable& variable, TensorOps& ops) {
  TensorFacts facts;
  COTAN_ASSIGN_OR_RETURN(const at::Tensor elements, ElementsOf(variable.tensor(), ops));
  facts.dtype = DTypeText(elements.scalar_type());
  facts.sizes.assign(variable.sizes().begin(), variable.sizes().end());
  facts.strides.assign(variable.layout().strides.begin(), variable.layout().strides.end());
  facts.offset = variable.layout().offset;
  facts.requires_grad = variable.requires_grad();
  facts.is_leaf = variable.is_leaf();
  if (variable.grad_fn().ok()) facts.is_leaf_when_asked = variable.is_leaf();
  facts.is_view = variable.is_view();
  facts.values = ValuesOf(elements);
  return facts;
}

absl::StatusOr<TensorFacts> FactsOf(const FunctionResult& result, TensorOps& ops) {
  if (const Variable* variable = std::get_if<Variable>(&result)) return FactsOf(*variable, ops);
  TensorFacts facts;
  if (const bool* value = std::get_if<bool>(&result)) facts.number = *value ? 1 : 0;
  if (const int64_t* value = std::get_if<int64_t>(&result)) facts.number = static_cast<double>(*value);
  if (const double* value = std::get_if<double>(&result)) facts.number = *value;
  facts.is_none = !facts.number.has_value();
  return facts;
}

// Returns Internal for a tensor that is not on `device`.
absl::Status CheckDevice(const FunctionResult& result, const Device& device) {
  const Variable* variable = std::get_if<Variable>(&result);
  if (variable == nullptr || &variable->tensor().device() == &device) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("a result is not on the session's device: ", variable->tensor().ToString()));
}

void AddPairs(const CompiledRun& run, CallFacts& facts) {
  std::vector<std::pair<std::string, Variable>> named;
  for (size_t i = 0; i < run.in.inputs.size(); ++i) named.emplace_back(absl::StrCat("in", i), run.in.inputs[i]);
  for (size_t i = 0; i < run.outputs.size(); ++i) {
    if (const Variable* output = std::get_if<Variable>(&run.outputs[i])) {
      named.emplace_back(absl::StrCat("out", i), *output);
    }
  }
  for (size_t a = 0; a < named.size(); ++a) {
    for (size_t b = a + 1; b < named.size(); ++b) {
      const Variable& x = named[a].second;
      const Variable& y = named[b].second;
      if (x.is_same(y)) facts.same_object_pairs.emplace_back(named[a].first, named[b].first);
      if (x.tensor().storage() == y.tensor().storage()) {
        facts.storage_alias_pairs.emplace_back(named[a].first, named[b].first);
      }
    }
  }
}

absl::StatusOr<Variable> TermOf(const CompiledRun& run, int term) {
  const size_t i = static_cast<size_t>(term);
  if (i >= run.outputs.size()) return run.in.inputs[i - run.outputs.size()];
  const Variable* output = std::get_if<Variable>(&run.outputs[i]);
  if (output == nullptr) return absl::InvalidArgumentError(absl::StrCat("output ", term, " is not a tensor"));
  return *output;
}

}  // namespace

SessionOptions OnHost() { return {.kernels = &CpuKernels(), .threads = 1}; }

absl::StatusOr<CompiledCase> CompiledCase::Load(std::string artifact, const SessionOptions& options) {
  COTAN_ASSIGN_OR_RETURN(auto program, Program::LoadBytes(std::move(artifact)));
  COTAN_ASSIGN_OR_RETURN(Session session, Session::Create(program, options));
  COTAN_ASSIGN_OR_RETURN(Function function,
                         Function::Create(session, "forward", {.verify_calls = options.device == nullptr}));
  Device& device = options.device == nullptr ? HostDevice() : *options.device;
  return CompiledCase(std::move(session), std::move(function), device);
}

std::optional<PhiloxState> CompiledCase::rng() const {
  const absl::StatusOr<RngState> state = session_.Rng();
  if (!state.ok()) return std::nullopt;
  return PhiloxState{state->seed, state->offset};
}

absl::StatusOr<CompiledRun> CompiledCase::Run(const ConfCase& c) {
  CompiledRun run;
  COTAN_ASSIGN_OR_RETURN(run.in, ToVariables(MakeInputs(c), device_));
  std::vector<uint32_t> versions;
  for (const Variable& input : run.in.inputs) versions.push_back(input.version());
  {
    const GradModeGuard mode(c.grad);
    COTAN_ASSIGN_OR_RETURN(run.outputs, function_.Call(run.in.inputs));
    run.facts.grad_mode_after = GradMode::enabled();
  }
  COTAN_RETURN_IF_ERROR(session_.Synchronize());
  for (const FunctionResult& output : run.outputs) {
    COTAN_ASSIGN_OR_RETURN(run.facts.outputs.emplace_back(), FactsOf(output, session_.ops()));
    COTAN_RETURN_IF_ERROR(CheckDevice(output, device_));
  }
  for (size_t i = 0; i < run.in.inputs.size(); ++i) {
    COTAN_ASSIGN_OR_RETURN(run.facts.inputs_after.emplace_back(), FactsOf(run.in.inputs[i], session_.ops()));
    run.facts.version_bumped.push_back(run.in.inputs[i].version() != versions[i]);
  }
  AddPairs(run, run.facts);
  return run;
}

absl::StatusOr<GradFacts> CompiledCase::Backward(const ConfCase& c, const CompiledRun& run, const EagerRun& eager,
                                                 const std::vector<int>& terms) {
  GradFacts facts;
  facts.loss_terms = terms;
  facts.root_grads.resize(run.in.roots.size());
  std::vector<Variable> variables;
  std::vector<Tensor> tangents;
  for (int term : terms) {
    COTAN_ASSIGN_OR_RETURN(variables.emplace_back(), TermOf(run, term));
    COTAN_ASSIGN_OR_RETURN(tangents.emplace_back(),
                           ToCotan(TangentOf(conformance::TermOf(eager, term), term, c.tangent), device_));
  }
  if (!variables.empty() && !run.in.roots.empty()) {
    COTAN_ASSIGN_OR_RETURN(const std::vector<Tensor> grads,
                           autograd::Grad(variables, run.in.roots, tangents, session_.ops(), {.allow_unused = true}));
    for (size_t i = 0; i < grads.size(); ++i) {
      if (!grads[i].defined()) continue;
      COTAN_ASSIGN_OR_RETURN(const at::Tensor grad, ElementsOf(grads[i], session_.ops()));
      facts.root_grads[i] = {DTypeText(grad.scalar_type()), grad.sizes().vec(), ValuesOf(grad)};
    }
  }
  for (size_t i = 0; c.after_bw && i < run.in.inputs.size(); ++i) {
    COTAN_ASSIGN_OR_RETURN(const at::Tensor elements, ElementsOf(run.in.inputs[i].tensor(), session_.ops()));
    facts.inputs_after_backward.push_back(ValuesOf(elements));
  }
  return facts;
}

}  // namespace cotan::conformance
