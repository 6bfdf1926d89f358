// SPDX-License-Identifier: Apache-2.0

#include "aot/ir/verifier.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "aot/ir/expr_text.h"
#include "aot/ir/prim_node.h"
#include "aot/ir/prim_verifier.h"
#include "aot/ir/text.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

using serialization::Expr;
using serialization::ExprInstruction;

// Returns the number of operands of a function; -1 for an unknown function.
int Arity(serialization::ScalarFn fn) {
  if (ScalarFnName(fn).empty()) return -1;
  if (fn < serialization::FN_CAST) return 0;
  if (fn < serialization::FN_ADD) return 1;
  if (fn < serialization::FN_SELECT) return 2;
  if (fn < serialization::FN_REDUCE_SUM) return 3;
  return 1;
}

bool IsReduction(serialization::ScalarFn fn) { return fn >= serialization::FN_REDUCE_SUM; }

bool IsComparison(serialization::ScalarFn fn) { return fn >= serialization::FN_EQ && fn <= serialization::FN_GE; }

class ExprVerifier {
 public:
  ExprVerifier(const Expr& expr, absl::Span<const TensorType> inputs, absl::Span<const TensorType> outputs)
      : expr_(expr), inputs_(inputs), outputs_(outputs) {}

  absl::Status Verify() {
    COTAN_RETURN_IF_ERROR(VerifyDomain());
    for (int i = 0; i < expr_.instructions_size(); ++i) {
      if (const absl::Status status = VerifyInstruction(i); !status.ok()) {
        return absl::InternalError(absl::StrCat("instruction ", i, ": ", status.message()));
      }
    }
    if (expr_.outputs_size() != static_cast<int>(outputs_.size())) {
      return absl::InternalError(
          absl::StrCat("stores ", expr_.outputs_size(), " results for ", outputs_.size(), " outputs"));
    }
    for (int k = 0; k < expr_.outputs_size(); ++k) COTAN_RETURN_IF_ERROR(VerifyOutput(k));
    return absl::OkStatus();
  }

 private:
  absl::Status VerifyDomain() {
    for (const std::string& text : expr_.domain_sizes()) {
      COTAN_ASSIGN_OR_RETURN(SymInt size, SymInt::Parse(text));
      domain_.push_back(std::move(size));
    }
    int64_t previous = -1;
    for (const uint32_t dim : expr_.reduce_dims()) {
      if (dim >= domain_.size() || static_cast<int64_t>(dim) <= previous) {
        return absl::InternalError("reduce dims are not ascending dimensions of the domain");
      }
      previous = dim;
    }
    return absl::OkStatus();
  }

  bool IsReduceDim(size_t dim) const {
    return std::find(expr_.reduce_dims().begin(), expr_.reduce_dims().end(), dim) != expr_.reduce_dims().end();
  }

  absl::Status VerifyInstruction(int position) {
    const ExprInstruction& instruction = expr_.instructions(position);
    const int arity = Arity(instruction.fn());
    if (arity < 0) return absl::InternalError("unknown function");
    if (instruction.operands_size() != arity) return absl::InternalError("wrong number of operands");
    if (instruction.dtype() == serialization::DTYPE_UNDEFINED) return absl::InternalError("no dtype");
    for (const uint32_t operand : instruction.operands()) {
      if (operand >= static_cast<uint32_t>(position))
        return absl::InternalError("an operand is not an earlier instruction");
    }
    COTAN_RETURN_IF_ERROR(VerifyDTypes(instruction));
    bool full = false;
    switch (instruction.fn()) {
      case serialization::FN_INPUT: {
        COTAN_ASSIGN_OR_RETURN(full, VerifyInput(instruction));
        break;
      }
      case serialization::FN_IOTA:
        if (instruction.index() >= domain_.size()) return absl::InternalError("no such domain dimension");
        full = true;
        break;
      case serialization::FN_RANDOM_UNIFORM:
        if (instruction.index() >= inputs_.size()) return absl::InternalError("no such input");
        full = true;
        break;
      default:
        for (const uint32_t operand : instruction.operands()) full = full || full_[operand];
    }
    if (IsReduction(instruction.fn())) {
      if (expr_.reduce_dims().empty()) return absl::InternalError("a reduction without reduce dims");
      full = false;
    }
    full_.push_back(full);
    return absl::OkStatus();
  }

  absl::Status VerifyDTypes(const ExprInstruction& instruction) const {
    const auto operand = [&](int k) { return expr_.instructions(static_cast<int>(instruction.operands(k))).dtype(); };
    switch (instruction.fn()) {
      case serialization::FN_CAST:
        return absl::OkStatus();
      case serialization::FN_ISNAN:
      case serialization::FN_ISINF:
        return instruction.dtype() == serialization::DTYPE_BOOL ? absl::OkStatus()
                                                                : absl::InternalError("result is not bool");
      case serialization::FN_SELECT:
        if (operand(0) != serialization::DTYPE_BOOL) return absl::InternalError("the condition is not bool");
        if (operand(1) != instruction.dtype() || operand(2) != instruction.dtype())
          return absl::InternalError("dtypes differ");
        return absl::OkStatus();
      default:
        break;
    }
    if (IsComparison(instruction.fn())) {
      if (instruction.dtype() != serialization::DTYPE_BOOL) return absl::InternalError("result is not bool");
      return operand(0) == operand(1) ? absl::OkStatus() : absl::InternalError("operands of different dtypes");
    }
    for (int k = 0; k < instruction.operands_size(); ++k) {
      if (operand(k) != instruction.dtype()) return absl::InternalError("operand and result differ in dtype");
    }
    return absl::OkStatus();
  }

  // Returns true if the input has one value per index of the domain. Internal: it does not
  // broadcast to the domain.
  absl::StatusOr<bool> VerifyInput(const ExprInstruction& instruction) const {
    if (instruction.index() >= inputs_.size()) return absl::InternalError("no such input");
    const TensorType& type = inputs_[instruction.index()];
    if (ToProto(type.dtype) != instruction.dtype()) return absl::InternalError("the input has another dtype");
    if (type.sizes.size() > domain_.size()) return absl::InternalError("the input has a higher rank than the domain");
    bool full = expr_.reduce_dims().empty();
    const size_t lead = domain_.size() - type.sizes.size();
    for (size_t i = 0; i < type.sizes.size(); ++i) {
      if (type.sizes[i] == SymInt(1)) continue;
      if (!(type.sizes[i] == domain_[lead + i])) {
        return absl::InternalError(
            absl::StrCat("input of type ", PrintType(type), " does not broadcast to the domain"));
      }
      full = full || IsReduceDim(lead + i);
    }
    return full;
  }

  absl::Status VerifyOutput(int k) const {
    const uint32_t position = expr_.outputs(k);
    if (position >= static_cast<uint32_t>(expr_.instructions_size()))
      return absl::InternalError("stores an unknown instruction");
    const TensorType& type = outputs_[static_cast<size_t>(k)];
    if (ToProto(type.dtype) != expr_.instructions(static_cast<int>(position)).dtype()) {
      return absl::InternalError(absl::StrCat("output ", k, " has another dtype than its instruction"));
    }
    SymIntVector expected = domain_;
    for (const uint32_t dim : expr_.reduce_dims()) {
      if (!full_[position]) expected[dim] = SymInt(1);
    }
    if (expected == type.sizes) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("output ", k, " has the type ", PrintType(type), ", expected sizes ",
                                            PrintType({type.dtype, expected, {}})));
  }

  const Expr& expr_;
  absl::Span<const TensorType> inputs_;
  absl::Span<const TensorType> outputs_;
  SymIntVector domain_;
  std::vector<bool> full_;  // by instruction: has one value per index of the domain
};

class GraphVerifier {
 public:
  explicit GraphVerifier(const Graph& graph)
      : graph_(graph), defined_(static_cast<size_t>(graph.num_values()), false) {}

  absl::Status Verify() {
    for (const GraphInput& input : graph_.inputs()) COTAN_RETURN_IF_ERROR(Define(input.value, input.name));
    for (const Node& node : graph_.nodes()) {
      const absl::Status status = VerifyNode(node);
      if (!status.ok()) {
        return absl::InternalError(
            absl::StrCat("graph @", graph_.name, ": ", status.message(), "\n  ", PrintNode(graph_, node)));
      }
    }
    for (const GraphOutput& output : graph_.outputs()) {
      if (output.value == kNoValue && output.kind == OutputKind::kGradient) continue;
      if (IsDefined(output.value)) continue;
      return absl::InternalError(
          absl::StrCat("output '", output.name, "' uses %", output.value, ", which is not defined before"));
    }
    return absl::OkStatus();
  }

 private:
  bool InRange(ValueId id) const { return id >= 0 && id < graph_.num_values(); }

  absl::Status Define(ValueId id, absl::string_view where) {
    if (!InRange(id)) return absl::InternalError(absl::StrCat("'", where, "' defines no value of the graph"));
    if (defined_[static_cast<size_t>(id)])
      return absl::InternalError(absl::StrCat("%", id, " is defined twice, again by '", where, "'"));
    defined_[static_cast<size_t>(id)] = true;
    const TensorType& type = graph_.value(id).type;
    if (type.dtype == DType::kUndefined) return absl::InternalError(absl::StrCat("%", id, " has no dtype"));
    if (type.dim_order.empty()) return absl::OkStatus();
    DimVector sorted = type.dim_order;
    std::sort(sorted.begin(), sorted.end());
    for (size_t i = 0; i < sorted.size(); ++i) {
      if (sorted.size() != type.sizes.size() || sorted[i] != static_cast<int64_t>(i)) {
        return absl::InternalError(absl::StrCat("%", id, ": the dim_order is not a permutation"));
      }
    }
    return absl::OkStatus();
  }

  bool IsDefined(ValueId id) const { return InRange(id) && defined_[static_cast<size_t>(id)]; }

  absl::Status VerifyNode(const Node& node) {
    const std::optional<PrimOp> prim = PrimOpOf(node);
    if (!prim.has_value() && !absl::StartsWith(node.op, "aten.") && !absl::StartsWith(node.op, "cotan.")) {
      return absl::InternalError(absl::StrCat("op '", node.op, "' is neither a prim op nor of another known dialect"));
    }
    if (prim.has_value()) COTAN_RETURN_IF_ERROR(VerifyPrim(*prim, node));
    const std::vector<ValueId> operands = TensorOperands(node);
    for (const ValueId id : operands) {
      if (id == kNoValue || IsDefined(id)) continue;
      return absl::InternalError(absl::StrCat("node uses %", id, ", which is not defined before"));
    }
    for (const ValueId id : node.outputs) {
      if (id != kNoValue) COTAN_RETURN_IF_ERROR(Define(id, node.op));
    }
    const bool is_epilogue = prim == PrimOp::kMatmulEpilogue;
    if ((node.op == kExprOp || is_epilogue) != (node.expr != nullptr)) {
      return absl::InternalError("exactly cotan.expr and prim.matmul_epilogue carry a program");
    }
    if (node.expr == nullptr) return absl::OkStatus();
    std::vector<TensorType> inputs = TypesOf(operands);
    if (is_epilogue) {
      if (inputs.size() < 2 || inputs[0].sizes.size() != 2 || inputs[1].sizes.size() != 2) {
        return absl::InternalError("takes two matrices");
      }
      const TensorType product{inputs[0].dtype, {inputs[0].sizes[0], inputs[1].sizes[1]}, {}};
      inputs.erase(inputs.begin());
      inputs[0] = product;
    }
    return VerifyExpr(*node.expr, inputs, TypesOf(node.outputs));
  }

  // Returns the types of the values, without absent ones.
  std::vector<TensorType> TypesOf(absl::Span<const ValueId> values) const {
    std::vector<TensorType> types;
    types.reserve(values.size());
    for (const ValueId id : values) {
      if (id != kNoValue) types.push_back(graph_.value(id).type);
    }
    return types;
  }

  const Graph& graph_;
  std::vector<bool> defined_;
};

}  // namespace

absl::Status VerifyExpr(const Expr& expr, absl::Span<const TensorType> inputs, absl::Span<const TensorType> outputs) {
  return ExprVerifier(expr, inputs, outputs).Verify();
}

absl::Status VerifyGraph(const Graph& graph) { return GraphVerifier(graph).Verify(); }

}  // namespace cotan::aot
