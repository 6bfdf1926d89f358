// SPDX-License-Identifier: Apache-2.0

#include "aot/emit/import_method.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "aot/emit/import_op.h"
#include "aot/ir/builder.h"
#include "aot/ir/expr_text.h"
#include "aot/ir/prim_ops.h"
#include "base/status_macros.h"
#include "serialization/metadata/view_step.h"
#include "serialization/schema/host_copy.h"

namespace cotan::aot {
namespace {

using serialization::Method;
using serialization::Op;

absl::StatusOr<TensorType> TypeOf(const serialization::TensorType& proto) {
  TensorType type;
  type.dtype = FromProto(proto.dtype());
  for (const std::string& text : proto.sizes()) {
    COTAN_ASSIGN_OR_RETURN(SymInt size, SymInt::Parse(text));
    type.sizes.push_back(std::move(size));
  }
  for (const uint32_t dim : proto.dim_order()) type.dim_order.push_back(dim);
  return type;
}

class Importer {
 public:
  explicit Importer(const Method& method)
      : method_(method), builder_(&graph_), values_(static_cast<size_t>(method.values_size()), kNoValue) {}

  absl::StatusOr<Graph> Import() {
    if (method_.state_reads_size() != 0 || method_.state_updates_size() != 0) return Unsupported("states");
    graph_.name = method_.name();
    for (int i = 0; i < method_.inputs_size(); ++i) {
      COTAN_ASSIGN_OR_RETURN(TensorType type, TypeOfValue(method_.inputs(i)));
      const std::string name = i < method_.input_names_size() ? method_.input_names(i) : "";
      ValueId& value = values_[method_.inputs(i)];
      value = graph_.AddInput(std::move(type), InputKind::kUserInput, i, name);
      graph_.value(value).name = NameOf(method_.inputs(i));
    }
    for (const Op& op : method_.ops()) {
      COTAN_RETURN_IF_ERROR(op.has_view() ? ImportView(op) : ImportOp(op));
    }
    for (int i = 0; i < method_.outputs_size(); ++i) {
      const std::string name = i < method_.output_names_size() ? method_.output_names(i) : "";
      graph_.AddOutput(values_[method_.outputs(i)], OutputKind::kUserOutput, i, name);
    }
    for (const serialization::InputUpdate& update : method_.input_updates()) {
      if (update.sets_storage()) return Unsupported("an argument whose storage is replaced");
      graph_.AddOutput(values_[update.value()], OutputKind::kInputUpdate, static_cast<int>(update.input()), "");
    }
    return std::move(graph_);
  }

 private:
  absl::Status Unsupported(absl::string_view what) const {
    return absl::UnimplementedError(absl::StrCat("method '", method_.name(), "' has ", what));
  }
  const std::string& NameOf(uint32_t value) const { return method_.values(static_cast<int>(value)).name(); }
  absl::StatusOr<TensorType> TypeOfValue(uint32_t value) const {
    return TypeOf(method_.values(static_cast<int>(value)).type());
  }

  absl::Status ImportOp(const Op& op) {
    std::vector<ValueId> operands;
    for (const uint32_t input : op.inputs()) operands.push_back(values_[input]);
    std::vector<TensorType> types;
    for (const uint32_t output : op.outputs()) {
      COTAN_ASSIGN_OR_RETURN(TensorType type, TypeOfValue(output));
      types.push_back(std::move(type));
    }
    COTAN_ASSIGN_OR_RETURN(ImportedOp imported, ImportKernelOp(op, operands));
    if (const HostCopy copy = HostCopyOf(method_, op); copy != HostCopy::kNone) {
      imported.name = std::string(PrimName(copy == HostCopy::kToHost ? PrimOp::kToHost : PrimOp::kFromHost));
    }
    Node& node = graph_.InsertNode(graph_.nodes().end(), std::move(imported.name), std::move(imported.arguments), types,
                                   op.source());
    node.expr = std::move(imported.expr);
    for (int i = 0; i < op.outputs_size(); ++i) {
      const ValueId value = node.outputs[static_cast<size_t>(i)];
      graph_.value(value).name = NameOf(op.outputs(i));
      values_[op.outputs(i)] = value;
    }
    return absl::OkStatus();
  }

  absl::Status ImportView(const Op& op) {
    builder_.set_source(op.source());
    const int num_values = graph_.num_values();
    Tensor seen = builder_.Value(values_[op.inputs(0)]);
    COTAN_ASSIGN_OR_RETURN(const std::vector<ViewStep> steps, ParseViewSteps(op.view().steps(), "steps"));
    for (const ViewStep& step : steps) {
      COTAN_ASSIGN_OR_RETURN(seen, AddView(builder_, step, seen));
      COTAN_RETURN_IF_ERROR(builder_.status());
    }
    // Steps that change nothing have no node; their result is an earlier value.
    if (seen.id() >= num_values) {
      COTAN_ASSIGN_OR_RETURN(graph_.value(seen.id()).type, TypeOfValue(op.outputs(0)));
      graph_.value(seen.id()).name = NameOf(op.outputs(0));
    }
    values_[op.outputs(0)] = seen.id();
    return absl::OkStatus();
  }

  const Method& method_;
  Graph graph_;
  Builder builder_;
  std::vector<ValueId> values_;  // by value of the method
};

}  // namespace

absl::StatusOr<Graph> ImportMethod(const Method& method) { return Importer(method).Import(); }

}  // namespace cotan::aot
