// SPDX-License-Identifier: Apache-2.0

#include "aot/blocks/op_sequence.h"

#include <ATen/SavedTensorHooks.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/stack.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/node.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/library.h>

#include <algorithm>
#include <bit>
#include <exception>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "aot/capture/argument.h"
#include "aot/capture/dispatch_keys.h"
#include "aot/capture/proxy_tensor.h"
#include "aot/capture/real_scope.h"
#include "aot/capture/tensor_data.h"
#include "aot/capture/variable_watch.h"

namespace cotan::aot {
namespace {

// Ends a run that is compared.
struct OpsDiffer : std::exception {
  const char* what() const noexcept override { return "the block calls other ops"; }
};

TensorFacts FactsOf(const at::Tensor& tensor) {
  TensorFacts facts;
  facts.dtype = tensor.scalar_type();
  facts.sizes = tensor.sizes().vec();
  facts.strides = tensor.strides().vec();
  facts.offset = tensor.storage_offset();
  facts.requires_grad = tensor.requires_grad();
  facts.is_wrapped_number = tensor.unsafeGetTensorImpl()->is_wrapped_number();
  return facts;
}

// Returns whether a tensor has no property that is not among its facts.
bool IsPlain(const at::Tensor& tensor) {
  return tensor.layout() == at::kStrided && tensor.device().is_cpu() && !tensor.is_quantized() && !tensor.is_conj() &&
         !tensor.is_neg() && ToDType(tensor.scalar_type()) != DType::kUndefined;
}

// The node of results that require grad. It never runs.
class ResultNode final : public torch::autograd::Node {
 public:
  torch::autograd::variable_list apply(torch::autograd::variable_list&& /*gradients*/) override { throw OpsDiffer(); }
};

const c10::intrusive_ptr<torch::autograd::Node>& NodeOfResults() {
  static const auto& node = *new c10::intrusive_ptr<torch::autograd::Node>(c10::make_intrusive<ResultNode>());
  return node;
}

// Returns a tensor without elements.
at::Tensor EmptyShell(const TensorFacts& facts, bool is_leaf) {
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                               c10::scalarTypeToTypeMeta(facts.dtype), at::kCPU);
  c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  impl.set_sizes_and_strides(facts.sizes, facts.strides, facts.offset);
  if (facts.is_wrapped_number) impl.set_wrapped_number(true);
  if (!facts.requires_grad) return tensor;
  if (is_leaf) {
    impl.set_requires_grad(true);
  } else {
    torch::autograd::impl::set_gradient_edge(tensor, {NodeOfResults(), 0});
  }
  return tensor;
}

// Appends modes of the thread that decide what an op does.
void AppendModes(std::string& text) {
  const c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  text += at::GradMode::is_enabled() ? 'g' : '-';
  text += c10::InferenceMode::is_enabled() ? 'i' : '-';
  text += keys.excluded_.has_any(c10::autograd_dispatch_keyset) ? 'x' : '-';
  text += keys.excluded_.has(c10::DispatchKey::ADInplaceOrView) ? 'v' : '-';
  if (at::autocast::is_autocast_enabled(at::kCPU)) {
    absl::StrAppend(&text, "a", static_cast<int>(at::autocast::get_autocast_dtype(at::kCPU)));
  }
  text += at::SavedTensorDefaultHooks::get_tls_state().stack.empty() ? '-' : 'h';
}

// Sees the ops that a function calls.
class OpObserver : public VariableWatch {
 public:
  OpObserver(absl::Span<const ModuleState> states, absl::Span<const at::Tensor> inputs);
  ~OpObserver() override { current_ = outer_; }

  // Returns the innermost one of the thread; null: there is none.
  static OpObserver* Current() { return current_; }

  virtual void Call(const c10::OperatorHandle& op, torch::jit::Stack& stack) = 0;
  // The function does something that is no call of an op.
  virtual void Refuse() const = 0;

  // Calls the function, and Call() for each op that it calls.
  std::vector<at::Tensor> Run(const TensorFunction& function, const std::vector<at::Tensor>& inputs) {
    const c10::impl::IncludeDispatchKeyGuard observe(kObserveKey);
    return function(inputs);
  }

  Hook OnRegisterHook(const at::TensorBase& /*self*/, Hook hook) const override {
    Refuse();
    return hook;
  }
  void OnRetainGrad(const at::TensorBase& /*self*/) const override { Refuse(); }

  std::string TextOf(const std::vector<at::Tensor>& tensors) const {
    std::string text;
    for (const at::Tensor& tensor : tensors) AppendTensor(tensor, text);
    return text;
  }

 protected:
  // Returns the number of a tensor; -1: it has none.
  int NumberOf(const at::Tensor& tensor) const {
    const auto found = numbers_.find(tensor.unsafeGetTensorImpl());
    return found == numbers_.end() ? -1 : found->second;
  }
  // Gives a tensor the next number.
  int Add(const at::Tensor& tensor) {
    tensors_.push_back(tensor);
    numbers_.emplace(tensor.unsafeGetTensorImpl(), static_cast<int>(tensors_.size()) - 1);
    return static_cast<int>(tensors_.size()) - 1;
  }
  const std::vector<at::Tensor>& tensors() const { return tensors_; }
  size_t num_arguments() const { return num_arguments_; }

  std::string TextOf(const c10::OperatorHandle& op, const torch::jit::Stack& stack) const {
    std::string text = absl::StrCat(op.schema().name(), ".", op.schema().overload_name(), " ");
    AppendModes(text);
    for (const c10::IValue& argument : torch::jit::last(stack, op.schema().arguments().size())) {
      AppendValue(argument, text);
    }
    return text;
  }

 private:
  void AppendValue(const c10::IValue& value, std::string& text) const;
  void AppendTensor(const at::Tensor& tensor, std::string& text) const;
  // Appends the content of a tensor that is not computed by the function.
  void AppendContent(const at::Tensor& tensor, std::string& text) const;

  static thread_local OpObserver* current_;

  OpObserver* const outer_;
  std::vector<at::Tensor> tensors_;
  absl::flat_hash_map<const c10::TensorImpl*, int> numbers_;
  size_t num_arguments_ = 0;
};

thread_local OpObserver* OpObserver::current_ = nullptr;

// The kernel of kObserveKey.
void Observe(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard below(kObserveKey);
  if (OpObserver::Current() == nullptr) return op.callBoxed(stack);
  OpObserver::Current()->Call(op, *stack);
}

void RegisterObserver() {
  static const torch::Library* const library = [] {
    auto* made = new torch::Library(torch::Library::IMPL, "_", kObserveKey, __FILE__, __LINE__);
    made->fallback(torch::CppFunction::makeFromBoxedFunction<&Observe>());
    return made;
  }();
  static_cast<void>(library);
}

OpObserver::OpObserver(absl::Span<const ModuleState> states, absl::Span<const at::Tensor> inputs) : outer_(current_) {
  RegisterObserver();
  for (const at::Tensor& input : inputs) Add(input);
  for (const ModuleState& state : states) Add(state.tensor);
  num_arguments_ = tensors_.size();
  current_ = this;
}

void OpObserver::AppendValue(const c10::IValue& value, std::string& text) const {
  if (value.isTensor()) {
    AppendTensor(value.toTensor(), text);
  } else if (value.isNone()) {
    text += 'N';
  } else if (value.isBool()) {
    text += value.toBool() ? 'T' : 'F';
  } else if (value.isInt()) {
    absl::StrAppend(&text, "i", value.toInt());
  } else if (value.isDouble()) {
    absl::StrAppend(&text, "d", absl::Hex(std::bit_cast<uint64_t>(value.toDouble())));
  } else if (value.isString()) {
    absl::StrAppend(&text, "s", value.toStringRef().size(), ":", value.toStringRef());
  } else if (value.isDevice()) {
    absl::StrAppend(&text, "D", value.toDevice().str());
  } else if (value.isList()) {
    text += '[';
    for (const c10::IValue& element : value.toListRef()) AppendValue(element, text);
    text += ']';
  } else {
    Refuse();
  }
  text += ' ';
}

void OpObserver::AppendTensor(const at::Tensor& tensor, std::string& text) const {
  if (!tensor.defined()) {
    text += "u ";
  } else if (const int number = NumberOf(tensor); number >= 0) {
    absl::StrAppend(&text, "%", number, " ");
  } else {
    AppendContent(tensor, text);
  }
}

void OpObserver::AppendContent(const at::Tensor& tensor, std::string& text) const {
  const ProxyTensorImpl* proxy = ProxyOf(tensor);
  const bool is_of_trace = proxy != nullptr && proxy->epoch()->kind == TraceEpoch::Kind::kTrace;
  const bool is_known = IsPlain(tensor) && !is_of_trace && (proxy != nullptr || tensor.has_storage());
  if (!is_known) return Refuse();
  const TensorFacts facts = FactsOf(tensor);
  const RealScope real;
  const TensorData data = ToTensorData(proxy == nullptr ? tensor : proxy->real());
  absl::StrAppend(&text, "c", static_cast<int>(facts.dtype), "[", absl::StrJoin(facts.sizes, ","), "]{",
                  absl::StrJoin(facts.strides, ","), "}", facts.requires_grad ? "g" : "",
                  facts.is_wrapped_number ? "w" : "", data.bytes.size(), ":", data.bytes, " ");
}

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

// Returns whether the graph of one of the tensors has the node of a torch::autograd::Function.
bool HasCustomNode(absl::Span<const at::Tensor> tensors) {
  std::vector<const torch::autograd::Node*> pending;
  absl::flat_hash_set<const torch::autograd::Node*> seen;
  const auto visit = [&](const torch::autograd::Node* node) {
    if (node != nullptr && seen.insert(node).second) pending.push_back(node);
  };
  for (const at::Tensor& tensor : tensors) visit(tensor.grad_fn().get());
  while (!pending.empty()) {
    const torch::autograd::Node* node = pending.back();
    pending.pop_back();
    if (absl::StrContains(node->name(), "CppNode")) return true;
    for (const torch::autograd::Edge& edge : node->next_edges()) visit(edge.function.get());
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

  OpSequence& sequence_;
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
  result.facts = FactsOf(tensor);
}

void OpRecorder::Finish(const std::vector<at::Tensor>& returned) {
  for (const OpSequence::Call& call : sequence_.calls) {
    for (const OpSequence::Result& result : call.results) {
      if (!result.is_new) continue;
      if (tensors()[static_cast<size_t>(result.tensor)].requires_grad() != result.facts.requires_grad) Refuse();
    }
  }
  if (HasCustomNode(absl::MakeSpan(tensors()).subspan(num_arguments()))) Refuse();
  sequence_.returned = TextOf(returned);
  sequence_.is_complete = !refused_;
}

// --- comparison ----------------------------------------------------------------------

class OpComparer final : public OpObserver {
 public:
  OpComparer(absl::Span<const ModuleState> states, absl::Span<const at::Tensor> inputs, const OpSequence& sequence)
      : OpObserver(states, inputs), sequence_(sequence) {}

  void Call(const c10::OperatorHandle& op, torch::jit::Stack& stack) override;
  void Refuse() const override {
    differs_ = true;
    throw OpsDiffer();
  }

  // Returns whether the whole sequence was called, and the function returned the same.
  bool IsEqual(const std::vector<at::Tensor>& returned) const;

 private:
  c10::IValue NextResult(const OpSequence::Call& call, size_t& next) {
    const OpSequence::Result& result = call.results[next++];
    if (result.tensor < 0) return at::Tensor();
    if (result.is_new) Add(EmptyShell(result.facts, /*is_leaf=*/false));
    return tensors()[static_cast<size_t>(result.tensor)];
  }

  const OpSequence& sequence_;
  size_t next_ = 0;
  mutable bool differs_ = false;
};

void OpComparer::Call(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  if (differs_ || next_ == sequence_.calls.size()) Refuse();
  const OpSequence::Call& call = sequence_.calls[next_++];
  if (TextOf(op, stack) != call.text) Refuse();
  torch::jit::drop(stack, op.schema().arguments().size());
  size_t next = 0;
  for (const int size : call.list_sizes) {
    if (size < 0) {
      stack.push_back(NextResult(call, next));
      continue;
    }
    c10::List<at::Tensor> list;
    for (int i = 0; i < size; ++i) list.push_back(NextResult(call, next).toTensor());
    stack.emplace_back(std::move(list));
  }
}

bool OpComparer::IsEqual(const std::vector<at::Tensor>& returned) const {
  if (differs_ || next_ != sequence_.calls.size() || TextOf(returned) != sequence_.returned) return false;
  for (const OpSequence::Call& call : sequence_.calls) {
    for (const OpSequence::Result& result : call.results) {
      if (!result.is_new) continue;
      // A custom autograd function gives its results another node.
      const at::Tensor& tensor = tensors()[static_cast<size_t>(result.tensor)];
      const torch::autograd::Node* expected = result.facts.requires_grad ? NodeOfResults().get() : nullptr;
      if (FactsOf(tensor) != result.facts || tensor.grad_fn().get() != expected) return false;
    }
  }
  return true;
}

}  // namespace

std::vector<at::Tensor> RecordOps(const TensorFunction& function, absl::Span<const ModuleState> states,
                                  const std::vector<at::Tensor>& inputs, OpSequence& sequence) {
  OpRecorder recorder(states, inputs, sequence);
  std::vector<at::Tensor> returned = recorder.Run(function, inputs);
  recorder.Finish(returned);
  return returned;
}

bool CallsOps(const TensorFunction& function, absl::Span<const ModuleState> states, absl::Span<const at::Tensor> inputs,
              const OpSequence& sequence) {
  std::vector<at::Tensor> shells;
  for (const at::Tensor& input : inputs) shells.push_back(EmptyShell(FactsOf(input), /*is_leaf=*/true));
  try {
    OpComparer comparer(states, shells, sequence);
    return comparer.IsEqual(comparer.Run(function, shells));
  } catch (...) {
    // The trace that follows finds the function's own errors.
    return false;
  }
}

void RefuseOpSequence() {
  if (OpObserver* observer = OpObserver::Current()) observer->Refuse();
}

}  // namespace cotan::aot
