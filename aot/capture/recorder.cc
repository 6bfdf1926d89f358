// SPDX-License-Identifier: Apache-2.0

#include "aot/capture/recorder.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/SequenceNumber.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/StringUtil.h>
#include <torch/csrc/autograd/node.h>
#include <torch/library.h>

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "aot/capture/argument.h"
#include "aot/capture/as_strided.h"
#include "aot/capture/dispatch_keys.h"
#include "aot/capture/tensor_data.h"
#include "base/layout.h"
#include "base/overlap.h"
#include "base/philox.h"

namespace cotan::aot {
namespace {

thread_local Recorder* current_recorder = nullptr;
thread_local std::shared_ptr<TraceEpoch> construction_epoch;

// Returns the real tensor inside a proxy; any other tensor is real itself.
at::Tensor RealIn(const at::Tensor& tensor) {
  const ProxyTensorImpl* proxy = AsProxy(tensor);
  return proxy == nullptr ? tensor : proxy->real();
}

// Runs an op on real tensors, with the tracing and autograd keys excluded.
void RunReal(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  c10::impl::ExcludeDispatchKeyGuard guard(kTracingKeys | c10::autograd_dispatch_keyset_with_ADInplaceOrView);
  op.callBoxed(stack);
}

bool HasTensorReturn(const c10::FunctionSchema& schema) {
  return std::any_of(schema.returns().begin(), schema.returns().end(), [](const c10::Argument& r) {
    return r.type()->kind() == c10::TypeKind::TensorType || r.type()->kind() == c10::TypeKind::ListType;
  });
}

// Returns whether the op is x[indices] with integer indices only, not masks.
bool IndexesByIntegers(const c10::OperatorHandle& op, absl::Span<const c10::IValue> arguments) {
  if (op.schema().name() != "aten::index") return false;
  bool has_mask = false;
  VisitTensors(arguments[1], [&](const at::Tensor& index) {
    has_mask |= index.scalar_type() == at::kBool || index.scalar_type() == at::kByte;
  });
  return !has_mask;
}

// Returns whether the caller gives the size of the result, which otherwise depends on the content of a tensor.
bool HasGivenSize(const c10::OperatorHandle& op, absl::Span<const c10::IValue> arguments) {
  return op.schema().name() == "aten::repeat_interleave" && op.schema().overload_name() == "Tensor" &&
         !arguments[1].isNone();
}

// Returns whether the op makes a table from numbers alone that cannot be written as an expression of the
// element's index, or only with other rounding. Such tables are computed while tracing.
bool IsTable(absl::string_view op) {
  static const auto& tables = *new absl::flat_hash_set<std::string>{
      "aten.fft_fftfreq.default", "aten.fft_rfftfreq.default", "aten.logspace.default",    "aten.range.default",
      "aten.range.step",          "aten.tril_indices.default", "aten.triu_indices.default"};
  return tables.contains(op) || absl::StrContains(op, "_window.");
}

// Returns whether an op that may draw random numbers does not: an attention without dropout.
bool DrawsNothing(const c10::OperatorHandle& op, absl::Span<const c10::IValue> arguments) {
  constexpr size_t kDropout = 3;  // after query, key and value
  return op.schema().name() == "aten::_scaled_dot_product_flash_attention_for_cpu" &&
         arguments[kDropout].toDouble() == 0;
}

// Returns why the op is unsupported; empty if it is supported.
absl::string_view UnsupportedReason(const c10::OperatorHandle& op, absl::Span<const c10::IValue> arguments) {
  if (op.hasTag(at::Tag::data_dependent_output)) {
    return "it reads the content of a tensor, so what is computed next could depend on data; "
           "compute with tensors instead (torch::where, masks)";
  }
  if (op.hasTag(at::Tag::dynamic_output_shape) && !IndexesByIntegers(op, arguments) && !HasGivenSize(op, arguments)) {
    return "the size of its result depends on the content of a tensor; declare the maximum "
           "(CompileOptions.tracing.data_dependent_sizes, --max_data_size), or compute with tensors of given sizes "
           "(torch::where, masks, nonzero_static, output_size)";
  }
  if (op.hasTag(at::Tag::nondeterministic_seeded) && !DrawsNothing(op, arguments)) {
    return "it draws random numbers in a way that has no counter-based form";
  }
  if (op.schema().is_mutable()) return "it writes to its argument and has no functional form";
  return "";
}

// Returns the layout of the real tensor: the functional wrapper does not have the offset that as_strided_
// sets.
StridedLayout PlaceOf(const at::Tensor& functional) {
  const ProxyTensorImpl* proxy = ProxyOf(functional);
  return LayoutOf(proxy == nullptr ? functional : proxy->real());
}

// Returns the part of the name before the last dot: the module that owns a tensor.
std::string ModuleOf(const std::string& name) {
  const size_t dot = name.rfind('.');
  return dot == std::string::npos ? "" : name.substr(0, dot);
}

bool SameTensor(const at::Tensor& a, const at::Tensor& b) {
  return a.is_same(b) || (a.has_storage() && b.has_storage() && a.const_data_ptr() == b.const_data_ptr() &&
                          a.const_data_ptr() != nullptr && a.scalar_type() == b.scalar_type() &&
                          a.sizes() == b.sizes() && a.strides() == b.strides());
}

void BoxedRecord(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  if (current_recorder != nullptr) return current_recorder->Record(op, *stack);
  // The call comes from the construction of a module, or has a tensor that outlived its trace.
  std::vector<c10::IValue> arguments = torch::jit::pop(*stack, op.schema().arguments().size());
  bool any_tensor = false;
  bool any_proxy = false;
  const auto unwrap = [&](const at::Tensor& tensor) {
    const ProxyTensorImpl* proxy = AsProxy(tensor);
    any_tensor = true;
    any_proxy |= proxy != nullptr;
    return proxy == nullptr ? tensor : proxy->real();
  };
  for (c10::IValue& argument : arguments) {
    ReplaceTensors(argument, unwrap);
    torch::jit::push(*stack, std::move(argument));
  }
  RunReal(op, *stack);
  if (construction_epoch == nullptr || (any_tensor && !any_proxy)) return;
  std::vector<c10::IValue> results = torch::jit::pop(*stack, op.schema().returns().size());
  for (c10::IValue& result : results) {
    ReplaceTensors(result, [](const at::Tensor& real) { return MakeProxy(real, kNoValue, construction_epoch); });
    torch::jit::push(*stack, std::move(result));
  }
}

}  // namespace

Recorder* CurrentRecorder() { return current_recorder; }

RecordingScope::RecordingScope(Recorder& recorder)
    : previous_(std::exchange(current_recorder, &recorder)),
      previous_epoch_(std::exchange(construction_epoch, nullptr)) {}

RecordingScope::RecordingScope(std::shared_ptr<TraceEpoch> epoch)
    : previous_(std::exchange(current_recorder, nullptr)),
      previous_epoch_(std::exchange(construction_epoch, std::move(epoch))) {}

RecordingScope::~RecordingScope() {
  current_recorder = previous_;
  construction_epoch = std::move(previous_epoch_);
}

void RegisterRecorder() {
  static torch::Library* const library = [] {
    auto* result = new torch::Library(torch::Library::IMPL, "_", kRecordKey, __FILE__, __LINE__);
    result->fallback(torch::CppFunction::makeFromBoxedFunction<&BoxedRecord>());
    return result;
  }();
  static_cast<void>(library);
}

at::Tensor Recorder::AddInput(const at::Tensor& real, InputKind kind, int index, const std::string& name) {
  const ValueId value = graph_.AddInput(TypeOf(real), kind, index, name);
  if (kind == InputKind::kParameter || kind == InputKind::kBuffer) {
    module_of_value_[value] = ModuleOf(name);
  }
  return WrapFunctional(MakeProxy(real, value, epoch_));
}

at::Tensor Recorder::Constant(const at::Tensor& real) {
  return WrapFunctional(MakeProxy(real, CaptureConstant(real), epoch_));
}

void Recorder::ReportUnsupported(absl::string_view subject, absl::string_view reason) {
  std::string diagnostic = absl::StrCat(subject, ": ", reason);
  if (std::find(diagnostics_.begin(), diagnostics_.end(), diagnostic) == diagnostics_.end()) {
    diagnostics_.push_back(std::move(diagnostic));
  }
}

void Recorder::ReportUnsupportedOp(const c10::OperatorHandle& op, absl::string_view reason) {
  const std::string name = NodeOpName(op.schema());
  const std::string caller = called_op == nullptr ? name : NodeOpName(called_op->schema());
  ReportUnsupported(name, caller == name ? std::string(reason) : absl::StrCat(reason, " (called by ", caller, ")"));
}

int64_t Recorder::TakeRandomSlice(int64_t count) {
  return std::exchange(random_blocks_,
                       random_blocks_ + static_cast<int64_t>(PhiloxBlocks(static_cast<uint64_t>(count))));
}

ValueId Recorder::ValueOf(const at::Tensor& tensor) {
  if (!tensor.defined()) return kNoValue;
  const ProxyTensorImpl* proxy = ProxyOf(tensor);
  if (proxy == nullptr) return CaptureConstant(tensor);
  return proxy->epoch() == epoch_ ? ValueOfProxy(*proxy) : CaptureConstant(proxy->real(), proxy);
}

void Recorder::AllowRawWrites(const at::Tensor& fresh) {
  const ProxyTensorImpl* proxy = ProxyOf(fresh);
  if (proxy == nullptr || proxy->epoch() != epoch_ || proxy->real().numel() == 0) return;
  raw_writes_.Allow(fresh, *proxy);
}

ValueId Recorder::ValueOfProxy(const ProxyTensorImpl& proxy) {
  if (!raw_writes_.Contains(proxy)) return proxy.value();
  if (const ValueId known = raw_writes_.ContentOf(proxy); known != kNoValue) return known;
  const bool is_written = raw_writes_.RevokeAndCompare(proxy);
  const ValueId content = is_written ? CaptureConstant(proxy.real()) : proxy.value();
  raw_writes_.SetContent(proxy, content);
  return content;
}

at::Tensor Recorder::RealOf(const at::Tensor& tensor) {
  const ProxyTensorImpl* proxy = ProxyOf(tensor);
  return proxy == nullptr ? tensor : proxy->real();
}

ValueId Recorder::CaptureConstant(const at::Tensor& real, const ProxyTensorImpl* proxy) {
  for (const auto& [captured, value] : captured_) {
    if (SameTensor(captured, real)) return value;
  }
  const std::string name = absl::StrCat(graph_.name, ".constant.", constants_.size());
  const std::string subject = absl::StrCat("a captured tensor (", c10::str(real.sizes()), ")");
  if (proxy != nullptr && proxy->epoch()->kind == TraceEpoch::Kind::kTrace) {
    ReportUnsupported(subject,
                      "it was computed in an earlier call of the function and kept in an attribute or a "
                      "captured variable, or by the function that calls this block; make it a registered buffer, or an "
                      "argument of the block");
  }
  if (real.has_storage()) {
    const auto found = registered_storages.find(real.storage().data());
    if (found != registered_storages.end() && found->first != nullptr) {
      ReportUnsupported(
          subject, absl::StrCat("it is an attribute that views '", found->second, "'; take the view inside forward()"));
    }
  }
  const TensorType type = TypeOf(real);
  if (type.dtype == DType::kUndefined) {
    ReportUnsupported(subject, absl::StrCat("its dtype ", toString(real.scalar_type()), " is unknown to Cotan"));
    return kNoValue;
  }
  const ValueId value = graph_.AddInput(type, InputKind::kConstant, static_cast<int>(constants_.size()), name);
  TracedState& constant = constants_.emplace_back();
  constant.name = name;
  constant.role = serialization::State::CONSTANT;
  constant.initial = ToTensorData(real);
  constant.persistent = false;
  captured_.emplace_back(real, value);
  return value;
}

std::string Recorder::Source(const Node& node) {
  if (const auto backward = torch::autograd::get_current_node()) {
    const auto found = source_of_sequence_.find(backward->sequence_nr());
    return absl::StrCat("backward of ", found == source_of_sequence_.end() ? backward->name() : found->second);
  }
  std::string module;
  for (ValueId operand : TensorOperands(node)) {
    const auto found = module_of_value_.find(operand);
    if (found == module_of_value_.end()) continue;
    module = found->second;
    break;
  }
  source_of_sequence_.try_emplace(at::sequence_number::peek() - 1, module.empty() ? node.op : module);
  return module;
}

void Recorder::Record(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  const c10::FunctionSchema& schema = op.schema();
  std::vector<c10::IValue> arguments = torch::jit::pop(stack, schema.arguments().size());
  bool any_tensor = false;
  bool any_proxy = false;
  for (const c10::IValue& argument : arguments) {
    VisitTensors(argument, [&](const at::Tensor& tensor) {
      any_tensor = true;
      any_proxy |= AsProxy(tensor) != nullptr;
    });
  }
  // Arithmetic on captured tensors alone, and the runs on meta tensors that functionalization adds, are not
  // part of the function.
  const bool records = (any_proxy || !any_tensor) && HasTensorReturn(schema);
  const std::string name = NodeOpName(schema);
  if (any_proxy && Decompose(op, name, arguments, stack)) return;
  if (const absl::string_view reason = UnsupportedReason(op, arguments); any_proxy && !reason.empty()) {
    ReportUnsupportedOp(op, reason);
  }
  Node node;
  node.op = name;
  if (records) RecordArguments(schema, arguments, node);
  for (c10::IValue& argument : arguments) ReplaceTensors(argument, RealIn);
  const at::Tensor self = !arguments.empty() && arguments[0].isTensor() ? arguments[0].toTensor() : at::Tensor();
  stack.insert(stack.end(), arguments.begin(), arguments.end());
  if (!records) {
    RunReal(op, stack);
    if (any_tensor && !any_proxy) NoteOwnStorages(op, arguments, stack);
    return;
  }
  if (!any_tensor && IsTable(name)) {
    RunReal(op, stack);
    const at::Tensor table = torch::jit::pop(stack).toTensor();
    torch::jit::push(stack, MakeProxy(table, CaptureConstant(table), epoch_));
    return;
  }
  const bool is_in_storage = CheckStorageBounds(name, arguments.size(), stack, *this);
  RunReal(op, stack);
  std::vector<int64_t> order;
  if (is_in_storage) order = CanonicalizeAsStrided(self, node, *this);
  RecordResults(op, stack, node);
  AppendNode(std::move(node));
  AppendInversePermute(order, graph_);
}

void Recorder::RecordArguments(const c10::FunctionSchema& schema, absl::Span<const c10::IValue> arguments, Node& node) {
  const auto use = [&](const at::Tensor& tensor) -> Argument {
    const ProxyTensorImpl* proxy = AsProxy(tensor);
    if (proxy != nullptr && proxy->epoch() == epoch_) return Use{ValueOfProxy(*proxy)};
    return Use{CaptureConstant(proxy == nullptr ? tensor : proxy->real(), proxy)};
  };
  const auto is_constant = [](const at::Tensor& tensor) { return AsProxy(tensor) == nullptr; };
  for (size_t i = 0; i < arguments.size(); ++i) {
    absl::StatusOr<Argument> argument = ToArgument(arguments[i], schema.arguments()[i], use, is_constant);
    if (!argument.ok()) ReportUnsupported(node.op, argument.status().message());
    node.arguments.push_back(argument.ok() ? *std::move(argument) : None{});
  }
}

void Recorder::RecordResults(const c10::OperatorHandle& op, torch::jit::Stack& stack, Node& node) {
  std::vector<c10::IValue> results = torch::jit::pop(stack, op.schema().returns().size());
  for (c10::IValue& result : results) {
    if (result.isTensor() && !result.toTensor().defined()) node.outputs.push_back(kNoValue);
    ReplaceTensors(result, [&](const at::Tensor& real) { return WrapResult(NodeOpName(op.schema()), real, node); });
    torch::jit::push(stack, std::move(result));
  }
}

void Recorder::AppendNode(Node node) {
  node.source = Source(node);
  if (TensorOperands(node).size() == 1 && !node.source.empty()) {
    for (ValueId output : node.outputs) {
      if (output != kNoValue) module_of_value_.try_emplace(output, node.source);
    }
  }
  graph_.nodes().push_back(std::move(node));
}

bool Recorder::Decompose(const c10::OperatorHandle& op, const std::string& name,
                         const std::vector<c10::IValue>& arguments, torch::jit::Stack& stack) {
  const Decomposition* decomposition = decomposer_.Find(name);
  if (decomposition == nullptr) return false;
  torch::jit::Stack reals = arguments;
  for (c10::IValue& argument : reals) {
    ReplaceTensors(argument, RealIn);
  }
  RunReal(op, reals);
  absl::StatusOr<std::vector<c10::IValue>> ran = decomposer_.Run(name, *decomposition, arguments);
  if (!ran.ok()) {
    ReportUnsupported(name, ran.status().message());
    return false;
  }
  std::vector<c10::IValue>& results = *ran;
  std::vector<at::Tensor> expected, given;
  for (const c10::IValue& real : reals) VisitTensors(real, [&](const at::Tensor& t) { expected.push_back(t); });
  for (const c10::IValue& result : results) VisitTensors(result, [&](const at::Tensor& t) { given.push_back(t); });
  const auto fits = [](const at::Tensor& a, const at::Tensor& b) {
    return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type();
  };
  if (results.size() != reals.size() ||
      !std::equal(given.begin(), given.end(), expected.begin(), expected.end(), fits)) {
    ReportUnsupported(name, "its decomposition gives results of other number, sizes or dtypes than the op's");
    return false;
  }
  size_t next = 0;
  for (c10::IValue& result : results) {
    ReplaceTensors(result, [&](const at::Tensor& tensor) { return ConformTo(expected[next++], tensor); });
    torch::jit::push(stack, std::move(result));
  }
  return true;
}

at::Tensor Recorder::ConformTo(const at::Tensor& real, const at::Tensor& result) {
  const ProxyTensorImpl* proxy = AsProxy(result);
  const bool is_own = proxy != nullptr && proxy->epoch() == epoch_;
  const at::Tensor& content = proxy == nullptr ? result : proxy->real();
  const c10::impl::ExcludeDispatchKeyGuard guard(kTracingKeys);
  at::Tensor conformed = at::empty_strided(real.sizes(), real.strides(), real.options());
  conformed.copy_(content);
  return MakeProxy(conformed, is_own ? ValueOfProxy(*proxy) : CaptureConstant(content, proxy), epoch_);
}

void Recorder::NoteOwnStorages(const c10::OperatorHandle& op, absl::Span<const c10::IValue> arguments,
                               const torch::jit::Stack& stack) {
  absl::flat_hash_set<const c10::StorageImpl*> given;
  for (const c10::IValue& argument : arguments) {
    VisitTensors(argument, [&](const at::Tensor& tensor) {
      if (tensor.has_storage()) given.insert(tensor.storage().unsafeGetStorageImpl());
    });
  }
  for (const c10::IValue& result : torch::jit::last(stack, op.schema().returns().size())) {
    VisitTensors(result, [&](const at::Tensor& tensor) {
      if (tensor.is_meta() || !tensor.has_storage()) return;
      const c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
      if (!given.contains(storage)) own_storages_.try_emplace(storage, tensor.storage().getWeakStorageImpl());
    });
  }
}

bool Recorder::IsOwn(const at::Tensor& real) const {
  return real.has_storage() && own_storages_.contains(real.storage().unsafeGetStorageImpl());
}

void Recorder::ForgetContent(const at::Tensor& real) {
  std::erase_if(captured_,
                [&](const auto& entry) { return entry.first.has_storage() && entry.first.is_alias_of(real); });
}

void Recorder::CheckWrites(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const std::vector<c10::Argument>& declared = op.schema().arguments();
  bool any_traced = false;
  for (const c10::IValue& argument : torch::jit::last(stack, declared.size())) {
    VisitTensors(argument, [&](const at::Tensor& tensor) {
      any_traced = any_traced || at::functionalization::impl::isFunctionalTensor(tensor);
    });
  }
  for (size_t i = 0; i < declared.size(); ++i) {
    if (declared[i].alias_info() == nullptr || !declared[i].alias_info()->isWrite()) continue;
    VisitTensors(torch::jit::peek(stack, i, declared.size()), [&](const at::Tensor& tensor) {
      if (tensor.is_meta()) return;  // functionalization's run on meta tensors
      const ProxyTensorImpl* proxy = ProxyOf(tensor);
      if (proxy != nullptr && proxy->epoch() == epoch_) return;
      const bool is_own = proxy == nullptr && IsOwn(tensor);
      if (is_own && !any_traced) return ForgetContent(tensor);
      if (is_own) {
        ReportUnsupported(
            NodeOpName(op.schema()),
            absl::StrCat("it writes what depends on inputs to a tensor (", c10::str(tensor.sizes()),
                         ") that is computed from captured tensors alone; write to one that a factory "
                         "makes in the function (zeros, empty), or use the form that returns its result"));
        return;
      }
      ReportUnsupported(NodeOpName(op.schema()),
                        absl::StrCat("it writes to a tensor (", c10::str(tensor.sizes()),
                                     ") that is neither a registered parameter or buffer nor an input; "
                                     "register it as a buffer"));
    });
  }
}

void Recorder::NoteWrite(const at::Tensor& functional) {
  writes_.emplace_back(functional.storage().unsafeGetStorageImpl(), PlaceOf(functional));
}

bool Recorder::HasWrittenOutsideOf(const at::Tensor& functional) const {
  const void* storage = functional.storage().unsafeGetStorageImpl();
  const StridedLayout layout = PlaceOf(functional);
  return std::any_of(writes_.begin(), writes_.end(),
                     [&](const auto& write) { return write.first == storage && !Covers(layout, write.second); });
}

bool Recorder::HasWrittenIn(const void* storage) const {
  return std::any_of(writes_.begin(), writes_.end(), [&](const auto& write) { return write.first == storage; });
}

at::Tensor Recorder::WrapResult(const std::string& op, const at::Tensor& real, Node& node) {
  const TensorType type = TypeOf(real);
  if (type.dtype == DType::kUndefined) {
    ReportUnsupported(
        op, absl::StrCat("its result has dtype ", toString(real.scalar_type()), ", which is unknown to Cotan"));
  }
  node.outputs.push_back(graph_.AddValue(type));
  return MakeProxy(real, node.outputs.back(), epoch_);
}

}  // namespace cotan::aot
