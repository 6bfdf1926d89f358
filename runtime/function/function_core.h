// What copies of a Function and the graphs of its results share.
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

// One call on its way through the stages. Its lists keep their memory from call
// to call, so that a call allocates only what outlives it.
struct Call {
  absl::Span<const WrappedVariable> wrapped_arguments;
  std::vector<WrappedResult>* wrapped_outputs = nullptr;  // by output of the caller; null: none was asked for
  std::vector<Variable> flat_arguments;
  absl::Span<const Variable> arguments;
  std::vector<FunctionResult>* outputs = nullptr;  // by output

  bool in_traced_mode = false;                     // whether results require grad as they did when traced
  bool is_recorded = false;                        // whether a node is made
  std::vector<const Variable*> inputs;             // by input
  std::vector<Variable> bases;                     // by base
  std::vector<const Variable*> program_arguments;  // by program argument
  std::vector<const Tensor*> tensors;              // by method input
  Executable* executable = nullptr;
  std::vector<Tensor> results;     // by result
  std::vector<Variable> returned;  // by returned
  std::vector<Variable> storages;  // by returned: what shares the version of all that is in its storage
  std::vector<Variable> hidden_bases;
  std::vector<StridedLayout> new_layouts;  // by new geometry
  std::vector<Variable>
      metadata_mutated_inputs;               // by new geometry: the input as it was, if an output is a view of that
  std::vector<autograd::Edge> moved_leaves;  // as long as views are made of leaves whose gradients have other sizes
  std::vector<Tensor> shown_storages;        // by new storage, if it is an argument's at entry: the input in it
  // Results with elements that share memory: computed elsewhere, then put here.
  std::vector<std::pair<int, Tensor>> folded;
  std::shared_ptr<CompiledBackward> node;

  const DimVector& symbols() const { return executable->plan().symbols; }
  // Lets go of everything that the call does not own.
  void Clear();
};

inline const CallPlan::Input& InputOf(const CallPlan& plan, int input) {
  return plan.inputs[static_cast<size_t>(input)];
}

inline const Variable& InputAt(const Call& call, int input) { return *call.inputs[static_cast<size_t>(input)]; }

// InvalidArgument: "function 'forward': argument 'x' ..."
template <typename... Parts>
absl::Status Refuse(const CallPlan& plan, const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("function '", plan.name, "': ", parts...));
}

// A flat result as one of a caller that knows wrappers.
WrappedResult PlainResult(FunctionResult result);

// Not thread-safe. Does not move: nodes point to it.
class FunctionCore : public std::enable_shared_from_this<FunctionCore> {
 public:
  FunctionCore(std::shared_ptr<SessionCore> session, CallPlan plan);
  FunctionCore(const FunctionCore&) = delete;
  FunctionCore& operator=(const FunctionCore&) = delete;

  SessionCore& session() { return *session_; }
  const CallPlan& plan() const { return plan_; }
  FunctionStats& stats() { return stats_; }

  absl::Status Run(absl::Span<const Variable> arguments, std::vector<FunctionResult>& results);
  absl::Status RunWrapped(absl::Span<const WrappedVariable> arguments, std::vector<WrappedResult>& results);

  // Executables of the forward: with what the backward needs, and without.
  MethodPlans& forward(bool is_recorded) { return is_recorded ? recorded_forward_ : plain_forward_; }
  // Of the backward: when it may overwrite donated values, and when not. Nothing
  // is planned before the first backward.
  MethodPlans& backward(bool donated) { return donated ? donated_backward_ : plain_backward_; }

  // Memory for saved value `index` that a backward has freed, or an undefined
  // tensor.
  Tensor AcquireSavedBuffer(int index);
  // Gives it back; it is kept if nobody else has it.
  void ReleaseSavedBuffer(int index, Tensor memory);

  // Layouts of plan().placements for these symbols, and how many bytes the
  // storage of each owner needs; the same until the symbols change.
  struct OutputLayouts {
    bool valid = false;
    DimVector symbols;
    std::vector<StridedLayout> layouts;  // by placement
    std::vector<int> placement_of;       // by result; -1: none
    std::vector<bool> is_placed;         // by result; false: planned, dense memory
    std::vector<bool> is_folded;         // by result: whether its elements share memory
    std::vector<size_t> storage_bytes;   // by result: what its storage needs, if it has its own
  };
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
