// SPDX-License-Identifier: Apache-2.0

// Analyzes a function in a first run, whose graph is dropped: it returns what the function does to
// its inputs and what its outputs alias
// (torch/_functorch/_aot_autograd/collect_metadata_analysis.py,
// run_functionalized_fw_and_collect_metadata).
#ifndef COTAN_AOT_AOTAUTOGRAD_ANALYZE_FUNCTION_H_
#define COTAN_AOT_AOTAUTOGRAD_ANALYZE_FUNCTION_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "aot/capture/traced_function.h"
#include "serialization/metadata/view_and_mutation_facts.h"

namespace cotan::aot {

// Options of AnalyzeFunction().
struct AnalyzeFunctionOptions {
  bool keep_input_mutations = true;  // see TraceOptions
  bool grad_enabled = true;          // grad mode at entry of the function
  uint64_t seed = 0;                 // of the random numbers that the run draws
};

// Result of the first run. Indexes count the states, then the inputs.
struct FunctionAnalysis {
  ViewAndMutationMetaFields facts;  // AOTAutograd's ViewAndMutationMeta
  std::vector<int> metadata_mutated_inputs, inputs_with_hidden_writes, storage_sources;  // see Analysis
};

// Returns the metadata of `function`, and the inputs whose geometry or storage it changes. Its
// inputs are `states`, then `inputs`: real CPU tensors, which are not written. Leaf, requires_grad
// and tensor identity of the inputs are those of the examples. Inputs that share memory are
// separate tensors to the function (see BindInputs()). The states are static inputs. Whether
// LibTorch's deterministic algorithms are enabled is recorded as of the call.
//
// Restores the grad mode and the states.
// Unimplemented: the function or its analysis throws after an unsupported construct was found. InvalidArgument and
// others: the function throws, see StatusFromCurrentException(); the errors of Analyze().
absl::StatusOr<FunctionAnalysis> CollectMetadata(const TensorFunction& function, absl::Span<const ModuleState> states,
                                                 absl::Span<const at::Tensor> inputs,
                                                 const AnalyzeFunctionOptions& options);

// Returns CollectMetadata().facts; the errors are the same.
absl::StatusOr<ViewAndMutationMetaFields> AnalyzeFunction(const TensorFunction& function,
                                                          absl::Span<const ModuleState> states,
                                                          absl::Span<const at::Tensor> inputs,
                                                          const AnalyzeFunctionOptions& options);

}  // namespace cotan::aot

#endif  // COTAN_AOT_AOTAUTOGRAD_ANALYZE_FUNCTION_H_
