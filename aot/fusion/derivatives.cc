// SPDX-License-Identifier: Apache-2.0

#include "aot/fusion/derivatives.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "kernels/api/expr_program.h"

namespace cotan::aot {
namespace {

// The pointwise functions of one tensor `x` and constants.
class FunctionsOf {
 public:
  FunctionsOf(FusionGraph& graph, ValueId x) : g_(graph) {
    formulas_[x].number = 0;
    Collect(x);
  }

  // Returns the values of these functions that other units read, ordered by their first reader.
  std::vector<ValueId> Read() const {
    std::set<std::pair<int, ValueId>> read;  // first reader, value
    for (const auto& [value, formula] : formulas_) {
      if (g_.IsOutput(value)) read.emplace(-1, value);
      for (const int user : g_.UsersOf(value)) {
        if (units_.contains(user)) continue;
        read.emplace(user, value);
        break;
      }
    }
    std::vector<ValueId> values;
    for (const auto& [user, value] : read) values.push_back(value);
    return values;
  }

  bool ShareExpensiveFunctions(ValueId a, ValueId b) const {
    const std::set<int>& expensive = formulas_.at(b).expensive;
    const auto is_shared = [&](int number) { return expensive.contains(number); };
    return std::any_of(formulas_.at(a).expensive.begin(), formulas_.at(a).expensive.end(), is_shared);
  }

 private:
  // The formula of a value: equal numbers mean equal formulas.
  struct Formula {
    int number = 0;
    std::set<int> expensive;  // numbers of the expensive subformulas
  };

  void Collect(ValueId value) {
    const std::set<int> users = g_.UsersOf(value);
    for (const int user : users) {
      if (units_.contains(user) || !IsFunction(user)) continue;
      units_.insert(user);
      AddFormula(user);
      Collect(g_.ExprOf(user).outputs[0]);
    }
  }

  // Returns true if the unit is a pointwise function of functions of x and of constants.
  bool IsFunction(int id) const {
    if (!g_.IsExpr(id)) return false;
    const FusedExpr& expr = g_.ExprOf(id);
    if (expr.outputs.size() != 1 || !expr.reduce_dims.empty()) return false;
    if (!(g_.TypeOf(expr.outputs[0]).sizes == expr.domain)) return false;
    return std::all_of(expr.inputs.begin(), expr.inputs.end(), [&](ValueId input) {
      return IsConstant(input) || (formulas_.contains(input) && g_.TypeOf(input).sizes == expr.domain);
    });
  }

  bool IsConstant(ValueId value) const {
    const int producer = g_.Producer(value);
    return g_.IsExpr(producer) && g_.ExprOf(producer).inputs.empty();
  }

  void AddFormula(int id) {
    const FusedExpr& expr = g_.ExprOf(id);
    Formula formula;
    std::string text;
    for (const ValueId input : expr.inputs) {
      if (IsConstant(input)) {
        absl::StrAppend(&text, "(", TextOf(g_.ExprOf(g_.Producer(input))), ")");
        continue;
      }
      const Formula& operand = formulas_.at(input);
      absl::StrAppend(&text, operand.number, ",");
      formula.expensive.insert(operand.expensive.begin(), operand.expensive.end());
    }
    absl::StrAppend(&text, TextOf(expr));
    formula.number = numbers_.emplace(text, static_cast<int>(numbers_.size()) + 1).first->second;
    const bool is_expensive = std::any_of(expr.instructions.begin(), expr.instructions.end(),
                                          [](const auto& instruction) { return !IsCheapExprFn(instruction.fn()); });
    if (is_expensive) formula.expensive.insert(formula.number);
    formulas_[expr.outputs[0]] = std::move(formula);
  }

  static std::string TextOf(const FusedExpr& expr) {
    std::string text;
    for (const auto& instruction : expr.instructions) absl::StrAppend(&text, instruction.SerializeAsString(), ";");
    return text;
  }

  FusionGraph& g_;
  absl::flat_hash_map<ValueId, Formula> formulas_;
  absl::flat_hash_map<std::string, int> numbers_;
  std::set<int> units_;
};

bool IsMadeByLibrary(const FusionGraph& graph, ValueId value) {
  const int producer = graph.Producer(graph.StripReshape(value));
  return producer >= 0 && !graph.IsExpr(producer) && !graph.IsView(producer);
}

}  // namespace

absl::flat_hash_set<ValueId> FindDerivativesToComputeInForward(FusionGraph& graph) {
  std::set<ValueId> loaded;
  for (int id = 0; id < graph.num_units(); ++id) {
    if (!graph.IsExpr(id)) continue;
    for (const ValueId value : graph.ExprOf(id).inputs) {
      if (EstimatedCount(graph.TypeOf(value).sizes) > kSmallDomain && IsMadeByLibrary(graph, value)) {
        loaded.insert(value);
      }
    }
  }
  absl::flat_hash_set<ValueId> derivatives;
  for (const ValueId x : loaded) {
    const FunctionsOf functions(graph, x);
    const std::vector<ValueId> read = functions.Read();
    // The two values are the function and its derivative; none of them may be x itself.
    if (read.size() != 2 || read[0] == x || read[1] == x || graph.IsOutput(read[1])) continue;
    if (functions.ShareExpensiveFunctions(read[0], read[1])) derivatives.insert(read[1]);
  }
  return derivatives;
}

}  // namespace cotan::aot
