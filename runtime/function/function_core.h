// SPDX-License-Identifier: Apache-2.0

// FunctionCore: the state that copies of a Function and the backward nodes of its results share. Call: the state of one
// call, passed through the stages of the call plan.
#ifndef COTAN_RUNTIME_FUNCTION_FUNCTION_CORE_H_
#define COTAN_RUNTIME_FUNCTION_FUNCTION_CORE_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/layout.h"
#include "runtime/autograd/variable.h"
#include "runtime/function/call_plan.h"
#include "runtime/function/compiled_backward.h"
#include "runtime/function/function.h"
#include "runtime/session/method_plans.h"
#include "runtime/session/session_core.h"
#include "runtime/tensor/tensor.h"

namespace cotan {

// The state of one call. "by x" names the index space of a vector (call_plan.h). The vectors keep their memory between
// calls, so that a call allocates only what outlives it.
struct Call {
  absl::Span<const WrappedVariable> wrapped_arguments;
  std::vector<WrappedResult>* wrapped_outputs = nullptr;  // by user output; null: called by Call()
  std::vector<Variable> flat_arguments;
  absl::Span<const Variable> arguments;
  std::vector<FunctionResult>* outputs = nullptr;  // by output

  bool in_traced_mode = false;          // the grad mode is that of tracing, so that results require grad as when traced
  bool is_recorded = false;             // a CompiledBackward node is created
  std::vector<const Variable*> inputs;  // by input
  std::vector<Variable> bases;          // by base
  std::vector<const Variable*> program_arguments;  // by program argument
  std::vector<const Tensor*> tensors;              // by method input
  Executable* executable = nullptr;
  std::vector<Tensor> results;     // by result
  std::vector<Variable> returned;  // by returned
  std::vector<Variable> storages;  // by returned: a variable that holds the version counter of its storage
  std::vector<Variable> hidden_bases;
  std::vector<StridedLayout> new_layouts;  // by new geometry
  std::vector<Variable>
      metadata_mutated_inputs;  // by new geometry: an alias with the old metadata, if an output is a view of it
  std::vector<autograd::Edge>
      mutated_leaf_edges;              // keep the AccumulateGrad nodes of leaves with other gradient sizes alive
  std::vector<Tensor> shown_storages;  // by new storage: the input in the storage of another argument
  // Results whose elements overlap: the result and the tensor that its dense value is copied to.
  std::vector<std::pair<int, Tensor>> overlapping_results;
  std::shared_ptr<CompiledBackward> node;

  const DimVector& symbols() const { return executable->plan().symbols; }
  // Drops all references to tensors, variables and nodes.
  void Clear();
};

inline const CallPlan::Input& InputOf(const CallPlan& plan, int input) {
  return plan.inputs[static_cast<size_t>(input)];
}

inline const Variable& InputAt(const Call& call, int input) { return *call.inputs[static_cast<size_t>(input)]; }

// Returns InvalidArgument: "function 'forward': " and `parts`.
template <typename... Parts>
absl::Status Refuse(const CallPlan& plan, const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("function '", plan.name, "': ", parts...));
}

// Converts a result of Call() to one of CallWrapped().
WrappedResult PlainResult(FunctionResult result);

// Runs the stages of a call plan, and owns the method plans of the forward and the backward and the recycled buffers of
// saved values. Not thread-safe. Not movable: the backward nodes hold a reference to it.
class FunctionCore : public std::enable_shared_from_this<FunctionCore> {
 public:
  FunctionCore(std::shared_ptr<SessionCore> session, CallPlan plan);
  FunctionCore(const FunctionCore&) = delete;
  FunctionCore& operator=(const FunctionCore&) = delete;

  SessionCore& session() { return *session_; }
  const CallPlan& plan() const { return plan_; }
  FunctionStats& stats() { return stats_; }

  // Run the stages for Call() and CallWrapped(). Errors: as of these.
  absl::Status Run(absl::Span<const Variable> arguments, std::vector<FunctionResult>& results);
  absl::Status RunWrapped(absl::Span<const WrappedVariable> arguments, std::vector<WrappedResult>& results);

  // Returns the plans of the forward: with saved values if `is_recorded`, else without.
  MethodPlans& forward(bool is_recorded) { return is_recorded ? recorded_forward_ : plain_forward_; }
  // Returns the plans of the backward, which may overwrite the donated saved values if `donated`. Nothing is planned
  // before the first backward.
  MethodPlans& backward(bool donated) { return donated ? donated_backward_ : plain_backward_; }

  // Returns a buffer for saved value `index` that a previous backward released, or an undefined tensor if there is
  // none.
  Tensor AcquireSavedBuffer(int index);
  // Returns a buffer to the pool. It is dropped if another tensor shares its storage.
  void ReleaseSavedBuffer(int index, Tensor memory);

  // The layouts of plan().placements for the values `symbols` of the dynamic dimensions.
  struct OutputLayouts {
    bool valid = false;
    DimVector symbols;
    std::vector<StridedLayout> layouts;  // by placement
    std::vector<int> placement_of;       // by result; -1: none
    std::vector<bool> is_placed;         // by result; false: a dense tensor as planned
    std::vector<bool> is_overlapping;    // by result: elements overlap (an expanded output)
    std::vector<size_t> storage_bytes;   // by result: size of its storage, if it owns one
  };
  // Returns the output layouts for plan.symbols; computed again only if the symbols differ from those of the last call.
  // Valid until the next call. InvalidArgument: the sizes contradict the plan's.
  absl::StatusOr<const OutputLayouts*> OutputLayoutsFor(const Plan& plan);

 private:
  const std::shared_ptr<SessionCore> session_;
  const CallPlan plan_;
  MethodPlans recorded_forward_;
  MethodPlans plain_forward_;
  MethodPlans plain_backward_;
  MethodPlans donated_backward_;
  absl::Status RunStages();

  Call call_;
  std::vector<FunctionResult> flat_results_;
  OutputLayouts places_;
  std::vector<std::vector<Tensor>> freed_;  // by saved value
  FunctionStats stats_;
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_FUNCTION_FUNCTION_CORE_H_
