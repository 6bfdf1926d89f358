// SPDX-License-Identifier: Apache-2.0

// Computes the mutation and alias metadata of a traced function from the state of its functional
// tensors (torch/_functorch/_aot_autograd/collect_metadata_analysis.py,
// run_functionalized_fw_and_collect_metadata).
//
//   const std::vector<InputAtEntry> entry = DescribeInputs(inputs);
//   std::vector<at::Tensor> outputs = function(inputs);
//   COTAN_ASSIGN_OR_RETURN(Analysis analysis, Analyze(entry, inputs, outputs, options));
#ifndef COTAN_AOT_AOTAUTOGRAD_VIEW_AND_MUTATION_H_
#define COTAN_AOT_AOTAUTOGRAD_VIEW_AND_MUTATION_H_

#include <ATen/core/Tensor.h>

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "aot/aotautograd/input_mutations.h"
#include "serialization/metadata/view_and_mutation_facts.h"

namespace cotan::aot {

// Options of Analyze().
struct AnalysisOptions {
  // If true, the program writes the new content of a mutated input itself where this is
  // unobservable.
  bool keep_input_mutations = true;
  // Indexes of inputs at fixed addresses, ascending (static_input_indices).
  std::vector<int> static_inputs = {};
  // Grad mode when the function was called. Its value when Analyze() runs is the grad mode at exit.
  bool grad_enabled_at_entry = true;
};

// Result of Analyze(). Indexes count the inputs of the function that ran.
struct Analysis {
  // Metadata in terms of the function's inputs and outputs. Fields that depend on the joint graph
  // or its partition are not set: indices_of_inputs_to_detach (see InputsToDetach()),
  // backward_mutated_inputs, saved values.
  ViewAndMutationMetaFields facts;
  // Functional tensors, by index of the intermediate base.
  std::vector<at::Tensor> intermediate_bases;
  // Inputs whose metadata or storage was mutated, even if restored at exit; ascending.
  std::vector<int> metadata_mutated_inputs;
  // Inputs with writes to elements outside their final view, after a metadata mutation or `set_`;
  // ascending.
  std::vector<int> inputs_with_hidden_writes;
  // For each input: the input whose storage at entry `set_` gave it. -1: it keeps its own storage,
  // or has one that is not of an input.
  std::vector<int> storage_sources;
};

// Returns the analysis of a function that ran on `inputs`, functional tensors described by `entry`,
// and returned `outputs`; an undefined output is None. Must run before a backward pass, under the
// dispatch keys of the trace. Ops that it runs are not recorded.
// InvalidArgument: the function resizes or replaces the storage of an input (`set_`) that has other
// mutations which cannot be kept in the graph.
absl::StatusOr<Analysis> Analyze(absl::Span<const InputAtEntry> entry, absl::Span<const at::Tensor> inputs,
                                 absl::Span<const at::Tensor> outputs, const AnalysisOptions& options);

}  // namespace cotan::aot

#endif  // COTAN_AOT_AOTAUTOGRAD_VIEW_AND_MUTATION_H_
