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
#include "runtime/execution/program.h"

namespace cotan::conformance {
namespace {

TensorFacts FactsOf(const Variable& variable) {
  TensorFacts facts;
  const at::Tensor elements = ToTorch(variable.tensor());
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

TensorFacts FactsOf(const FunctionResult& result) {
  if (const Variable* variable = std::get_if<Variable>(&result)) return FactsOf(*variable);
  TensorFacts facts;
  if (const bool* value = std::get_if<bool>(&result)) facts.number = *value ? 1 : 0;
  if (const int64_t* value = std::get_if<int64_t>(&result)) facts.number = static_cast<double>(*value);
  if (const double* value = std::get_if<double>(&result)) facts.number = *value;
  facts.is_none = !facts.number.has_value();
  return facts;
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

absl::StatusOr<CompiledCase> CompiledCase::Load(std::string artifact) {
  COTAN_ASSIGN_OR_RETURN(auto program, Program::LoadBytes(std::move(artifact)));
  COTAN_ASSIGN_OR_RETURN(Session session, Session::Create(program, {.kernels = &CpuKernels(), .threads = 1}));
  COTAN_ASSIGN_OR_RETURN(Function function, Function::Create(session, "forward"));
  return CompiledCase(std::move(session), std::move(function));
}

std::optional<PhiloxState> CompiledCase::rng() const {
  const absl::StatusOr<RngState> state = session_.Rng();
  if (!state.ok()) return std::nullopt;
  return PhiloxState{state->seed, state->offset};
}

absl::StatusOr<CompiledRun> CompiledCase::Run(const ConfCase& c) {
  CompiledRun run;
  COTAN_ASSIGN_OR_RETURN(run.in, ToVariables(MakeInputs(c)));
  std::vector<uint32_t> versions;
  for (const Variable& input : run.in.inputs) versions.push_back(input.version());
  {
    const GradModeGuard mode(c.grad);
    COTAN_ASSIGN_OR_RETURN(run.outputs, function_.Call(run.in.inputs));
    run.facts.grad_mode_after = GradMode::enabled();
  }
  for (const FunctionResult& output : run.outputs) run.facts.outputs.push_back(FactsOf(output));
  for (size_t i = 0; i < run.in.inputs.size(); ++i) {
    run.facts.inputs_after.push_back(FactsOf(run.in.inputs[i]));
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
                           ToCotan(TangentOf(conformance::TermOf(eager, term), term, c.tangent)));
  }
  if (!variables.empty() && !run.in.roots.empty()) {
    COTAN_ASSIGN_OR_RETURN(const std::vector<Tensor> grads,
                           autograd::Grad(variables, run.in.roots, tangents, session_.ops(), {.allow_unused = true}));
    for (size_t i = 0; i < grads.size(); ++i) {
      if (!grads[i].defined()) continue;
      const at::Tensor grad = ToTorch(grads[i]);
      facts.root_grads[i] = {DTypeText(grad.scalar_type()), grad.sizes().vec(), ValuesOf(grad)};
    }
  }
  for (size_t i = 0; c.after_bw && i < run.in.inputs.size(); ++i) {
    facts.inputs_after_backward.push_back(ValuesOf(ToTorch(run.in.inputs[i].tensor())));
  }
  return facts;
}

}  // namespace cotan::conformance
