// SPDX-License-Identifier: Apache-2.0

// BackwardRun: one run of the engine. For this package and runtime/compiled_autograd.
#ifndef COTAN_RUNTIME_AUTOGRAD_BACKWARD_RUN_H_
#define COTAN_RUNTIME_AUTOGRAD_BACKWARD_RUN_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/autograd/graph_task.h"
#include "runtime/autograd/hooks.h"
#include "runtime/autograd/node.h"
#include "runtime/autograd/tensor_ops.h"
#include "runtime/tensor/tensor.h"

namespace cotan::autograd {

// Returns `gradient` summed over broadcast dimensions and cast to `type` (validate_outputs() in
// torch/csrc/autograd/engine.cpp). A gradient of a value without dimensions is moved between host and device.
// InvalidArgument: the device or the sizes do not match.
absl::StatusOr<Tensor> Conform(TensorOps& ops, Tensor gradient, const GradientType& type);
// Returns the gradient of a value without dimensions on the device of the value. Errors of the copy.
absl::StatusOr<Tensor> MoveNumber(Tensor gradient, const GradientType& type);

// The gradients of a running backward, with the steps of a node: hooks, Node::Apply(), checks of its results. The
// object is the current one of its thread (Current()) while it exists; those of recursive backwards nest.
class BackwardRun {
 public:
  BackwardRun(TensorOps& ops, bool retain_graph);
  ~BackwardRun();
  BackwardRun(const BackwardRun&) = delete;
  BackwardRun& operator=(const BackwardRun&) = delete;

  // Returns the innermost running backward of this thread; null outside of backwards.
  static BackwardRun* Current();
  // Returns a number that no other backward of the process has.
  uint64_t id() const { return id_; }
  bool is_nested() const { return outer_ != nullptr; }

  GraphTask& task() { return task_; }
  TensorOps& ops() const { return ops_; }
  bool retains_graph() const { return retain_graph_; }

  // Adds `gradient` at the input that `edge` leads to, as root `index`.
  absl::Status AddRoot(const Edge& edge, Tensor gradient, int index);
  // Makes the gradient along `edge` result `index` of captured(). Nodes that lead to no capture do not run.
  void Capture(const Edge& edge, int index);
  std::vector<Tensor>& captured() { return captured_; }

  // Calls `nodes`, which runs the nodes, then the callbacks that were queued and those that they queue. Each
  // kNestedOnOneStack-th nested backward is run by another thread with the grad mode, the hooks and the executor of
  // this one, so that backwards may nest to any depth (Engine::execute_with_graph_task() in
  // torch/csrc/autograd/engine.cpp). ResourceExhausted: that thread cannot be created.
  absl::Status Run(absl::FunctionRef<absl::Status()> nodes);
  // Runs all nodes one by one.
  absl::Status Walk();
  void QueueCallback(std::function<absl::Status()> callback) { callbacks_.push_back(std::move(callback)); }

  // --- Steps of one node ---

  // Returns the gradients that have arrived at the node, one for each input.
  Gradients& Incoming(const GraphTask::Visit& visit);
  // Runs hooks, captures and node, and adds the results to the incoming gradients of the nodes that the edges lead to.
  absl::Status RunVisit(GraphTask::Visit& visit);
  // Runs the gradient hooks and retain hooks.
  absl::Status RunGradientHooks(GraphTask::Visit& visit);
  // As RunVisit(), for a node whose gradient hooks have run.
  absl::Status RunAfterHooks(GraphTask::Visit& visit) { return RunNode(visit, std::nullopt); }
  // As RunAfterHooks(), for a node that has been described (Node::Describe()) and had neither pre- nor post-hooks then.
  // Post-hooks that an unpack hook has added since run without incoming gradients, as those that Apply() adds.
  // `described_inputs`: of BackwardContext.
  absl::Status RunDescribed(GraphTask::Visit& visit, absl::Span<const Tensor> described_inputs) {
    return RunNode(visit, described_inputs);
  }
  // Returns whether the gradient along each edge of the node is used.
  absl::InlinedVector<bool, 8> NeededEdges(const Node& node) const;

 private:
  static constexpr int kNestedOnOneStack = 60;

  absl::Status RunCallbacks();
  // `described_inputs`: of a node that has been described.
  absl::Status RunNode(GraphTask::Visit& visit, std::optional<absl::Span<const Tensor>> described_inputs);
  absl::StatusOr<Gradients> Apply(GraphTask::Visit& visit, std::optional<absl::Span<const Tensor>> described_inputs);
  absl::Status CheckResults(const Node& node, absl::Span<const bool> needed, Gradients& results) const;
  absl::Status PassOn(const Node& node, Gradients results);

  TensorOps& ops_;
  const bool retain_graph_;
  const uint64_t id_;
  BackwardRun* const outer_;
  const int depth_;  // number of backwards around this one
  GraphTask task_;
  std::vector<Gradients> incoming_;  // by visit; empty until a gradient arrives
  std::vector<Tensor> captured_;
  std::deque<std::function<absl::Status()>> callbacks_;
};

// Restricts the backward, which has its roots, to what the gradients of `inputs` need; these accumulate into grad(),
// non-leaves too. On errors no input has changed. FailedPrecondition: an input does not require grad. Unimplemented: as
// GraphTask::Prepare().
absl::Status AccumulateOnlyInto(absl::Span<const Variable> inputs, GraphTask& task);

// InvalidArgument: two gradients of one value, a leaf that takes any gradient (Variable::SetGradDType()), differ in
// dtype.
absl::Status CheckEqualDTypes(const Tensor& sum, const Tensor& gradient);

// Result of Grad() for an input that no root depends on.
enum class UnusedInputs : uint8_t { kRefused, kUndefined, kZeros };
// Returns what the options of Grad() ask for. InvalidArgument: zeros are asked for, and unused inputs are not allowed.
absl::StatusOr<UnusedInputs> UnusedInputsOf(std::optional<bool> allow_unused, bool materialize_grads);
// Returns the gradient of input `index`, which is unused. FailedPrecondition: such inputs are refused.
absl::StatusOr<Tensor> GradientOfUnused(UnusedInputs unused, const GradientType& type, TensorOps& ops, size_t index);
// Returns zeros of this type.
absl::StatusOr<Tensor> ZerosOf(TensorOps& ops, const GradientType& type);

// Returns `status` with the name of the node in front of its message.
absl::Status InBackwardOf(const Node& node, const absl::Status& status);

// Runs whole backwards in place of BackwardRun::Walk().
class BackwardExecutor {
 public:
  virtual ~BackwardExecutor() = default;
  virtual absl::Status Execute(BackwardRun& run) = 0;

  // The executor of this thread; null: backwards are walked. Must outlive its use.
  static BackwardExecutor* Current();
  static void SetCurrent(BackwardExecutor* executor);
};

}  // namespace cotan::autograd

#endif  // COTAN_RUNTIME_AUTOGRAD_BACKWARD_RUN_H_
