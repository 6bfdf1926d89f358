// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/analyze_function.h"

#include <ATen/Context.h>

#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "aot/aotautograd/view_and_mutation.h"
#include "aot/capture/effects.h"
#include "aot/capture/inputs.h"
#include "aot/capture/real_scope.h"
#include "aot/capture/recorder.h"
#include "aot/decompositions/trace_scope.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

// Installs the proxies of states in a recorder, and restores the states when it is destroyed.
class StateProxies {
 public:
  StateProxies(absl::Span<const ModuleState> states, Recorder& recorder) : states_(states) {
    InstallStateProxies(states, recorder);
  }
  ~StateProxies() { RestoreStates(states_); }
  StateProxies(const StateProxies&) = delete;
  StateProxies& operator=(const StateProxies&) = delete;

 private:
  absl::Span<const ModuleState> states_;
};

// Returns functional tensors like the examples; equal tensors give one input.
std::vector<at::Tensor> UserInputs(absl::Span<const at::Tensor> examples, Recorder& recorder) {
  std::vector<at::Tensor> inputs;
  for (size_t i = 0; i < examples.size(); ++i) {
    at::Tensor input;
    for (size_t j = 0; j < i && !input.defined(); ++j) {
      if (examples[j].is_same(examples[i])) input = inputs[j];
    }
    if (!input.defined()) input = AddInputLike(examples[i], recorder, static_cast<int>(i), absl::StrCat("input.", i));
    inputs.push_back(std::move(input));
  }
  return inputs;
}

// Calls the function and analyzes it. Returns Unimplemented if either throws after an unsupported
// construct was reported: the exception may follow from it.
absl::StatusOr<Analysis> CallAndAnalyze(const TensorFunction& function, const std::vector<at::Tensor>& user_inputs,
                                        absl::Span<const at::Tensor> inputs, const AnalysisOptions& options,
                                        const Recorder& recorder) {
  const std::vector<InputAtEntry> entry = DescribeInputs(inputs);
  try {
    return Analyze(entry, inputs, function(user_inputs), options);
  } catch (...) {
    if (recorder.diagnostics().empty()) throw;
    return absl::UnimplementedError(absl::StrJoin(recorder.diagnostics(), "\n  "));
  }
}

absl::StatusOr<FunctionAnalysis> Run(const TensorFunction& function, absl::Span<const ModuleState> states,
                                     absl::Span<const at::Tensor> examples, const AnalyzeFunctionOptions& options) {
  const TraceScope scope(options.grad_enabled);
  Recorder recorder;
  const RecordingScope recording(recorder);
  const StateProxies installed(states, recorder);
  InstallRngState(options.seed, recorder);
  InstallEffectToken(recorder, /*index=*/0);
  const std::vector<at::Tensor> user_inputs = UserInputs(examples, recorder);
  std::vector<at::Tensor> inputs;
  for (const ModuleState& state : states) inputs.push_back(state.tensor);
  inputs.insert(inputs.end(), user_inputs.begin(), user_inputs.end());

  const bool deterministic = at::globalContext().deterministicAlgorithms();
  AnalysisOptions analysis_options;
  analysis_options.keep_input_mutations = options.keep_input_mutations;
  analysis_options.grad_enabled_at_entry = options.grad_enabled;
  analysis_options.static_inputs.resize(states.size());
  std::iota(analysis_options.static_inputs.begin(), analysis_options.static_inputs.end(), 0);
  absl::StatusOr<Analysis> analysis = CallAndAnalyze(function, user_inputs, inputs, analysis_options, recorder);
  recorder.autograd_views().ReleaseHistories();
  COTAN_RETURN_IF_ERROR(analysis.status());
  analysis->facts.deterministic = deterministic;
  return FunctionAnalysis{std::move(analysis->facts), std::move(analysis->metadata_mutated_inputs),
                          std::move(analysis->inputs_with_hidden_writes), std::move(analysis->storage_sources)};
}

}  // namespace

absl::StatusOr<FunctionAnalysis> CollectMetadata(const TensorFunction& function, absl::Span<const ModuleState> states,
                                                 absl::Span<const at::Tensor> inputs,
                                                 const AnalyzeFunctionOptions& options) {
  try {
    return Run(function, states, inputs, options);
  } catch (...) {
    return StatusFromCurrentException("analyzing the function");
  }
}

absl::StatusOr<ViewAndMutationMetaFields> AnalyzeFunction(const TensorFunction& function,
                                                          absl::Span<const ModuleState> states,
                                                          absl::Span<const at::Tensor> inputs,
                                                          const AnalyzeFunctionOptions& options) {
  COTAN_ASSIGN_OR_RETURN(FunctionAnalysis analysis, CollectMetadata(function, states, inputs, options));
  return std::move(analysis.facts);
}

}  // namespace cotan::aot
