// SPDX-License-Identifier: Apache-2.0

#include "aot/frontend/pt2/number_inputs.h"

#include <algorithm>
#include <optional>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "aot/capture/number.h"
#include "aot/frontend/pt2/interpreter.h"
#include "aot/frontend/pt2/scalar_op.h"
#include "base/sym_int.h"

namespace cotan::aot::pt2 {
namespace {

using Names = absl::flat_hash_set<std::string>;

void CollectSymbols(const SymInt& size, absl::flat_hash_set<int>& symbols) {
  if (size.is_constant()) return;
  if (size.kind() == SymInt::Kind::kSymbol) {
    symbols.insert(size.symbol());
    return;
  }
  CollectSymbols(size.lhs(), symbols);
  CollectSymbols(size.rhs(), symbols);
}

bool AnySizeDependsOn(const Graph& graph, const absl::flat_hash_set<int>& symbols) {
  absl::flat_hash_set<int> used;
  for (const auto& [name, meta] : graph.tensor_values) {
    for (const SymInt& size : meta.sizes) CollectSymbols(size, used);
  }
  return std::any_of(symbols.begin(), symbols.end(), [&](int symbol) { return used.contains(symbol); });
}

bool IsIn(const Argument& argument, const Names& names) {
  if (const Name* name = std::get_if<Name>(&argument)) return names.contains(name->name);
  const auto* numbers = std::get_if<std::vector<Number>>(&argument);
  return numbers != nullptr && std::any_of(numbers->begin(), numbers->end(), [&](const Number& number) {
           const Name* name = std::get_if<Name>(&number);
           return name != nullptr && names.contains(name->name);
         });
}

// Returns whether the argument of an op is a tensor, or a Scalar, for which ops have forms with tensors.
bool TakesTensor(const c10::FunctionSchema& schema, const std::string& argument) {
  const std::optional<int> index = schema.argumentIndexWithName(argument);
  if (!index.has_value()) return true;
  c10::TypePtr type = schema.arguments()[static_cast<size_t>(*index)].type();
  if (type->kind() == c10::TypeKind::OptionalType) type = type->expectRef<c10::OptionalType>().getElementType();
  return type->kind() == c10::TypeKind::TensorType || type->kind() == c10::TypeKind::NumberType;
}

// Returns whether an op takes `input`, or a number computed from it, as an integer.
bool IsSetting(const Graph& graph, const std::string& input) {
  Names names = {input};
  for (const Node& node : graph.nodes) {
    const bool computes_number = IsScalarOp(node.target);
    const std::optional<c10::OperatorHandle> op = FindTarget(node.target);
    for (const NamedArgument& argument : node.inputs) {
      if (!IsIn(argument.value, names)) continue;
      if (op.has_value() && !TakesTensor(op->schema(), argument.name)) return true;
      if (!computes_number) continue;
      for (const Argument& output : node.outputs) {
        if (const Name* name = std::get_if<Name>(&output)) names.insert(name->name);
      }
    }
  }
  return false;
}

}  // namespace

UserInputKind KindOfUserInput(const Graph& graph, const std::string& name) {
  if (graph.tensor_values.contains(name)) return UserInputKind::kTensor;
  if (graph.sym_floats.contains(name)) return UserInputKind::kFloat;
  const auto value = graph.sym_int_values.find(name);
  if (value == graph.sym_int_values.end()) return UserInputKind::kBool;
  absl::flat_hash_set<int> symbols;
  CollectSymbols(value->second, symbols);
  const bool decides = symbols.empty() || AnySizeDependsOn(graph, symbols) || IsSetting(graph, name);
  return decides ? UserInputKind::kSize : UserInputKind::kInt;
}

c10::IValue UserInputValue(UserInputKind kind, const std::string& name, const at::Tensor& input) {
  switch (kind) {
    case UserInputKind::kTensor:
      return input;
    case UserInputKind::kFloat:
      return at::Scalar(ToSymFloat(input, name));
    case UserInputKind::kBool:
      return at::Scalar(ToSymBool(input, name));
    case UserInputKind::kInt:
    case UserInputKind::kSize:
      return at::Scalar(ToSymInt(input, name));
  }
  return input;
}

at::Tensor ExampleNumber(UserInputKind kind, int64_t hint) {
  switch (kind) {
    case UserInputKind::kFloat:
      return cotan::aot::Number(0.5);
    case UserInputKind::kBool:
      return cotan::aot::Number(true);
    case UserInputKind::kInt:
      return cotan::aot::Number(hint);
    default:
      return SizeNumber(hint);
  }
}

}  // namespace cotan::aot::pt2
