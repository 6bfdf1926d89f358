// SPDX-License-Identifier: Apache-2.0

#include "aot/blocks/block.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <c10/core/DefaultDtype.h>
#include <c10/util/StringUtil.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "aot/blocks/block_table.h"
#include "aot/blocks/block_values.h"
#include "aot/capture/proxy_tensor.h"
#include "aot/capture/real_scope.h"
#include "aot/capture/recorder.h"
#include "aot/decompositions/linear_adapters.h"
#include "aot/decompositions/quantized_weights.h"

namespace cotan::aot {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kDrawsPerBlock = 4;  // of Philox (base/philox.h)

// --- ops -----------------------------------------------------------------------------

// The kernels of the ops of aot/ir/call_node.h on real tensors. A ticket is the number of the call.
std::vector<at::Tensor> BlockCpu(at::TensorList operands, int64_t number, int64_t slice, std::string_view path) {
  BlockTable& table = *BlockScope::Current();
  const TracedBlock& block = table.block(static_cast<int>(number));
  BlockTable::Values values;
  std::vector<at::Tensor> results = table.computes_values()
                                        ? ComputeResults(block, {operands.data(), operands.size()}, slice, values)
                                        : ZeroResults(block);
  results.push_back(at::full({1}, table.AddValues(std::move(values)), at::TensorOptions(at::kLong)));
  return results;
}

std::vector<at::Tensor> BlockBackwardCpu(const at::Tensor& ticket, at::TensorList tangents, int64_t number,
                                         int64_t slice, std::string_view path) {
  BlockTable& table = *BlockScope::Current();
  const TracedBlock& block = table.block(static_cast<int>(number));
  if (!table.computes_values()) return ZeroGradients(block);
  return ComputeGradients(block, {tangents.data(), tangents.size()},
                          table.ValuesOf(ticket.const_data_ptr<int64_t>()[0]));
}

void RegisterOps() {
  static torch::Library* const library = [] {
    auto* ops = new torch::Library(torch::Library::FRAGMENT, "cotan", std::nullopt, __FILE__, __LINE__);
    ops->def("block(Tensor[] operands, int block, int slice, str path) -> Tensor[]");
    ops->impl("block", torch::dispatch(c10::DispatchKey::CPU, BlockCpu));
    ops->impl("block", torch::dispatch(c10::DispatchKey::Autograd, torch::CppFunction::makeFallthrough()));
    ops->def("block_backward(Tensor ticket, Tensor[] tangents, int block, int slice, str path) -> Tensor[]");
    ops->impl("block_backward", torch::dispatch(c10::DispatchKey::CPU, BlockBackwardCpu));
    ops->impl("block_backward", torch::dispatch(c10::DispatchKey::Autograd, torch::CppFunction::makeFallthrough()));
    return ops;
  }();
  static_cast<void>(library);
}

// Where a block is called.
struct Place {
  int block = 0;
  int64_t slice = 0;
  std::string path;
};

// Returns the results, then the ticket.
std::vector<at::Tensor> CallForward(const std::vector<at::Tensor>& operands, const Place& place) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("cotan::block", "").typed<decltype(BlockCpu)>();
  return op.call(operands, place.block, place.slice, place.path);
}

std::vector<at::Tensor> CallBackward(const at::Tensor& ticket, const std::vector<at::Tensor>& tangents,
                                     const Place& place) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("cotan::block_backward", "").typed<decltype(BlockBackwardCpu)>();
  return op.call(ticket, tangents, place.block, place.slice, place.path);
}

// The call as a node of LibTorch's autograd.
class BlockFunction : public torch::autograd::Function<BlockFunction> {
 public:
  static variable_list forward(AutogradContext* context, at::TensorList operands, int64_t block, int64_t slice,
                               const std::string& path) {
    variable_list results = CallForward(operands.vec(), {static_cast<int>(block), slice, path});
    context->saved_data["ticket"] = results.back();
    context->saved_data["block"] = block;
    context->saved_data["slice"] = slice;
    context->saved_data["path"] = path;
    results.pop_back();
    const TracedBlock& traced = BlockScope::Current()->block(static_cast<int>(block));
    variable_list constant;
    for (size_t i = 0; i < results.size(); ++i) {
      if (!traced.is_differentiable[i]) constant.push_back(results[i]);
    }
    context->mark_non_differentiable(constant);
    return results;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const Place place{static_cast<int>(context->saved_data["block"].toInt()), context->saved_data["slice"].toInt(),
                      context->saved_data["path"].toStringRef()};
    TORCH_CHECK(!at::GradMode::is_enabled(), "the backward of block '", place.path,
                "' is differentiated (create_graph): call it without COTAN_BLOCK");
    const TracedBlock& traced = BlockScope::Current()->block(place.block);
    variable_list tangents;
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (traced.is_differentiable[i]) tangents.push_back(gradients[i]);
    }
    const variable_list found = CallBackward(context->saved_data["ticket"].toTensor(), tangents, place);
    variable_list results(traced.operands.size() + 3);  // of operands, block, slice and path
    for (size_t i = 0; i < found.size(); ++i) results[traced.gradient_operands[i]] = found[i];
    return results;
  }
};

// --- calls ---------------------------------------------------------------------------

// Adds a parameter or buffer, unless it is there. Returns why it cannot be one of a block.
std::string AddState(const std::string& name, serialization::State::Role role, const at::Tensor& tensor,
                     std::vector<ModuleState>& states) {
  const auto is_same = [&](const ModuleState& state) { return state.tensor.is_same(tensor); };
  if (!tensor.defined() || std::any_of(states.begin(), states.end(), is_same)) return "";
  const ProxyTensorImpl* proxy = ProxyOf(tensor);
  if (proxy == nullptr || tensor.grad_fn() != nullptr) {
    return absl::StrCat("'", name, "' was computed in the call of the model");
  }
  if (HasAdapter(tensor)) return absl::StrCat("'", name, "' has an adapter");
  if (IsQuantizedWeight(tensor)) return absl::StrCat("'", name, "' is quantized");
  ModuleState& state = states.emplace_back();
  state.name = name;
  state.role = role;
  state.tensor = tensor;
  state.initial = proxy->real();
  state.requires_grad = tensor.requires_grad();
  state.is_borrowed = true;
  return "";
}

// Adds the parameters and buffers of the call, each once; parameters come first. Returns why it cannot be done.
std::string AddStates(const BlockCall& call, std::vector<ModuleState>& states) {
  std::string reason;
  const auto add = [&](const std::string& name, serialization::State::Role role, const at::Tensor& tensor) {
    std::string found = AddState(name, role, tensor, states);
    if (reason.empty()) reason = std::move(found);
  };
  for (const BlockState& state : call.states) add(state.name, state.role, state.tensor);
  if (call.module == nullptr) return reason;
  for (const auto& item : call.module->named_parameters()) {
    add(item.key(), serialization::State::PARAMETER, item.value());
  }
  for (const auto& item : call.module->named_buffers()) add(item.key(), serialization::State::BUFFER, item.value());
  return reason;
}

// Returns the path of the module in the trace in progress, by the name of its first state.
std::string PathOf(const std::vector<ModuleState>& states) {
  if (states.empty()) return "";
  const ValueId value = ProxyOf(states[0].tensor)->value();
  for (const GraphInput& input : CurrentRecorder()->graph().inputs()) {
    if (input.value != value) continue;
    absl::string_view name = input.name;
    if (!absl::ConsumeSuffix(&name, states[0].name)) return "";
    absl::ConsumeSuffix(&name, ".");
    return std::string(name);
  }
  return "";
}

void AppendType(const at::Tensor& tensor, std::string& text) {
  absl::StrAppend(&text, c10::toString(tensor.scalar_type()), "[", absl::StrJoin(tensor.sizes(), ","), "]{",
                  absl::StrJoin(tensor.strides(), ","), tensor.requires_grad() ? "}g " : "} ");
}

std::string SignatureOf(const BlockArguments& arguments, bool is_training) {
  std::string text;
  for (const ModuleState& state : arguments.states) {
    absl::StrAppend(&text, state.role == serialization::State::PARAMETER ? "p" : "b");
    AppendType(state.tensor, text);
  }
  for (const at::Tensor& input : arguments.inputs) AppendType(input, text);
  absl::StrAppend(&text, at::GradMode::is_enabled() ? "grad " : "", is_training ? "train " : "",
                  c10::toString(at::get_default_dtype_as_scalartype()), " ");
  if (at::autocast::is_autocast_enabled(at::kCPU)) {
    absl::StrAppend(&text, "autocast ", c10::toString(at::autocast::get_autocast_dtype(at::kCPU)));
  }
  return text;
}

// Returns whether all inputs are tensors of the trace in progress; makes captured ones without gradient constants of
// it.
bool TakeInputs(const std::vector<at::Tensor>& inputs, std::vector<at::Tensor>& taken) {
  for (const at::Tensor& input : inputs) {
    if (!input.defined() || input.is_complex()) return false;
    const ProxyTensorImpl* proxy = ProxyOf(input);
    if (proxy != nullptr && proxy->epoch() != CurrentRecorder()->epoch()) return false;
    if (proxy == nullptr && input.requires_grad() && at::GradMode::is_enabled()) return false;
    taken.push_back(proxy == nullptr ? CurrentRecorder()->Constant(input) : input);
  }
  return true;
}

std::vector<at::Tensor> OperandsOf(const TracedBlock& block, const BlockArguments& arguments) {
  std::vector<at::Tensor> operands;
  for (const BlockOperand& operand : block.operands) {
    switch (operand.kind) {
      case BlockOperand::Kind::kState:
        operands.push_back(arguments.states[operand.index].tensor);
        break;
      case BlockOperand::Kind::kInput:
        operands.push_back(arguments.inputs[operand.index]);
        break;
      case BlockOperand::Kind::kConstant:
        operands.push_back(CurrentRecorder()->Constant(block.constants[operand.index]));
        break;
      case BlockOperand::Kind::kRngState:
        operands.push_back(CurrentRecorder()->rng_state);
        break;
    }
  }
  return operands;
}

// Records the call, writes the states that the block writes, and returns what the body returns.
std::vector<at::Tensor> Share(const BlockArguments& arguments, Place place) {
  const TracedBlock& block = BlockScope::Current()->block(place.block);
  const int64_t num_random = block.traced.rng_blocks.constant();
  if (num_random > 0) place.slice = CurrentRecorder()->TakeRandomSlice(num_random * kDrawsPerBlock);
  const std::vector<at::Tensor> operands = OperandsOf(block, arguments);
  const std::vector<at::Tensor> results =
      BlockFunction::apply(at::TensorList(operands), static_cast<int64_t>(place.block), place.slice, place.path);
  for (size_t i = 0; i < block.written_states.size(); ++i) {
    arguments.states[block.written_states[i]].tensor.copy_(results[i]);
  }
  std::vector<at::Tensor> returned;
  size_t next = block.written_states.size();
  for (const bool is_empty : block.is_empty) returned.push_back(is_empty ? at::Tensor() : results[next++]);
  return returned;
}

}  // namespace

std::optional<std::vector<at::Tensor>> ShareBlock(const BlockCall& call, const std::vector<at::Tensor>& inputs) {
  BlockTable* table = BlockScope::Current();
  if (table == nullptr || CurrentRecorder() == nullptr) return std::nullopt;
  RefuseOpSequence();
  RegisterOps();
  BlockArguments arguments;
  arguments.body = call.body;
  arguments.module = call.module;
  arguments.key = call.key;
  std::string reason = AddStates(call, arguments.states);
  if (reason.empty()) reason = call.refusal;
  const std::string path = call.path.empty() ? PathOf(arguments.states) : call.path;
  if (reason.empty()) reason = table->refusal_of_all();
  if (reason.empty() && !TakeInputs(inputs, arguments.inputs)) {
    reason = "an input is undefined, complex, of another call of the model, or captured and requires grad";
  }
  if (!reason.empty()) {
    table->AddRefusal(path, reason);
    return std::nullopt;
  }
  arguments.signature = SignatureOf(arguments, call.module != nullptr && call.module->is_training());
  const absl::StatusOr<int> block = table->Find(arguments);
  if (block.ok()) return Share(arguments, {*block, 0, path});
  if (!block.status().message().empty()) table->AddRefusal(path, block.status().message());
  return std::nullopt;
}

std::vector<at::Tensor> RunBlock(const BlockCall& call, const std::vector<at::Tensor>& inputs) {
  std::optional<std::vector<at::Tensor>> results = ShareBlock(call, inputs);
  return results.has_value() ? *std::move(results) : call.body(inputs);
}

}  // namespace cotan::aot
