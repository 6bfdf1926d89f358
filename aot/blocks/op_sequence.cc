// SPDX-License-Identifier: Apache-2.0

#include "aot/blocks/op_sequence.h"

#include <ATen/ThreadLocalState.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/DefaultDtype.h>
#include <torch/csrc/autograd/node.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "aot/blocks/op_observer.h"
#include "aot/capture/argument.h"
#include "aot/capture/proxy_tensor.h"

namespace cotan::aot {
namespace {

// --- record --------------------------------------------------------------------------

// An argument that an op writes, as it was before.
struct WrittenArgument {
  at::Tensor tensor;
  TensorFacts facts;
};

std::vector<WrittenArgument> WrittenArguments(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  std::vector<WrittenArgument> written;
  if (!op.schema().is_mutable()) return written;
  const std::vector<c10::Argument>& declared = op.schema().arguments();
  for (size_t i = 0; i < declared.size(); ++i) {
    if (declared[i].alias_info() == nullptr || !declared[i].alias_info()->isWrite()) continue;
    VisitTensors(torch::jit::peek(stack, i, declared.size()), [&](const at::Tensor& tensor) {
      written.push_back({tensor, FactsOf(tensor)});
    });
  }
  return written;
}

// Returns whether a graph, given by its last nodes, has hooks or the node of a torch::autograd::Function.
bool HasCustomNode(std::vector<torch::autograd::Node*> pending) {
  absl::flat_hash_set<const torch::autograd::Node*> seen(pending.begin(), pending.end());
  while (!pending.empty()) {
    torch::autograd::Node* const node = pending.back();
    pending.pop_back();
    if (absl::StrContains(node->name(), "CppNode") || HasHooks(*node)) return true;
    for (const torch::autograd::Edge& edge : node->next_edges()) {
      if (edge.function != nullptr && seen.insert(edge.function.get()).second) pending.push_back(edge.function.get());
    }
  }
  return false;
}

class OpRecorder final : public OpObserver {
 public:
  OpRecorder(absl::Span<const ModuleState> states, absl::Span<const at::Tensor> inputs, OpSequence& sequence)
      : OpObserver(states, inputs), sequence_(sequence) {}

  void Call(const c10::OperatorHandle& op, torch::jit::Stack& stack) override;
  void Refuse() const override { refused_ = true; }

  // Ends the record.
  void Finish(const std::vector<at::Tensor>& returned);

 private:
  void AddResult(const at::Tensor& tensor, OpSequence::Call& call);
  // torch::zeros() and others return a copy of what the op returns.
  int NumberOfCopied(const at::Tensor& tensor) const override {
    const ProxyTensorImpl* proxy = ProxyOf(tensor);
    const auto found = proxy == nullptr ? by_value_.end() : by_value_.find({proxy->epoch().get(), proxy->value()});
    return found == by_value_.end() ? -1 : found->second;
  }

  OpSequence& sequence_;
  absl::flat_hash_map<std::pair<const TraceEpoch*, ValueId>, int> by_value_;  // of results, by their first value
  mutable bool refused_ = false;
};

void OpRecorder::Call(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  if (refused_) return op.callBoxed(stack);
  OpSequence::Call call;
  call.text = TextOf(op, stack);
  const std::vector<WrittenArgument> written = WrittenArguments(op, stack);
  op.callBoxed(stack);
  for (const WrittenArgument& argument : written) {
    if (FactsOf(argument.tensor) != argument.facts) Refuse();
    UpdateNode(argument.tensor);
  }
  for (const c10::IValue& value : torch::jit::last(stack, op.schema().returns().size())) {
    if (value.isTensor()) {
      call.list_sizes.push_back(-1);
      AddResult(value.toTensor(), call);
    } else if (value.isTensorList()) {
      const std::vector<at::Tensor> list = value.toTensorVector();
      call.list_sizes.push_back(static_cast<int>(list.size()));
      for (const at::Tensor& tensor : list) AddResult(tensor, call);
    } else {
      Refuse();
    }
  }
  sequence_.calls.push_back(std::move(call));
}

void OpRecorder::AddResult(const at::Tensor& tensor, OpSequence::Call& call) {
  OpSequence::Result& result = call.results.emplace_back();
  result.tensor = tensor.defined() ? NumberOf(tensor) : -1;
  if (!tensor.defined() || result.tensor >= 0) return;
  if (!IsPlain(tensor)) return Refuse();
  result.tensor = Add(tensor);
  result.is_new = true;
  if (const ProxyTensorImpl* proxy = ProxyOf(tensor)) {
    by_value_.emplace(std::make_pair(proxy->epoch().get(), proxy->value()), result.tensor);
  }
  result.facts = FactsOf(tensor);
}

void OpRecorder::Finish(const std::vector<at::Tensor>& returned) {
  std::vector<torch::autograd::Node*> nodes;
  for (const Numbered& numbered : tensors()) {
    if (numbered.grad_fn != nullptr) nodes.push_back(numbered.grad_fn.get());
  }
  if (HasCustomNode(std::move(nodes))) Refuse();
  sequence_.returned = TextOf(returned);
  sequence_.is_complete = !refused_;
}

// --- comparison ----------------------------------------------------------------------

class OpComparer final : public OpObserver {
 public:
  OpComparer(absl::Span<const ModuleState> states, absl::Span<const at::Tensor> inputs,
             std::vector<const OpSequence*> sequences)
      : OpObserver(states, inputs), sequences_(std::move(sequences)) {}

  void Call(const c10::OperatorHandle& op, torch::jit::Stack& stack) override;
  void Refuse() const override {
    differs_ = true;
    throw OpsDiffer();
  }

  // Returns the sequence that was called; null: none. Drops the tensors that the function returned.
  const OpSequence* Finish(std::vector<at::Tensor> returned);

 private:
  c10::IValue NextResult(const OpSequence::Call& call, size_t& next) {
    const OpSequence::Result& result = call.results[next++];
    if (result.tensor < 0) return at::Tensor();
    if (!result.is_new) return TensorOf(result.tensor);
    at::Tensor shell = EmptyShell(result.facts, /*is_leaf=*/false);
    Add(shell);
    return shell;
  }

  std::vector<const OpSequence*> sequences_;  // of which all calls so far were equal
  size_t next_ = 0;                           // call
  const int exceptions_ = std::uncaught_exceptions();
  mutable bool differs_ = false;
};

// Replaces the arguments of an op by undefined results.
void ReturnUndefined(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  torch::jit::drop(stack, op.schema().arguments().size());
  for (const c10::Argument& result : op.schema().returns()) {
    const bool is_tensor = result.type()->kind() == c10::TypeKind::TensorType;
    stack.push_back(is_tensor ? c10::IValue(at::Tensor()) : c10::IValue());
  }
}

void OpComparer::Call(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  // In a destructor, which must not throw.
  if (differs_ && std::uncaught_exceptions() > exceptions_) return ReturnUndefined(op, stack);
  if (differs_) Refuse();
  const std::string text = TextOf(op, stack);
  std::erase_if(sequences_, [&](const OpSequence* sequence) {
    return next_ == sequence->calls.size() || sequence->calls[next_].text != text;
  });
  if (sequences_.empty()) Refuse();
  const OpSequence::Call& call = sequences_[0]->calls[next_];
  std::erase_if(sequences_, [&](const OpSequence* sequence) {
    const OpSequence::Call& other = sequence->calls[next_];
    return other.results != call.results || other.list_sizes != call.list_sizes;
  });
  ++next_;
  std::vector<c10::IValue> results;
  size_t next = 0;
  for (const int size : call.list_sizes) {
    if (size < 0) {
      results.push_back(NextResult(call, next));
      continue;
    }
    c10::List<at::Tensor> list;
    for (int i = 0; i < size; ++i) list.push_back(NextResult(call, next).toTensor());
    results.emplace_back(std::move(list));
  }
  torch::jit::drop(stack, op.schema().arguments().size());
  for (c10::IValue& result : results) stack.push_back(std::move(result));
}

const OpSequence* OpComparer::Finish(std::vector<at::Tensor> returned) {
  if (differs_) return nullptr;
  const std::string text = TextOf(returned);
  returned.clear();
  for (size_t i = num_arguments(); i < tensors().size(); ++i) {
    // The function keeps a tensor: the trace shows whether it may.
    if (tensors()[i].tensor.use_count() > 0) return nullptr;
    if (tensors()[i].grad_fn != nullptr && HasHooks(*tensors()[i].grad_fn)) return nullptr;
  }
  for (const OpSequence* sequence : sequences_) {
    if (next_ == sequence->calls.size() && text == sequence->returned) return sequence;
  }
  return nullptr;
}

// Restores what a function may change without calling an op.
class ChangesOfFunction {
 public:
  explicit ChangesOfFunction(absl::Span<const ModuleState> states) : states_(states) {
    for (const ModuleState& state : states) requires_grad_.push_back(state.tensor.requires_grad());
  }
  ~ChangesOfFunction() {
    at::autocast::set_autocast_dtype(at::kCPU, autocast_dtype_);
    at::set_default_dtype(default_dtype_);
    for (size_t i = 0; i < states_.size(); ++i) {
      const at::Tensor& tensor = states_[i].tensor;
      if (tensor.requires_grad() != requires_grad_[i]) tensor.set_requires_grad(requires_grad_[i]);
    }
  }
  ChangesOfFunction(const ChangesOfFunction&) = delete;
  ChangesOfFunction& operator=(const ChangesOfFunction&) = delete;

 private:
  const absl::Span<const ModuleState> states_;
  std::vector<bool> requires_grad_;
  const at::ScalarType autocast_dtype_ = at::autocast::get_autocast_dtype(at::kCPU);
  const caffe2::TypeMeta default_dtype_ = at::get_default_dtype();
  const at::ThreadLocalStateGuard modes_{at::ThreadLocalState()};
};

}  // namespace

std::vector<at::Tensor> RecordOps(const TensorFunction& function, absl::Span<const ModuleState> states,
                                  const std::vector<at::Tensor>& inputs, OpSequence& sequence) {
  OpRecorder recorder(states, inputs, sequence);
  std::vector<at::Tensor> returned = recorder.Run(function, inputs);
  recorder.Finish(returned);
  return returned;
}

int FindSequence(const TensorFunction& function, absl::Span<const ModuleState> states,
                 absl::Span<const at::Tensor> inputs, std::vector<const OpSequence*> sequences) {
  std::vector<at::Tensor> shells;
  for (const at::Tensor& input : inputs) shells.push_back(EmptyShell(FactsOf(input), /*is_leaf=*/true));
  const ChangesOfFunction changes(states);
  try {
    OpComparer comparer(states, shells, sequences);
    const OpSequence* const found = comparer.Finish(comparer.Run(function, shells));
    const auto is_kept = [](const at::Tensor& shell) { return shell.use_count() > 1; };
    if (found == nullptr || std::any_of(shells.begin(), shells.end(), is_kept)) return -1;
    return static_cast<int>(std::find(sequences.begin(), sequences.end(), found) - sequences.begin());
  } catch (...) {
    // The trace that follows finds the function's own errors.
    return -1;
  }
}

void RefuseOpSequence() {
  if (OpObserver* observer = OpObserver::Current()) observer->Refuse();
}

}  // namespace cotan::aot
