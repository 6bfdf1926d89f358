// SPDX-License-Identifier: Apache-2.0

#include "aot/capture/traced_call.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstring>
#include <exception>
#include <optional>
#include <utility>

#include "absl/strings/string_view.h"
#include "aot/capture/argument.h"
#include "aot/capture/dispatch_keys.h"
#include "aot/capture/proxy_tensor.h"

namespace cotan::aot {
namespace {

using Stack = torch::jit::Stack;

// True while a failed call is repeated to find the reason; failures of the repetition are not analysed.
thread_local bool is_repeating = false;

// Returns the real tensor inside functional tensors and proxies.
at::Tensor PlainTensor(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  if (const ProxyTensorImpl* proxy = ProxyOf(tensor)) return proxy->real();
  if (const ProxyTensorImpl* proxy = AsProxy(tensor)) return proxy->real();
  if (!at::functionalization::impl::isFunctionalTensor(tensor)) return tensor;
  return at::functionalization::impl::from_functional_tensor(tensor);
}

// Returns a tensor of the same geometry in a copy of the whole storage: whether an op accepts a tensor may
// depend on its strides.
at::Tensor CopyOfStorage(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage() || !tensor.device().is_cpu()) return tensor;
  const auto bytes = static_cast<int64_t>(tensor.storage().nbytes());
  const at::Tensor copy = at::empty({bytes}, at::kByte);
  if (bytes > 0) std::memcpy(copy.mutable_data_ptr(), tensor.storage().data(), static_cast<size_t>(bytes));
  return at::empty({0}, tensor.options())
      .set_(copy.storage(), tensor.storage_offset(), tensor.sizes(), tensor.strides());
}

// Returns the results of the op on plain tensors; none if it throws.
std::optional<Stack> RunOnPlainTensors(const c10::OperatorHandle& op, Stack stack) {
  try {
    for (c10::IValue& argument : stack) ReplaceTensors(argument, PlainTensor);
    const c10::impl::ExcludeDispatchKeyGuard guard(kTracingKeys | c10::autograd_dispatch_keyset_with_ADInplaceOrView);
    for (size_t i = 0; i < stack.size(); ++i) {
      const c10::AliasInfo* alias = op.schema().arguments()[i].alias_info();
      if (alias != nullptr && alias->isWrite()) ReplaceTensors(stack[i], CopyOfStorage);
    }
    op.callBoxed(stack);
    return stack;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

// Returns whether the op fails on traced tensors with autograd excluded. It is recorded into a scratch
// graph.
bool FailsBelowAutograd(const Recorder& recorder, const c10::OperatorHandle& op, Stack stack) {
  Recorder scratch;
  scratch.rng_state = recorder.rng_state;
  scratch.effect_token = recorder.effect_token;
  const RecordingScope recording(scratch);
  const c10::impl::ExcludeDispatchKeyGuard guard(c10::autograd_dispatch_keyset_with_ADInplaceOrView);
  const at::NoGradGuard no_grad;
  try {
    op.callBoxed(stack);
    return false;
  } catch (const std::exception&) {
    return true;
  }
}

bool AreDense(const Stack& results) {
  bool dense = true;
  for (const c10::IValue& result : results) {
    VisitTensors(result, [&](const at::Tensor& tensor) {
      dense = dense && (!tensor.defined() || (tensor.has_storage() && !tensor.is_nested()));
    });
  }
  return dense;
}

absl::string_view Reason(const c10::OperatorHandle& op, const Stack& results) {
  if (!AreDense(results)) return "its result is not a dense tensor; compute with dense tensors";
  if (op.schema().is_mutable()) {
    return "it writes to its argument and has no functional form; call the form of it that returns its result";
  }
  return "what it computes depends on the content of a tensor, which is unknown when a function is compiled; "
         "give it numbers instead of tensors, or compute with tensors alone (torch::where, masks)";
}

// Returns whether the op writes to an argument, and functionalization knows its functional form: another reason makes
// it fail.
bool IsFunctionalized(const c10::OperatorHandle& op) {
  return op.schema().is_mutable() && op.hasKernelForDispatchKey(c10::DispatchKey::Functionalize);
}

}  // namespace

TracedCall::TracedCall(Recorder& recorder, const c10::OperatorHandle& op, const Stack& stack)
    : recorder_(recorder),
      op_(op),
      arguments_(torch::jit::last(stack, op.schema().arguments().size()).vec()),
      diagnostics_before_(recorder.diagnostics().size()),
      caller_(recorder.called_op) {
  if (caller_ == nullptr) recorder_.called_op = &op;
}

TracedCall::~TracedCall() { recorder_.called_op = caller_; }

void TracedCall::ReportIfOnlyTracingFails() {
  // An op that this one calls may have been reported already.
  if (is_repeating || recorder_.diagnostics().size() > diagnostics_before_ || IsFunctionalized(op_)) return;
  const std::optional<Stack> results = RunOnPlainTensors(op_, arguments_);
  if (!results.has_value()) return;
  is_repeating = true;
  const bool fails = FailsBelowAutograd(recorder_, op_, arguments_);
  is_repeating = false;
  if (fails) recorder_.ReportUnsupportedOp(op_, Reason(op_, *results));
}

}  // namespace cotan::aot
