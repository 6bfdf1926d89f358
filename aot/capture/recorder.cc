// SPDX-License-Identifier: Apache-2.0

#include "aot/capture/recorder.h"

#include <ATen/SequenceNumber.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/StringUtil.h>
#include <torch/csrc/autograd/node.h>
#include <torch/library.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "aot/capture/argument.h"
#include "aot/capture/dispatch_keys.h"
#include "aot/capture/real_scope.h"
#include "aot/capture/storage_view.h"
#include "aot/capture/tensor_data.h"
#include "base/layout.h"
#include "base/overlap.h"
#include "base/philox.h"

namespace cotan::aot {
namespace {

thread_local Recorder* current_recorder = nullptr;
thread_local std::shared_ptr<TraceEpoch> construction_epoch;

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

// Returns whether the op makes a table from numbers alone that cannot be written as an expression of the
// element's index. Such tables are computed while tracing.
bool IsTable(absl::string_view op) {
  return op == "aten.tril_indices.default" || op == "aten.triu_indices.default" || absl::StrContains(op, "_window.");
}

// Returns why the op is unsupported; empty if it is supported.
absl::string_view ReasonToRefuse(const c10::OperatorHandle& op, absl::Span<const c10::IValue> arguments) {
  if (op.hasTag(at::Tag::data_dependent_output)) {
    return "it reads the content of a tensor, so what is computed next could depend on data; "
           "compute with tensors instead (torch::where, masks)";
  }
  if (op.hasTag(at::Tag::dynamic_output_shape) && !IndexesByIntegers(op, arguments)) {
    return "the size of its result depends on the content of a tensor; "
           "compute with tensors of fixed sizes instead (torch::where, masks)";
  }
  if (op.hasTag(at::Tag::nondeterministic_seeded)) {
    return "it draws random numbers in a way that has no counter-based form";
  }
  if (op.schema().is_mutable()) return "it writes to its argument and has no functional form";
  return "";
}

constexpr absl::string_view kAsStridedScatter = "aten.as_strided_scatter.default";

// Returns the index of the first of the arguments size, stride and storage_offset of ops that address a
// tensor's storage; 0 for all other ops.
size_t GeometryArgument(absl::string_view op) {
  if (op == "aten.as_strided.default" || op == "aten.as_strided_copy.default") return 1;
  return op == kAsStridedScatter ? 2 : 0;
}

// Throws c10::Error if an as_strided op addresses memory outside the storage of `self`. Computed and
// written tensors have no storage beyond their elements.
void CheckStorageView(absl::string_view op, const at::Tensor& self, c10::ArrayRef<c10::IValue> arguments) {
  const size_t first = GeometryArgument(op);
  if (first == 0) return;
  StridedLayout view;
  for (const int64_t size : arguments[first].toIntVector()) view.sizes.push_back(size);
  for (const int64_t stride : arguments[first + 1].toIntVector()) view.strides.push_back(stride);
  view.offset = arguments[first + 2].isNone() ? self.storage_offset() : arguments[first + 2].toInt();
  const auto elements = static_cast<int64_t>(self.storage().nbytes() / self.element_size());
  TORCH_CHECK(view.offset >= 0 && StorageExtent(view) <= elements,
              "it accesses memory outside the elements of its argument: elements from ", view.offset, " up to ",
              StorageExtent(view), " of ", elements);
}

ValueId Flatten(Graph& graph, ValueId value) {
  TensorType type = graph.value(value).type;
  int64_t count = 1;
  for (const SymInt& size : type.sizes) count *= size.constant();
  type.sizes = {SymInt(count)};
  return graph
      .InsertNode(graph.nodes().end(), "aten.view.default", {Use{value}, std::vector<SymInt>{SymInt(count)}}, {{type}})
      .outputs[0];
}

// Rewrites an as_strided as index_select or index_copy on flattened elements. Returns false if that is not
// possible.
bool LowerAsStridedToIndexing(const StridedLayout& tensor, const StridedLayout& view, Recorder& recorder, Node& node) {
  const std::optional<std::vector<int64_t>> positions = ToPositions(tensor, view);
  if (!positions.has_value()) return false;
  Graph& graph = recorder.graph();
  const bool scatters = node.op == kAsStridedScatter;
  if (scatters && std::set<int64_t>(positions->begin(), positions->end()).size() < positions->size()) return false;
  const at::Tensor index_of = [&] {
    const RealScope real;
    return at::tensor(*positions, at::kLong);
  }();
  const ValueId index = recorder.ValueOf(index_of);
  const ValueId elements = Flatten(graph, std::get<Use>(node.arguments[0]).value);
  TensorType type = graph.value(elements).type;
  std::vector<Argument> arguments = {Use{elements}, SymInt(0), Use{index}};
  std::vector<SymInt> sizes;
  if (scatters) {
    arguments.push_back(Use{Flatten(graph, std::get<Use>(node.arguments[1]).value)});
    sizes.assign(tensor.sizes.begin(), tensor.sizes.end());
  } else {
    type.sizes = {SymInt(static_cast<int64_t>(positions->size()))};
    sizes.assign(view.sizes.begin(), view.sizes.end());
  }
  const Node& moved =
      graph.InsertNode(graph.nodes().end(), scatters ? "aten.index_copy.default" : "aten.index_select.default",
                       std::move(arguments), {{type}});
  node.op = "aten.view.default";
  node.arguments = {Use{moved.outputs[0]}, sizes};
  return true;
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

void Recorder::Refuse(absl::string_view subject, absl::string_view reason) {
  std::string refusal = absl::StrCat(subject, ": ", reason);
  if (std::find(refusals_.begin(), refusals_.end(), refusal) == refusals_.end()) {
    refusals_.push_back(std::move(refusal));
  }
}

void Recorder::RefuseOp(const c10::OperatorHandle& op, absl::string_view reason) {
  const std::string name = NodeOpName(op.schema());
  const std::string caller = called_op == nullptr ? name : NodeOpName(called_op->schema());
  Refuse(name, caller == name ? std::string(reason) : absl::StrCat(reason, " (called by ", caller, ")"));
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
  std::memset(proxy->real().mutable_data_ptr(), 0, proxy->real().nbytes());
  c10::Storage storage = fresh.storage();
  storage.set_data_ptr_noswap(c10::DataPtr(proxy->real().mutable_data_ptr(), proxy->real().device()));
  exposed_.try_emplace(proxy->value(), Exposed{WeakTensor(fresh.getIntrusivePtr()), kNoValue});
}

void Recorder::RevokeRawWrites() {
  for (auto& [value, exposed] : exposed_) Hide(exposed);
}

void Recorder::Hide(Exposed& exposed) {
  if (const auto shown = exposed.shown.lock()) {
    c10::Storage storage = shown->storage();
    storage.set_data_ptr_noswap(c10::DataPtr(nullptr, storage.device()));
  }
  exposed.shown.reset();
}

ValueId Recorder::ValueOfProxy(const ProxyTensorImpl& proxy) {
  const auto found = exposed_.find(proxy.value());
  if (found == exposed_.end()) return proxy.value();
  Exposed& exposed = found->second;
  if (exposed.content != kNoValue) return exposed.content;
  Hide(exposed);
  const auto* bytes = static_cast<const char*>(proxy.real().const_data_ptr());
  const bool is_zero = std::all_of(bytes, bytes + proxy.real().nbytes(), [](char byte) { return byte == 0; });
  // CaptureConstant() may add elements to the map and invalidate `exposed`.
  const ValueId content = is_zero ? proxy.value() : CaptureConstant(proxy.real());
  exposed_.at(proxy.value()).content = content;
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
    Refuse(subject,
           "it was computed in an earlier call of the function and kept in an attribute or a "
           "captured variable; make it a registered buffer");
  }
  if (real.has_storage()) {
    const auto found = registered_storages.find(real.storage().data());
    if (found != registered_storages.end() && found->first != nullptr) {
      Refuse(subject,
             absl::StrCat("it is an attribute that views '", found->second, "'; take the view inside forward()"));
    }
  }
  const TensorType type = TypeOf(real);
  if (type.dtype == DType::kUndefined) {
    Refuse(subject, absl::StrCat("its dtype ", toString(real.scalar_type()), " is unknown to Cotan"));
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
  if (const absl::string_view reason = ReasonToRefuse(op, arguments); any_proxy && !reason.empty()) {
    RefuseOp(op, reason);
  }

  Node node;
  node.op = name;
  const auto use = [&](const at::Tensor& tensor) -> Argument {
    const ProxyTensorImpl* proxy = AsProxy(tensor);
    if (proxy != nullptr && proxy->epoch() == epoch_) return Use{ValueOfProxy(*proxy)};
    return Use{CaptureConstant(proxy == nullptr ? tensor : proxy->real(), proxy)};
  };
  at::Tensor self;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (records) {
      absl::StatusOr<Argument> argument = ToArgument(arguments[i], schema.arguments()[i], use);
      if (!argument.ok()) Refuse(name, argument.status().message());
      node.arguments.push_back(argument.ok() ? *std::move(argument) : None{});
    }
    ReplaceTensors(arguments[i], [](const at::Tensor& tensor) {
      const ProxyTensorImpl* proxy = AsProxy(tensor);
      return proxy == nullptr ? tensor : proxy->real();
    });
    if (i == 0 && arguments[i].isTensor()) self = arguments[i].toTensor();
    torch::jit::push(stack, std::move(arguments[i]));
  }

  if (records) CheckStorageView(name, self, torch::jit::last(stack, arguments.size()));
  RunReal(op, stack);
  if (!records) return;
  if (!any_tensor && IsTable(name)) {
    const at::Tensor table = torch::jit::pop(stack).toTensor();
    torch::jit::push(stack, MakeProxy(table, CaptureConstant(table), epoch_));
    return;
  }
  const std::vector<int64_t> order = CanonicalizeAsStrided(self, node);

  std::vector<c10::IValue> results = torch::jit::pop(stack, schema.returns().size());
  for (c10::IValue& result : results) {
    if (result.isTensor() && !result.toTensor().defined()) node.outputs.push_back(kNoValue);
    ReplaceTensors(result, [&](const at::Tensor& real) { return WrapResult(name, real, node); });
    torch::jit::push(stack, std::move(result));
  }
  const bool scatters = name == kAsStridedScatter && !order.empty();
  node.source = Source(node);
  if (TensorOperands(node).size() == 1 && !node.source.empty()) {
    for (ValueId output : node.outputs) {
      if (output != kNoValue) module_of_value_.try_emplace(output, node.source);
    }
  }
  graph_.nodes().push_back(std::move(node));
  if (scatters) AppendInversePermute(order);
}

bool Recorder::Decompose(const c10::OperatorHandle& op, const std::string& name,
                         const std::vector<c10::IValue>& arguments, torch::jit::Stack& stack) {
  const Decomposition* decomposition = decomposer_.Find(name);
  if (decomposition == nullptr) return false;
  torch::jit::Stack reals = arguments;
  for (c10::IValue& argument : reals) {
    ReplaceTensors(argument, [](const at::Tensor& tensor) {
      const ProxyTensorImpl* proxy = AsProxy(tensor);
      return proxy == nullptr ? tensor : proxy->real();
    });
  }
  RunReal(op, reals);
  absl::StatusOr<std::vector<c10::IValue>> ran = decomposer_.Run(name, *decomposition, arguments);
  if (!ran.ok()) {
    Refuse(name, ran.status().message());
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
    Refuse(name, "its decomposition gives results of other number, sizes or dtypes than the op's");
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
  at::Tensor moved = at::empty_strided(real.sizes(), real.strides(), real.options());
  moved.copy_(content);
  return MakeProxy(moved, is_own ? ValueOfProxy(*proxy) : CaptureConstant(content, proxy), epoch_);
}

std::vector<int64_t> Recorder::CanonicalizeAsStrided(const at::Tensor& self, Node& node) {
  const size_t first = GeometryArgument(node.op);
  if (first == 0 || !std::holds_alternative<Use>(node.arguments[0])) return {};
  StridedLayout view;
  for (const SymInt& size : std::get<std::vector<SymInt>>(node.arguments[first])) view.sizes.push_back(size.constant());
  for (const SymInt& s : std::get<std::vector<SymInt>>(node.arguments[first + 1])) view.strides.push_back(s.constant());
  const SymInt* offset = std::get_if<SymInt>(&node.arguments[first + 2]);
  view.offset = offset == nullptr ? self.storage_offset() : offset->constant();
  const std::optional<StorageView> canonical = ToStorageView(LayoutOf(self), view);
  if (!canonical.has_value()) {
    if (LowerAsStridedToIndexing(LayoutOf(self), view, *this, node)) return {};
    Refuse(node.op, "it accesses memory outside the elements of its argument");
    return {};
  }
  node.arguments[first + 1] = std::vector<SymInt>(canonical->strides.begin(), canonical->strides.end());
  node.arguments[first + 2] = SymInt(canonical->offset);
  if (canonical->order.empty()) return {};
  node.arguments[0] = Use{Permute(std::get<Use>(node.arguments[0]).value, canonical->order)};
  return canonical->order;
}

ValueId Recorder::Permute(ValueId value, const std::vector<int64_t>& order) {
  TensorType type = graph_.value(value).type;
  SymIntVector sizes;
  for (const int64_t dim : order) sizes.push_back(type.sizes[static_cast<size_t>(dim)]);
  type.sizes = std::move(sizes);
  return graph_
      .InsertNode(graph_.nodes().end(), "aten.permute.default",
                  {Use{value}, std::vector<SymInt>(order.begin(), order.end())}, {{type}})
      .outputs[0];
}

void Recorder::AppendInversePermute(const std::vector<int64_t>& order) {
  Node& node = graph_.nodes().back();
  const ValueId result = node.outputs[0];  // the value of the proxy
  TensorType permuted = graph_.value(result).type;
  std::vector<SymInt> inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    permuted.sizes[i] = graph_.value(result).type.sizes[static_cast<size_t>(order[i])];
    inverse[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  }
  node.outputs[0] = graph_.AddValue(permuted);
  Node undo;
  undo.op = "aten.permute.default";
  undo.arguments = {Use{node.outputs[0]}, inverse};
  undo.outputs = {result};
  undo.source = node.source;
  graph_.nodes().push_back(std::move(undo));
}

void Recorder::CheckWrites(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const std::vector<c10::Argument>& declared = op.schema().arguments();
  for (size_t i = 0; i < declared.size(); ++i) {
    if (declared[i].alias_info() == nullptr || !declared[i].alias_info()->isWrite()) continue;
    VisitTensors(torch::jit::peek(stack, i, declared.size()), [&](const at::Tensor& tensor) {
      if (tensor.is_meta()) return;  // functionalization's run on meta tensors
      const ProxyTensorImpl* proxy = ProxyOf(tensor);
      if (proxy != nullptr && proxy->epoch() == epoch_) return;
      Refuse(NodeOpName(op.schema()), absl::StrCat("it writes to a tensor (", c10::str(tensor.sizes()),
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
    Refuse(op, absl::StrCat("its result has dtype ", toString(real.scalar_type()), ", which is unknown to Cotan"));
  }
  node.outputs.push_back(graph_.AddValue(type));
  return MakeProxy(real, node.outputs.back(), epoch_);
}

}  // namespace cotan::aot
