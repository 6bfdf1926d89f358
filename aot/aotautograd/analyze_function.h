// The first pass over a function: runs it once, without a graph to show for it,
// to find out what it does to its inputs.
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

struct AnalyzeFunctionOptions {
  bool keep_input_mutations = true;
  bool grad_enabled = true;  // when the function is called
  uint64_t seed = 0;         // of what the run draws
};

struct FunctionAnalysis {
  ViewAndMutationMetaFields facts;
  std::vector<int> metadata_mutated_inputs, inputs_with_hidden_writes, storage_sources;  // see Analysis
};

// Facts about `function`, whose inputs are `states`, then `inputs` (real CPU
// tensors, which are left as they are). Inputs are what their examples are:
// leaves or not, requiring grad or not, the same tensor or not. Inputs that
// share memory are separate tensors to the function (see BindInputs()). The
// states are static inputs. Whether LibTorch's deterministic algorithms are
// enabled is read before the call.
//
// Leaves the grad mode as it was, and the states as they were before a trace.
// Errors: as Trace() if the function throws; as Analyze().
absl::StatusOr<FunctionAnalysis> AnalyzeFunctionAndMoves(const TensorFunction& function,
                                                         absl::Span<const ModuleState> states,
                                                         absl::Span<const at::Tensor> inputs,
                                                         const AnalyzeFunctionOptions& options);

// The facts alone.
absl::StatusOr<ViewAndMutationMetaFields> AnalyzeFunction(const TensorFunction& function,
                                                          absl::Span<const ModuleState> states,
                                                          absl::Span<const at::Tensor> inputs,
                                                          const AnalyzeFunctionOptions& options);

}  // namespace cotan::aot

#endif  // COTAN_AOT_AOTAUTOGRAD_ANALYZE_FUNCTION_H_
