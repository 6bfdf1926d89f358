// SPDX-License-Identifier: Apache-2.0

// CallContext: what the stages of one call hand to each other.
#ifndef COTAN_RUNTIME_FUNCTION_CORE_CALL_CONTEXT_H_
#define COTAN_RUNTIME_FUNCTION_CORE_CALL_CONTEXT_H_

#include <memory>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "base/layout.h"
#include "runtime/autograd/node.h"
#include "runtime/autograd/variable.h"
#include "runtime/execution/executable.h"
#include "runtime/function/core/compiled_backward.h"
#include "runtime/function/core/function_core.h"
#include "runtime/function/core/function_metadata.h"
#include "runtime/function/core/function_result.h"
#include "runtime/tensor/tensor.h"

namespace cotan {

// The state of one call that more than one stage reads. "by x" names the index space of a vector
// (function_metadata.h). The vectors keep their memory between calls, so that a call allocates only what outlives it.
struct CallContext {
  // Sizes the vectors for the function of `core`, which must outlive the context.
  explicit CallContext(FunctionCore& core);
  CallContext(const CallContext&) = delete;
  CallContext& operator=(const CallContext&) = delete;

  FunctionCore& core;
  const FunctionMetadata& function;  // core.metadata()

  // Arguments and results of the caller.
  absl::Span<const WrappedVariable> wrapped_arguments;
  std::vector<WrappedResult>* wrapped_outputs = nullptr;  // by user output; null: called by Call()
  absl::Span<const Variable> arguments;
  std::vector<FunctionResult>* outputs = nullptr;  // by output

  std::vector<Variable> flat_arguments;  // `arguments`, if the caller's are of wrapper types
  bool in_traced_mode = false;          // the grad mode is that of tracing, so that results require grad as when traced
  bool is_recorded = false;             // a CompiledBackward node is created
  std::vector<const Variable*> inputs;  // by input
  std::vector<Variable> bases;          // by base
  std::vector<const Variable*> program_arguments;  // by program argument

  // Written by the forward.
  std::vector<const Tensor*> tensors;  // by method input
  Executable* executable = nullptr;
  std::vector<Tensor> results;             // by result
  std::vector<StridedLayout> new_layouts;  // by metadata mutation
  // By metadata mutation: of an input that grows (resize_()), its new tensor, not yet filled. Allocated before the
  // program runs, so that a failure changes nothing.
  std::vector<Tensor> grown_inputs;
  std::vector<Tensor> shown_storages;  // by storage mutation: the input in the storage of another argument

  std::shared_ptr<CompiledBackward> node;
  std::optional<SavedPrimals> primals;  // of a recorded call of a function with a differentiable backward
  std::vector<Variable> returned;       // by returned value

  // Written by input mutations.
  // By metadata mutation: an alias with the old metadata, if an output is a view of it.
  std::vector<Variable> metadata_mutated_inputs;
  // Keep the AccumulateGrad nodes of leaves with other gradient sizes alive.
  std::vector<autograd::Edge> mutated_leaf_edges;

  const DimVector& symbols() const { return executable->plan().symbols; }
  const Variable& input(int index) const { return *inputs[static_cast<size_t>(index)]; }
  const Variable& argument(int index) const { return *program_arguments[static_cast<size_t>(index)]; }
  Tensor& result(int index) { return results[static_cast<size_t>(index)]; }
  // Returns whether autograd tracks the write. A write to a leaf that requires grad is untracked if a leaf was traced,
  // for a tracked one is refused while tracing.
  bool IsTracked(const DataMutation& write) const;
  // Returns whether autograd tracks the metadata mutation. Gradients may be disabled now and enabled by the traced
  // function.
  bool IsTracked(const MetadataMutation& change) const;
  // Drops all references to tensors, variables and nodes.
  void Clear();
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_FUNCTION_CORE_CALL_CONTEXT_H_
