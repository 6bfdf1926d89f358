// SPDX-License-Identifier: Apache-2.0

#include "aot/frontend/pt2/interpreter.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/stack.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "aot/blocks/block.h"
#include "aot/capture/data_sizes.h"
#include "aot/capture/effects.h"
#include "aot/capture/number.h"
#include "aot/frontend/pt2/op_argument.h"
#include "aot/frontend/pt2/scalar_op.h"

namespace cotan::aot::pt2 {
namespace {

using c10::IValue;

// --- Ops ---------------------------------------------------------------------

// "torch.ops.aten.add.Tensor" -> {"aten::add", "Tensor"}.
std::optional<c10::OperatorName> OperatorNameOf(absl::string_view target) {
  const std::vector<std::string> parts = absl::StrSplit(target, '.');
  if (parts.size() != 5 || parts[0] != "torch" || parts[1] != "ops") return std::nullopt;
  return c10::OperatorName(absl::StrCat(parts[2], "::", parts[3]), parts[4] == "default" ? "" : parts[4]);
}

std::vector<IValue> ArgumentsOf(const Node& node, const c10::FunctionSchema& schema, const Environment& values) {
  const std::vector<c10::Argument>& declared = schema.arguments();
  std::vector<std::optional<IValue>> given(declared.size());
  for (const NamedArgument& input : node.inputs) {
    const std::optional<int> index = schema.argumentIndexWithName(input.name);
    if (!index.has_value()) throw std::invalid_argument(absl::StrCat("the op has no argument '", input.name, "'"));
    const auto i = static_cast<size_t>(*index);
    given[i] = ToOpArgument(input.value, declared[i], values);
  }
  std::vector<IValue> arguments;
  for (size_t i = 0; i < declared.size(); ++i) {
    if (!given[i].has_value()) given[i] = declared[i].default_value();
    if (!given[i].has_value())
      throw std::invalid_argument(absl::StrCat("argument '", declared[i].name(), "' is missing"));
    arguments.push_back(*std::move(given[i]));
  }
  return arguments;
}

// Binds a result to the names in `output`.
void Bind(const Argument& output, const IValue& result, Environment& values) {
  if (const Name* name = std::get_if<Name>(&output)) {
    values[name->name] = result;
    return;
  }
  const Tensors* names = std::get_if<Tensors>(&output);
  if (names == nullptr) return;  // None
  const c10::ArrayRef<IValue> members = result.toListRef();
  if (members.size() != names->size()) {
    throw std::invalid_argument(absl::StrCat("the op returned ", members.size(), " tensors, not ", names->size()));
  }
  for (size_t i = 0; i < members.size(); ++i) {
    if ((*names)[i].has_value()) values[(*names)[i]->name] = members[i];
  }
}

void BindAll(const Node& node, const std::vector<IValue>& results, Environment& values) {
  if (node.outputs.size() > results.size()) {
    throw std::invalid_argument(absl::StrCat("the op returned ", results.size(), " values, not ", node.outputs.size()));
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) Bind(node.outputs[i], results[i], values);
}

// Returns the range of a size that depends on data, if the archive has a maximum of it.
std::optional<SizeRange> DataRangeOf(const Node& node) {
  if (!node.data_size.has_value() || node.data_size->max.value_or(0) < 1) return std::nullopt;
  return SizeRange{.min = std::max<int64_t>(node.data_size->min, 0), .max = *node.data_size->max};
}

std::vector<IValue> CallOp(const Node& node, const c10::OperatorHandle& op, const Environment& values) {
  const DataRangeScope range(DataRangeOf(node));
  torch::jit::Stack stack = ArgumentsOf(node, op.schema(), values);
  op.callBoxed(stack);
  for (IValue& result : stack) {
    if (result.isSymInt()) result = result.toSymInt().guard_int(__FILE__, __LINE__);
  }
  return stack;
}

// --- Higher-order ops ----------------------------------------------------------

// Runs a subgraph on the node's arguments from `first` on.
std::vector<IValue> CallSubgraph(const Node& node, const Graph& graph, size_t first, const Environment& values) {
  if (node.inputs.size() != first + graph.inputs.size()) {
    throw std::invalid_argument(absl::StrCat("its subgraph takes ", graph.inputs.size(), " inputs, not ",
                                             node.inputs.size() - std::min(first, node.inputs.size())));
  }
  Environment inner;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    if (const Name* name = std::get_if<Name>(&graph.inputs[i])) {
      inner[name->name] = ValueOf(node.inputs[first + i].value, values);
    }
  }
  RunGraph(graph, inner);
  std::vector<IValue> results;
  for (const Argument& output : graph.outputs) results.push_back(ValueOf(output, inner));
  return results;
}

// Sets autocast on the CPU and restores it. Casts are not cached: a cached tensor would outlive the
// trace.
class AutocastScope {
 public:
  AutocastScope(bool enabled, std::optional<at::ScalarType> dtype)
      : enabled_(at::autocast::is_autocast_enabled(at::kCPU)),
        dtype_(at::autocast::get_autocast_dtype(at::kCPU)),
        cache_(at::autocast::is_autocast_cache_enabled()) {
    at::autocast::set_autocast_enabled(at::kCPU, enabled);
    if (dtype.has_value()) at::autocast::set_autocast_dtype(at::kCPU, *dtype);
    at::autocast::set_autocast_cache_enabled(false);
  }
  ~AutocastScope() {
    at::autocast::set_autocast_enabled(at::kCPU, enabled_);
    at::autocast::set_autocast_dtype(at::kCPU, dtype_);
    at::autocast::set_autocast_cache_enabled(cache_);
  }
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  bool enabled_;
  at::ScalarType dtype_;
  bool cache_;
};

template <typename T>
const T& OperandAs(const Node& node, size_t index, absl::string_view what) {
  const T* value = index < node.inputs.size() ? std::get_if<T>(&node.inputs[index].value) : nullptr;
  if (value == nullptr) throw std::invalid_argument(absl::StrCat("argument ", index, " is not ", what));
  return *value;
}

const Graph& SubgraphAt(const Node& node, size_t index) {
  return *OperandAs<Subgraph>(node, index, "a subgraph").graph;
}

// (enabled, graph, inputs...)
std::vector<IValue> RunWithGradMode(const Node& node, const Environment& values) {
  c10::AutoGradMode mode(OperandAs<bool>(node, 0, "true or false"));
  return CallSubgraph(node, SubgraphAt(node, 1), 2, values);
}

// (device type, dtype or none, enabled, cache enabled, graph, inputs...)
std::vector<IValue> RunWithAutocast(const Node& node, const Environment& values) {
  std::optional<at::ScalarType> dtype;
  if (node.inputs.size() > 1 && std::holds_alternative<DType>(node.inputs[1].value)) {
    dtype = ToScalarType(std::get<DType>(node.inputs[1].value));
  }
  AutocastScope autocast(OperandAs<bool>(node, 2, "true or false"), dtype);
  return CallSubgraph(node, SubgraphAt(node, 4), 5, values);
}

// Returns whether a result is a tensor.
bool IsTensor(const Argument& output, const Graph& graph) {
  const Name* name = std::get_if<Name>(&output);
  return name != nullptr && !graph.sym_int_values.contains(name->name);
}

// (graph, identifier, inputs...): a block, if it takes and returns only tensors.
std::vector<IValue> RunSubgraph(const Node& node, const Environment& values) {
  const Graph& graph = SubgraphAt(node, 0);
  std::vector<at::Tensor> inputs;
  for (size_t i = 2; i < node.inputs.size(); ++i) {
    const IValue value = ValueOf(node.inputs[i].value, values);
    if (value.isTensor()) inputs.push_back(value.toTensor());
  }
  const auto is_tensor = [&](const Argument& output) { return IsTensor(output, graph); };
  const bool takes_names = std::all_of(graph.inputs.begin(), graph.inputs.end(),
                                       [](const Argument& input) { return std::holds_alternative<Name>(input); });
  if (!takes_names || inputs.size() != graph.inputs.size() || inputs.size() + 2 != node.inputs.size() ||
      !std::all_of(graph.outputs.begin(), graph.outputs.end(), is_tensor)) {
    return CallSubgraph(node, graph, 2, values);
  }
  const auto body = [&graph](const std::vector<at::Tensor>& arguments) {
    Environment inner;
    for (size_t i = 0; i < arguments.size(); ++i) inner[std::get<Name>(graph.inputs[i]).name] = arguments[i];
    RunGraph(graph, inner);
    std::vector<at::Tensor> results;
    for (const Argument& output : graph.outputs) results.push_back(ValueOf(output, inner).toTensor());
    return results;
  };
  const std::vector<at::Tensor> results = RunBlock({.body = body}, inputs);
  return {results.begin(), results.end()};
}

// Returns the target of a with_effects node: (token, op, arguments of the op...).
const std::string* EffectfulTarget(const Node& node) {
  return node.inputs.size() < 2 ? nullptr : std::get_if<std::string>(&node.inputs[1].value);
}

using HigherOrderFunction = std::vector<IValue> (*)(const Node& node, const Environment& values);
HigherOrderFunction FindHigherOrder(absl::string_view target);

// Runs the op of a with_effects node. Its results come after a token. Tokens have no value, because
// nodes run in order.
std::vector<IValue> RunWithEffects(const Node& node, const Environment& values) {
  Node inner;
  inner.target = OperandAs<std::string>(node, 1, "an op");
  inner.inputs.assign(node.inputs.begin() + 2, node.inputs.end());
  inner.module_path = node.module_path;
  std::vector<IValue> results;
  if (const HigherOrderFunction function = FindHigherOrder(inner.target)) {
    results = function(inner, values);
  } else {
    const c10::OperatorHandle op = FindTarget(inner.target).value();
    const std::vector<c10::Argument>& declared = op.schema().arguments();
    for (size_t i = 0; i < inner.inputs.size(); ++i) {
      if (!inner.inputs[i].name.empty()) continue;
      if (i >= declared.size()) throw std::invalid_argument("the op has too many arguments");
      inner.inputs[i].name = declared[i].name();
    }
    results = CallOp(inner, op, values);
    if (results.empty()) results.emplace_back();  // None
  }
  results.insert(results.begin(), IValue());
  return results;
}

std::string NumberText(const IValue& value) {
  if (value.isString()) return value.toStringRef();
  if (value.isBool()) return value.toBool() ? "True" : "False";
  if (value.isInt()) return absl::StrCat(value.toInt());
  if (value.isDouble()) return absl::StrCat(value.toDouble());
  throw std::invalid_argument("a printed value is neither a tensor nor a number");
}

// Runs a print node (format, values by name...): one effect for each tensor, and for each number that may differ from
// call to call; other numbers become part of the text.
std::vector<IValue> RunPrint(const Node& node, const Environment& values) {
  std::string text = OperandAs<std::string>(node, 0, "a text");
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    const std::string& name = node.inputs[i].name;
    const IValue value = ValueOf(node.inputs[i].value, values);
    if (value.isTensor() || IsSymbolicNumber(value)) {
      tensors.emplace_back(name, value.isTensor() ? value.toTensor() : PlainTensorOfNumber(value));
    } else {
      text = absl::StrReplaceAll(text, {{absl::StrCat("{", name, "}"), NumberText(value)}});
    }
  }
  if (tensors.empty()) tensors.emplace_back("print", at::zeros({0}));
  for (const auto& [name, tensor] : tensors) Print(tensor, name, text);
  return {IValue()};  // None
}

HigherOrderFunction FindHigherOrder(absl::string_view target) {
  constexpr absl::string_view kPrefix = "torch.ops.higher_order.";
  if (!absl::StartsWith(target, kPrefix)) return nullptr;
  const absl::string_view name = target.substr(kPrefix.size());
  if (name == "wrap_with_set_grad_enabled") return RunWithGradMode;
  if (name == "wrap_with_autocast") return RunWithAutocast;
  if (name == "invoke_subgraph") return RunSubgraph;
  if (name == "with_effects") return RunWithEffects;
  if (name == "print") return RunPrint;
  return nullptr;
}

// Binds results that come one by one or as one list.
void BindHigherOrder(const Node& node, const std::vector<IValue>& results, Environment& values) {
  if (node.outputs.size() == 1 && std::holds_alternative<Tensors>(node.outputs[0])) {
    c10::List<at::Tensor> list;
    for (const IValue& result : results) list.push_back(result.toTensor());
    Bind(node.outputs[0], list, values);
    return;
  }
  BindAll(node, results, values);
}

// --- Nodes ---------------------------------------------------------------------

void Run(const Node& node, Environment& values) {
  if (OnlyChecks(node.target)) return;
  if (const HigherOrderFunction function = FindHigherOrder(node.target)) {
    return BindHigherOrder(node, function(node, values), values);
  }
  if (IsScalarOp(node.target)) {
    std::vector<IValue> operands;
    for (const NamedArgument& input : node.inputs) operands.push_back(ValueOf(input.value, values));
    return BindAll(node, {RunScalarOp(node.target, operands)}, values);
  }
  const std::optional<c10::OperatorHandle> op = FindTarget(node.target);
  if (!op.has_value()) throw std::invalid_argument("the op is not registered in LibTorch");
  BindAll(node, CallOp(node, *op, values), values);
}

std::string PlaceOf(const Node& node) {
  return absl::StrCat(node.target, node.module_path.empty() ? "" : absl::StrCat(" in '", node.module_path, "'"));
}

void CollectUnknown(const Graph& graph, std::set<std::string>& unknown) {
  for (const Node& node : graph.nodes) {
    const bool known = OnlyChecks(node.target) || FindHigherOrder(node.target) != nullptr || IsScalarOp(node.target) ||
                       FindTarget(node.target).has_value();
    if (!known) unknown.insert(PlaceOf(node));
    if (FindHigherOrder(node.target) == RunWithEffects) {
      const std::string* target = EffectfulTarget(node);
      const HigherOrderFunction function = target == nullptr ? nullptr : FindHigherOrder(*target);
      const bool is_known = target != nullptr && (function != nullptr || FindTarget(*target).has_value());
      if (!is_known || function == RunWithEffects) {
        unknown.insert(absl::StrCat(target == nullptr ? "an object's method" : *target, " by ", PlaceOf(node)));
      }
    }
    for (const NamedArgument& input : node.inputs) {
      if (const Subgraph* subgraph = std::get_if<Subgraph>(&input.value)) CollectUnknown(*subgraph->graph, unknown);
    }
  }
}

}  // namespace

std::optional<c10::OperatorHandle> FindTarget(absl::string_view target) {
  const std::optional<c10::OperatorName> name = OperatorNameOf(target);
  return name.has_value() ? c10::Dispatcher::singleton().findSchema(*name) : std::nullopt;
}

absl::Status CheckTargets(const Graph& graph) {
  std::set<std::string> unknown;
  CollectUnknown(graph, unknown);
  if (unknown.empty()) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("the model has ops that cannot be compiled:\n  ", absl::StrJoin(unknown, "\n  ")));
}

IValue ValueOf(const Argument& argument, const Environment& values) {
  if (const Name* name = std::get_if<Name>(&argument)) {
    const auto found = values.find(name->name);
    if (found == values.end()) throw std::invalid_argument(absl::StrCat("'", name->name, "' has no value"));
    return found->second;
  }
  if (const bool* flag = std::get_if<bool>(&argument)) return *flag;
  if (const int64_t* integer = std::get_if<int64_t>(&argument)) return *integer;
  if (const double* number = std::get_if<double>(&argument)) return *number;
  if (const std::string* text = std::get_if<std::string>(&argument)) return *text;
  if (std::holds_alternative<NoValue>(argument)) return IValue();
  throw std::invalid_argument("an argument or output of a kind that cannot be compiled");
}

bool OnlyChecks(absl::string_view target) {
  return target == "torch.ops.aten._assert_tensor_metadata.default" ||
         target == "torch.ops.aten.sym_constrain_range.default" ||
         target == "torch.ops.aten.sym_constrain_range_for_size.default";
}

void RunNode(const Node& node, Environment& values) {
  try {
    Run(node, values);
  } catch (const c10::Error& error) {
    throw std::invalid_argument(absl::StrCat(PlaceOf(node), ": ", error.what_without_backtrace()));
  } catch (const std::exception& error) {
    throw std::invalid_argument(absl::StrCat(PlaceOf(node), ": ", error.what()));
  }
}

void RunGraph(const Graph& graph, Environment& values) {
  for (const Node& node : graph.nodes) RunNode(node, values);
}

}  // namespace cotan::aot::pt2
