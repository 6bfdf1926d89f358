// SPDX-License-Identifier: Apache-2.0

#include "aot/blocks/op_observer.h"

#include <ATen/SavedTensorHooks.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <bit>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "aot/blocks/tensor_shell.h"
#include "aot/capture/dispatch_keys.h"
#include "aot/capture/proxy_tensor.h"
#include "aot/capture/real_scope.h"
#include "aot/capture/tensor_data.h"

namespace cotan::aot {
namespace {

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

}  // namespace

thread_local OpObserver* OpObserver::current_ = nullptr;

OpObserver::OpObserver(absl::Span<const ModuleState> states, absl::Span<const at::Tensor> inputs) : outer_(current_) {
  RegisterObserver();
  for (const at::Tensor& input : inputs) Add(input);
  for (const ModuleState& state : states) Add(state.tensor);
  num_arguments_ = tensors_.size();
  current_ = this;
}

std::vector<at::Tensor> OpObserver::Run(const TensorFunction& function, const std::vector<at::Tensor>& inputs) {
  const c10::impl::IncludeDispatchKeyGuard observe(kObserveKey);
  return function(inputs);
}

std::string OpObserver::TextOf(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  std::string text = absl::StrCat(op.schema().name(), ".", op.schema().overload_name(), " ");
  AppendModes(text);
  for (const c10::IValue& argument : torch::jit::last(stack, op.schema().arguments().size())) {
    AppendValue(argument, text);
  }
  return text;
}

std::string OpObserver::TextOf(const std::vector<at::Tensor>& returned) {
  std::string text;
  for (const at::Tensor& tensor : returned) AppendTensor(tensor, text);
  text += '|';
  for (size_t i = 0; i < num_arguments_; ++i) AppendTensor(TensorOf(static_cast<int>(i)), text);
  return text;
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

}  // namespace cotan::aot
