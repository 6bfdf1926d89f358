// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/backward_run.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runtime/autograd/grad_mode.h"
#include "runtime/autograd/saved_tensor_hooks.h"
#include "runtime/autograd/variable.h"
#include "runtime/autograd/worker_thread.h"

namespace cotan::autograd {
namespace {

thread_local BackwardRun* current_run = nullptr;
thread_local BackwardExecutor* current_executor = nullptr;

uint64_t NextRunId() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

// Adds `gradient` to `sum`, in place if no other tensor shares the memory of `sum` (InputBuffer::accumulate() in
// LibTorch).
absl::Status AddUp(TensorOps& ops, Tensor gradient, Tensor& sum) {
  if (!sum.defined()) {
    sum = std::move(gradient);
    return absl::OkStatus();
  }
  COTAN_RETURN_IF_ERROR(CheckEqualDTypes(sum, gradient));
  if (sum.storage().use_count() == 1 && IsDenseNonOverlapping(sum.layout())) return ops.AddTo(gradient, sum);
  COTAN_ASSIGN_OR_RETURN(sum, ops.Add(sum, gradient));
  return absl::OkStatus();
}

// Copies the gradients that the visit captures.
void KeepCaptures(const GraphTask::Visit& visit, const Gradients& incoming, std::vector<Tensor>& captured) {
  for (const auto& [input, index] : visit.captures) {
    captured[static_cast<size_t>(index)] = incoming[static_cast<size_t>(input)];
  }
}

}  // namespace

absl::Status CheckEqualDTypes(const Tensor& sum, const Tensor& gradient) {
  if (gradient.dtype() == sum.dtype()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("gradients ", sum.ToString(), " and ", gradient.ToString(),
                   " of one leaf, which keeps their dtype, cannot be added: give it a dtype (SetGradDType())"));
}

absl::StatusOr<Tensor> MoveNumber(Tensor gradient, const GradientType& type) {
  if (&gradient.device() == type.device) return gradient;
  return type.device->type() == DeviceType::kCpu ? gradient.ToHost() : gradient.ToDevice(*type.device);
}

absl::StatusOr<Tensor> Conform(TensorOps& ops, Tensor gradient, const GradientType& type) {
  const bool is_moved_number = type.sizes.empty() && gradient.device().type() != type.device->type();
  if (&gradient.device() != type.device && !is_moved_number) {
    return absl::InvalidArgumentError(absl::StrCat("a gradient ", gradient.ToString(), " of a value ", type.ToString(),
                                                   " is on another device than the value"));
  }
  const DType dtype = type.dtype == DType::kUndefined ? gradient.dtype() : type.dtype;
  const bool fits = gradient.sizes() == absl::MakeConstSpan(type.sizes) && gradient.dtype() == dtype;
  if (!fits && ops.device().type() != gradient.device().type()) {
    COTAN_ASSIGN_OR_RETURN(gradient, gradient.ToDevice(ops.device()));
  }
  if (gradient.sizes() != absl::MakeConstSpan(type.sizes)) {
    absl::StatusOr<Tensor> sum = ops.SumTo(gradient, type.sizes);
    if (absl::IsInvalidArgument(sum.status())) {
      return absl::InvalidArgumentError(absl::StrCat("invalid gradient: got ", gradient.ToString(),
                                                     " but expected shape compatible with ", type.ToString()));
    }
    COTAN_RETURN_IF_ERROR(sum.status());
    gradient = *std::move(sum);
  }
  COTAN_ASSIGN_OR_RETURN(gradient, ops.Cast(gradient, dtype));
  return MoveNumber(std::move(gradient), type);
}

absl::Status AccumulateOnlyInto(absl::Span<const Variable> inputs, GraphTask& task) {
  task.RestrictToNeeded();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined() || !inputs[i].requires_grad()) {
      return absl::FailedPreconditionError(absl::StrCat("input ", i, " does not require grad"));
    }
    COTAN_ASSIGN_OR_RETURN(const Edge edge, inputs[i].GradientEdge());
    if (edge.defined()) task.Require(edge);
  }
  COTAN_RETURN_IF_ERROR(task.Prepare());  // a backward that is refused retains nothing
  for (Variable input : inputs) COTAN_RETURN_IF_ERROR(input.RetainGrad());
  return absl::OkStatus();
}

absl::StatusOr<UnusedInputs> UnusedInputsOf(std::optional<bool> allow_unused, bool materialize_grads) {
  if (!materialize_grads) return allow_unused.value_or(false) ? UnusedInputs::kUndefined : UnusedInputs::kRefused;
  if (allow_unused.value_or(true)) return UnusedInputs::kZeros;
  return absl::InvalidArgumentError(
      "allow_unused is false, but materialize_grads gives unused inputs zeros: expected allow_unused to be true or "
      "unset if materialize_grads is true");
}

absl::StatusOr<Tensor> GradientOfUnused(UnusedInputs unused, const GradientType& type, TensorOps& ops, size_t index) {
  if (unused == UnusedInputs::kZeros) return ZerosOf(ops, type);
  if (unused == UnusedInputs::kUndefined) return Tensor();
  return absl::FailedPreconditionError(absl::StrCat(
      "input ", index, " appears to not have been used in the graph; set allow_unused if that is intended"));
}

absl::StatusOr<Tensor> ZerosOf(TensorOps& ops, const GradientType& type) {
  const bool is_beside = type.device != &ops.device() && type.device->type() == DeviceType::kCpu;
  return is_beside ? Tensor::Zeros(type.dtype, type.sizes) : ops.Zeros(type.dtype, type.sizes);
}

absl::Status InBackwardOf(const Node& node, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat("in the backward of ", node.name(), ": ", status.message()));
}

BackwardExecutor* BackwardExecutor::Current() { return current_executor; }
void BackwardExecutor::SetCurrent(BackwardExecutor* executor) { current_executor = executor; }

BackwardRun::BackwardRun(TensorOps& ops, bool retain_graph)
    : ops_(ops),
      retain_graph_(retain_graph),
      id_(NextRunId()),
      outer_(std::exchange(current_run, this)),
      depth_(outer_ == nullptr ? 0 : outer_->depth_ + 1) {}

BackwardRun::~BackwardRun() { current_run = outer_; }

BackwardRun* BackwardRun::Current() { return current_run; }

Gradients& BackwardRun::Incoming(const GraphTask::Visit& visit) {
  const auto index = static_cast<size_t>(visit.index);
  if (incoming_.size() <= index) incoming_.resize(std::max(index + 1, static_cast<size_t>(task_.num_visits())));
  Gradients& gradients = incoming_[index];
  if (gradients.empty()) gradients.resize(static_cast<size_t>(visit.node->num_inputs()));
  return gradients;
}

absl::Status BackwardRun::AddRoot(const Edge& edge, Tensor gradient, int index) {
  absl::StatusOr<Tensor> conforming = Conform(ops_, std::move(gradient), edge.node->input(edge.input));
  if (!conforming.ok()) {
    return absl::Status(conforming.status().code(), absl::StrCat("root ", index, ": ", conforming.status().message()));
  }
  const GraphTask::Visit& visit = task_.AddRoot(edge.node, edge.input);
  return AddUp(ops_, *std::move(conforming), Incoming(visit)[static_cast<size_t>(edge.input)]);
}

void BackwardRun::Capture(const Edge& edge, int index) {
  task_.RestrictToNeeded();
  task_.Capture(edge, index);
  captured_.resize(std::max(captured_.size(), static_cast<size_t>(index) + 1));
}

absl::Status BackwardRun::Run(absl::FunctionRef<absl::Status()> nodes) {
  const auto run = [this, nodes]() -> absl::Status {
    COTAN_RETURN_IF_ERROR(nodes());
    return RunCallbacks();
  };
  if (depth_ == 0 || depth_ % kNestedOnOneStack != 0) return run();
  const bool records = GradMode::enabled();
  const SavedTensorHooksScope* const hooks = SavedTensorHooksScope::Innermost();
  BackwardExecutor* const executor = current_executor;
  return CallOnWorker([&] {
    current_run = this;
    current_executor = executor;
    GradMode::set_enabled(records);
    SavedTensorHooksScope::SetInnermost(hooks);
    absl::Status status = run();
    // The thread serves other backwards, and keeps nothing of this one.
    current_run = nullptr;
    current_executor = nullptr;
    SavedTensorHooksScope::SetInnermost(nullptr);
    return status;
  });
}

absl::Status BackwardRun::Walk() {
  return task_.Execute([this](GraphTask::Visit& visit) { return RunVisit(visit); });
}

absl::Status BackwardRun::RunCallbacks() {
  while (!callbacks_.empty()) {
    const std::function<absl::Status()> callback = std::move(callbacks_.front());
    callbacks_.pop_front();
    COTAN_RETURN_IF_ERROR(callback());
  }
  return absl::OkStatus();
}

absl::Status BackwardRun::RunVisit(GraphTask::Visit& visit) {
  COTAN_RETURN_IF_ERROR(RunGradientHooks(visit));
  return RunAfterHooks(visit);
}

absl::Status BackwardRun::RunGradientHooks(GraphTask::Visit& visit) {
  const std::shared_ptr<Hooks> hooks = visit.node->shared_hooks();
  if (hooks == nullptr || !visit.awaited()) return absl::OkStatus();
  // As in LibTorch, a captured gradient is the one before the hooks, if the node itself runs, too.
  if (visit.runs) {
    KeepCaptures(visit, Incoming(visit), captured_);
    visit.captures.clear();
  }
  return hooks->RunGradientHooks(ops_, absl::MakeSpan(Incoming(visit)));
}

absl::Status BackwardRun::RunNode(GraphTask::Visit& visit, std::optional<absl::Span<const Tensor>> described_inputs) {
  Node& node = *visit.node;
  Gradients& incoming = Incoming(visit);
  KeepCaptures(visit, incoming, captured_);
  if (!visit.runs) {
    incoming.clear();
    return absl::OkStatus();
  }
  absl::StatusOr<Gradients> applied = Apply(visit, described_inputs);
  if (!applied.ok()) return InBackwardOf(node, applied.status());
  if (!retain_graph_) node.ReleaseSaved();
  Incoming(visit).clear();
  return PassOn(node, *std::move(applied));
}

absl::InlinedVector<bool, 8> BackwardRun::NeededEdges(const Node& node) const {
  absl::InlinedVector<bool, 8> needed(static_cast<size_t>(node.num_edges()));
  for (size_t i = 0; i < needed.size(); ++i) needed[i] = task_.Needs(node.edge(static_cast<int>(i)));
  return needed;
}

absl::StatusOr<Gradients> BackwardRun::Apply(GraphTask::Visit& visit,
                                             std::optional<absl::Span<const Tensor>> described_inputs) {
  Node& node = *visit.node;
  // Hooks may add the first hook of the node, or replace the object.
  std::shared_ptr<Hooks> hooks = node.shared_hooks();
  // The entries of incoming_ may move while the node runs: a hook may start another step of this run.
  Gradients incoming = std::move(Incoming(visit));
  Gradients before;
  if (hooks != nullptr && !described_inputs.has_value()) {
    COTAN_RETURN_IF_ERROR(hooks->RunPreHooks(absl::MakeSpan(incoming)));
    if (hooks->has_post_hooks()) before = incoming;
  }

  const absl::InlinedVector<bool, 8> needed = NeededEdges(node);
  BackwardContext context(ops_, needed, retain_graph_, described_inputs.value_or(absl::Span<const Tensor>()));
  COTAN_ASSIGN_OR_RETURN(Gradients results, node.Apply(context, absl::MakeSpan(incoming)));
  COTAN_RETURN_IF_ERROR(CheckResults(node, needed, results));
  // An unpack hook may have added a post-hook, which sees no incoming gradients if it is the first one.
  hooks = node.shared_hooks();
  if (hooks != nullptr) COTAN_RETURN_IF_ERROR(hooks->RunPostHooks(results, before));
  return results;
}

absl::Status BackwardRun::CheckResults(const Node& node, absl::Span<const bool> needed, Gradients& results) const {
  if (static_cast<int>(results.size()) != node.num_edges()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the node returned ", results.size(), " gradients, expected ", node.num_edges()));
  }
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].defined()) continue;
    if (!needed[i]) {
      Clear(results[i]);
      continue;
    }
    const Edge& edge = node.edge(static_cast<int>(i));
    absl::StatusOr<Tensor> conforming = Conform(ops_, std::move(results[i]), edge.node->input(edge.input));
    if (!conforming.ok()) {
      return absl::Status(conforming.status().code(),
                          absl::StrCat("gradient ", i, ": ", conforming.status().message()));
    }
    results[i] = *std::move(conforming);
  }
  return absl::OkStatus();
}

absl::Status BackwardRun::PassOn(const Node& node, Gradients results) {
  for (int i = 0; i < node.num_edges(); ++i) {
    const Edge& edge = node.edge(i);
    Tensor& gradient = results[static_cast<size_t>(i)];
    if (!edge.defined() || !gradient.defined()) continue;
    const GraphTask::Visit& next = task_.At(edge.node.get());
    COTAN_RETURN_IF_ERROR(AddUp(ops_, std::move(gradient), Incoming(next)[static_cast<size_t>(edge.input)]));
  }
  return absl::OkStatus();
}

}  // namespace cotan::autograd
