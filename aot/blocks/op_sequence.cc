// SPDX-License-Identifier: Apache-2.0

#include "aot/blocks/op_sequence.h"

#include <ATen/SavedTensorHooks.h>
#include <ATen/ThreadLocalState.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/stack.h>
#include <c10/core/DefaultDtype.h>
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

// The node of a result that requires grad. It never runs.
class ResultNode final : public torch::autograd::Node {
 public:
  torch::autograd::variable_list apply(torch::autograd::variable_list&& /*gradients*/) override { throw OpsDiffer(); }
};

// Returns a tensor without elements.
at::Tensor EmptyShell(const TensorFacts& facts, bool is_leaf) {
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                               c10::scalarTypeToTypeMeta(facts.dtype), at::kCPU);
  c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  impl.set_storage_access_should_throw();
  impl.set_sizes_and_strides(facts.sizes, facts.strides, facts.offset);
  if (facts.is_wrapped_number) impl.set_wrapped_number(true);
  if (!facts.requires_grad) return tensor;
  if (is_leaf) {
    impl.set_requires_grad(true);
    return tensor;
  }
  auto node = c10::make_intrusive<ResultNode>();
  node->add_input_metadata(tensor);
  torch::autograd::impl::set_gradient_edge(tensor, {std::move(node), 0});
  return tensor;
}

bool HasHooks(torch::autograd::Node& node) {
  return !node.pre_hooks().empty() || !node.post_hooks().empty() || !node.tensor_pre_hooks().empty() ||
         !node.retains_grad_hooks().empty();
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
  absl::StrAppend(&text, static_cast<int>(at::get_default_dtype_as_scalartype()), " ");
}

// Sees the ops that a function calls.
class OpObserver : public VariableWatch {
 public:
  OpObserver(absl::Span<const ModuleState> states, absl::Span<const at::Tensor> inputs);
  ~OpObserver() override { current_ = outer_; }

  // Returns the innermost one of the thread; null: there is none.
  static OpObserver* Current() { return current_; }

  virtual void Call(const c10::OperatorHandle& op, torch::jit::Stack& stack) = 0;
  // The function does something that is not a call of an op.
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

 protected:
  using NodePtr = c10::intrusive_ptr<torch::autograd::Node>;
  using WeakPtr = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  // A tensor with a number. A weak pointer keeps its address from being used again, and LibTorch from seeing another
  // owner: torch::zeros() and others return another tensor then.
  struct Numbered {
    WeakPtr tensor;
    NodePtr grad_fn;
  };

  // Returns the number of the tensor that a tensor without a number is a copy of, made without an op; -1: of none.
  virtual int NumberOfCopied(const at::Tensor& tensor) const { return -1; }

  // Returns the number of a tensor; -1: it has none.
  int NumberOf(const at::Tensor& tensor) const {
    const auto found = numbers_.find(tensor.unsafeGetTensorImpl());
    return found == numbers_.end() ? -1 : found->second;
  }
  // Gives a tensor the number of the one that it is a copy of, if there is one.
  void AddCopy(const at::Tensor& tensor) {
    const int number = NumberOfCopied(tensor);
    if (number < 0) return;
    copies_.emplace_back(tensor.getIntrusivePtr());
    numbers_.emplace(tensor.unsafeGetTensorImpl(), number);
  }
  // Gives a tensor the next number.
  int Add(const at::Tensor& tensor) {
    tensors_.push_back({WeakPtr(tensor.getIntrusivePtr()), tensor.grad_fn()});
    numbers_.emplace(tensor.unsafeGetTensorImpl(), static_cast<int>(tensors_.size()) - 1);
    return static_cast<int>(tensors_.size()) - 1;
  }
  // Takes the present node of a numbered tensor, which an op wrote, as its own.
  void UpdateNode(const at::Tensor& tensor) {
    if (const int number = NumberOf(tensor); number >= 0)
      tensors_[static_cast<size_t>(number)].grad_fn = tensor.grad_fn();
  }
  // Returns a tensor; undefined: it has ended.
  at::Tensor TensorOf(int number) const { return at::Tensor(tensors_[static_cast<size_t>(number)].tensor.lock()); }
  const std::vector<Numbered>& tensors() const { return tensors_; }
  size_t num_arguments() const { return num_arguments_; }

  std::string TextOf(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
    std::string text = absl::StrCat(op.schema().name(), ".", op.schema().overload_name(), " ");
    AppendModes(text);
    for (const c10::IValue& argument : torch::jit::last(stack, op.schema().arguments().size())) {
      AppendValue(argument, text);
    }
    return text;
  }
  // Returns what the function returned, and the inputs and states at its end.
  std::string TextOf(const std::vector<at::Tensor>& returned) {
    std::string text;
    for (const at::Tensor& tensor : returned) AppendTensor(tensor, text);
    text += '|';
    for (size_t i = 0; i < num_arguments_; ++i) AppendTensor(TensorOf(static_cast<int>(i)), text);
    return text;
  }

 private:
  void AppendValue(const c10::IValue& value, std::string& text);
  void AppendTensor(const at::Tensor& tensor, std::string& text);
  // Appends the content of a tensor that is not computed by the function.
  void AppendContent(const at::Tensor& tensor, std::string& text) const;

  static thread_local OpObserver* current_;

  OpObserver* const outer_;
  std::vector<Numbered> tensors_;
  std::vector<WeakPtr> copies_;
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

void OpObserver::AppendValue(const c10::IValue& value, std::string& text) {
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

void OpObserver::AppendTensor(const at::Tensor& tensor, std::string& text) {
  if (tensor.defined() && NumberOf(tensor) < 0) AddCopy(tensor);
  if (!tensor.defined()) {
    text += "u ";
  } else if (const int number = NumberOf(tensor); number >= 0) {
    // Only custom autograd functions and the like give a tensor another node without an op.
    if (tensor.grad_fn() != tensors_[static_cast<size_t>(number)].grad_fn) Refuse();
    absl::StrAppend(&text, "%", number, tensor.requires_grad() ? "g " : " ");
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
