// SPDX-License-Identifier: Apache-2.0

#include "aot/emit/emit.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "aot/emit/emit_op.h"
#include "aot/ir/expr_text.h"
#include "aot/ir/prim_node.h"
#include "aot/ir/text.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

using serialization::Method;
using serialization::State;

bool IsState(InputKind kind) {
  return kind != InputKind::kUserInput && kind != InputKind::kTangent && kind != InputKind::kSaved &&
         kind != InputKind::kToken;
}

// Returns true if the runtime may omit the last result: indices of a pool, or gates that only the
// backward of a recurrent layer reads.
bool HasOptionalResult(const Node& node) {
  if (IsPrim(node, PrimOp::kMaxPool)) return true;
  if (!IsPrim(node, PrimOp::kRecurrent)) return false;
  return node.outputs.size() > (Attribute<std::string>(node, "cell") == "lstm" ? 2 : 1);
}

// Emits a graph. A view whose only use is another view is merged into that view.
class Emitter {
 public:
  Emitter(const Graph& graph, absl::Span<const State> states) : graph_(graph) {
    for (size_t i = 0; i < states.size(); ++i)
      states_.emplace(states[i].name(), std::make_pair(static_cast<uint32_t>(i), &states[i]));
  }

  absl::StatusOr<Method> Emit() {
    method_.set_name(graph_.name);
    CountUses();
    COTAN_RETURN_IF_ERROR(EmitInputs());
    for (const Node& node : graph_.nodes()) COTAN_RETURN_IF_ERROR(EmitNode(node));
    COTAN_RETURN_IF_ERROR(EmitOutputs());
    return std::move(method_);
  }

 private:
  void CountUses() {
    for (const Node& node : graph_.nodes()) {
      const bool is_view = IsView(node);
      for (const ValueId id : TensorOperands(node)) {
        ++uses_[id];
        if (is_view) ++view_uses_[id];
      }
    }
    for (const GraphOutput& output : graph_.outputs()) ++uses_[output.value];
  }

  // Returns the index of a value of the method, and adds the value on the first call.
  uint32_t Index(ValueId id) {
    const auto [it, is_new] = indexes_.try_emplace(id, static_cast<uint32_t>(method_.values_size()));
    if (is_new) {
      serialization::Value& value = *method_.add_values();
      const Value& from = graph_.value(id);
      value.mutable_type()->set_dtype(ToProto(from.type.dtype));
      for (const SymInt& size : from.type.sizes) value.mutable_type()->add_sizes(size.ToString());
      for (const int64_t dim : from.type.dim_order) value.mutable_type()->add_dim_order(static_cast<uint32_t>(dim));
      value.set_name(from.name);
    }
    return it->second;
  }

  // Marks the value on the host of a copy to or from it.
  void MarkHostValue(const Node& node) {
    const bool to_host = IsPrim(node, PrimOp::kToHost);
    if (!to_host && !IsPrim(node, PrimOp::kFromHost)) return;
    const ValueId value = to_host ? node.outputs[0] : OperandOf(node, "x");
    method_.mutable_values(static_cast<int>(Index(value)))->set_on_host(true);
  }

  absl::StatusOr<uint32_t> StateIndex(const std::string& name, ValueId id) const {
    const auto it = states_.find(name);
    if (it == states_.end())
      return absl::InvalidArgumentError(absl::StrCat("@", graph_.name, ": there is no state '", name, "'"));
    const serialization::TensorType& type = it->second.second->type();
    const TensorType& expected = graph_.value(id).type;
    bool equal =
        FromProto(type.dtype()) == expected.dtype && type.sizes_size() == static_cast<int>(expected.sizes.size());
    for (int i = 0; equal && i < type.sizes_size(); ++i)
      equal = type.sizes(i) == expected.sizes[static_cast<size_t>(i)].ToString();
    if (equal) return it->second.first;
    return absl::InvalidArgumentError(absl::StrCat("@", graph_.name, ": state '", name, "' is of type ",
                                                   DTypeName(FromProto(type.dtype())), " of rank ", type.sizes_size(),
                                                   ", the graph has ", PrintType(expected)));
  }

  absl::Status EmitInputs() {
    for (const GraphInput& input : graph_.inputs()) {
      if (input.kind == InputKind::kToken) continue;
      if (!IsState(input.kind)) {
        input_positions_.emplace(input.value, static_cast<uint32_t>(method_.inputs_size()));
        method_.add_inputs(Index(input.value));
        method_.add_input_names(input.name);
        continue;
      }
      if (!uses_.contains(input.value)) continue;
      COTAN_ASSIGN_OR_RETURN(const uint32_t state, StateIndex(input.name, input.value));
      serialization::StateRead& read = *method_.add_state_reads();
      read.set_value(Index(input.value));
      read.set_state(state);
    }
    return absl::OkStatus();
  }

  absl::Status EmitNode(const Node& node) {
    if (!IsView(node)) {
      serialization::Op op;
      COTAN_RETURN_IF_ERROR(EmitKernelOp(graph_, node, op));
      if (op.has_effect()) {  // the order of ops replaces its tokens
        op.add_inputs(Index(OperandOf(node, "value")));
        op.set_source(node.source);
        *method_.add_ops() = std::move(op);
        return absl::OkStatus();
      }
      for (const ValueId id : TensorOperands(node)) {
        if (id != kNoValue) op.add_inputs(Index(id));
      }
      for (const ValueId id : node.outputs) {
        if (id == kNoValue) return absl::InternalError(absl::StrCat(node.op, " has an absent result"));
        op.add_outputs(Index(id));
      }
      if (HasOptionalResult(node) && !uses_.contains(node.outputs.back())) op.mutable_outputs()->RemoveLast();
      MarkHostValue(node);
      op.set_source(node.source);
      *method_.add_ops() = std::move(op);
      return absl::OkStatus();
    }
    const ValueId source = TensorOperands(node)[0];
    const ValueId result = node.outputs[0];
    PendingView pending;
    pending.source = source;
    if (const auto it = pending_.find(source); it != pending_.end()) pending = it->second;
    serialization::ViewStep step;
    COTAN_RETURN_IF_ERROR(EmitViewStep(node, step));
    pending.steps.push_back(std::move(step));
    const bool only_views = uses_.contains(result) && uses_[result] == view_uses_[result];
    if (only_views) {
      pending_.emplace(result, std::move(pending));
      return absl::OkStatus();
    }
    serialization::Op& op = *method_.add_ops();
    op.add_inputs(Index(pending.source));
    op.add_outputs(Index(result));
    op.set_source(node.source);
    for (serialization::ViewStep& view_step : pending.steps) *op.mutable_view()->add_steps() = std::move(view_step);
    return absl::OkStatus();
  }

  absl::Status AddUpdate(const std::string& name, ValueId value) {
    COTAN_ASSIGN_OR_RETURN(const uint32_t state, StateIndex(name, value));
    if (!updated_.insert(name).second) return absl::InternalError(absl::StrCat("state '", name, "' is updated twice"));
    serialization::StateUpdate& update = *method_.add_state_updates();
    update.set_state(state);
    update.set_value(Index(value));
    return absl::OkStatus();
  }

  const GraphInput& InputOf(const GraphOutput& output) const {
    return graph_.inputs()[static_cast<size_t>(output.index)];
  }

  bool MutatesState(const GraphOutput& output) const {
    return output.kind == OutputKind::kMutatedInput && IsState(InputOf(output).kind);
  }

  absl::Status EmitUpdate(const GraphOutput& output) {
    if (output.kind == OutputKind::kStateUpdate) return AddUpdate(output.name, output.value);
    const GraphInput& input = InputOf(output);
    if (IsState(input.kind)) return AddUpdate(input.name, output.value);
    serialization::InputUpdate& update = *method_.add_input_updates();
    update.set_input(input_positions_.at(input.value));
    update.set_value(Index(output.value));
    update.set_shares_storage(output.kind == OutputKind::kSharedStorage);
    update.set_sets_storage(update.shares_storage() || output.kind == OutputKind::kInputStorage);
    return absl::OkStatus();
  }

  absl::Status EmitOutputs() {
    for (const OutputKind kind : {OutputKind::kMutatedInput, OutputKind::kUserOutput, OutputKind::kIntermediateBase,
                                  OutputKind::kGradient, OutputKind::kSaved}) {
      for (const GraphOutput& output : graph_.outputs()) {
        if (output.kind != kind || output.value == kNoValue || MutatesState(output)) continue;
        method_.add_outputs(Index(output.value));
        if (kind == OutputKind::kSaved) {
          method_.set_num_saved(method_.num_saved() + 1);
        } else {
          method_.add_output_names(output.name);
        }
      }
    }
    for (const GraphOutput& output : graph_.outputs()) {
      if (output.kind == OutputKind::kStateUpdate || UpdatesInput(output.kind) || MutatesState(output)) {
        COTAN_RETURN_IF_ERROR(EmitUpdate(output));
      }
    }
    return absl::OkStatus();
  }

  struct PendingView {
    ValueId source = kNoValue;
    std::vector<serialization::ViewStep> steps;
  };

  const Graph& graph_;
  Method method_;
  absl::flat_hash_map<std::string, std::pair<uint32_t, const State*>> states_;
  absl::flat_hash_set<std::string> updated_;
  absl::flat_hash_map<ValueId, uint32_t> input_positions_;  // among the method's inputs
  absl::flat_hash_map<ValueId, uint32_t> indexes_;
  absl::flat_hash_map<ValueId, int> uses_;
  absl::flat_hash_map<ValueId, int> view_uses_;  // uses by views
  absl::flat_hash_map<ValueId, PendingView> pending_;
};

}  // namespace

absl::StatusOr<Method> Emit(const Graph& graph, absl::Span<const State> states) {
  return Emitter(graph, states).Emit();
}

}  // namespace cotan::aot
