// SPDX-License-Identifier: Apache-2.0

#include "aot/emit/emit_op.h"

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "aot/ir/call_node.h"
#include "aot/ir/collective_node.h"
#include "aot/ir/prim_node.h"
#include "aot/ir/text.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

using serialization::Op;
using serialization::ViewStep;

const std::vector<SymInt>& List(const Node& node, absl::string_view name) {
  return Attribute<std::vector<SymInt>>(node, name);
}
bool Flag(const Node& node, absl::string_view name) { return Attribute<bool>(node, name); }
std::string Text(const Node& node, absl::string_view name) { return Attribute<SymInt>(node, name).ToString(); }
uint32_t Dim(const Node& node, absl::string_view name) { return static_cast<uint32_t>(IntAttribute(node, name)); }

template <typename Field>
void AddTexts(const std::vector<SymInt>& values, Field* field) {
  for (const SymInt& value : values) *field->Add() = value.ToString();
}

template <typename Field>
void AddInts(const std::vector<SymInt>& values, Field* field) {
  for (const SymInt& value : values) field->Add(value.constant());
}

template <typename Enum>
using EnumNames = std::initializer_list<std::pair<absl::string_view, Enum>>;

// Returns the enumerator that an attribute names.
template <typename Enum>
absl::StatusOr<Enum> Named(const Node& node, absl::string_view attribute, EnumNames<Enum> names) {
  const auto& given = Attribute<std::string>(node, attribute);
  for (const auto& [name, value] : names) {
    if (name == given) return value;
  }
  return absl::InternalError(absl::StrCat(
      "argument '", attribute, "' of ", node.op, " is '", given, "'; known are: ",
      absl::StrJoin(names, ", ", [](std::string* out, const auto& entry) { absl::StrAppend(out, entry.first); })));
}

// Set the attributes of ops of the runtime.

absl::Status Fill(const Node& node, serialization::Convolution* op) {
  AddInts(List(node, "stride"), op->mutable_stride());
  AddInts(List(node, "padding"), op->mutable_padding());
  AddInts(List(node, "dilation"), op->mutable_dilation());
  op->set_transposed(Flag(node, "transposed"));
  AddInts(List(node, "output_padding"), op->mutable_output_padding());
  op->set_groups(IntAttribute(node, "groups"));
  return absl::OkStatus();
}

absl::Status Fill(const Node& node, serialization::Pool* op) {
  AddInts(List(node, "kernel"), op->mutable_kernel());
  AddInts(List(node, "stride"), op->mutable_stride());
  AddInts(List(node, "padding"), op->mutable_padding());
  AddInts(List(node, "dilation"), op->mutable_dilation());
  op->set_ceil_mode(Flag(node, "ceil_mode"));
  op->set_count_include_pad(Flag(node, "count_include_pad"));
  op->set_divisor_override(IntAttribute(node, "divisor_override"));
  return absl::OkStatus();
}

absl::Status Fill(const Node&, serialization::Copy*) { return absl::OkStatus(); }

absl::Status Fill(const Node& node, serialization::Matmul* op) {
  if (node.expr != nullptr) *op->mutable_epilogue() = *node.expr;
  return absl::OkStatus();
}

absl::Status Fill(const Node& node, serialization::Gather* op) {
  op->set_dim(IntAttribute(node, "dim"));
  return absl::OkStatus();
}

absl::Status Fill(const Node& node, serialization::ScatterAdd* op) {
  op->set_dim(IntAttribute(node, "dim"));
  op->set_padding_index(IntAttribute(node, "padding_index"));
  return absl::OkStatus();
}

absl::Status Fill(const Node& node, serialization::CheckedIndex* op) {
  op->set_size(Text(node, "size"));
  op->set_from_end(Flag(node, "from_end"));
  if (!IsNone(node, "ignored")) op->set_ignored(IntAttribute(node, "ignored"));
  return absl::OkStatus();
}

absl::Status Fill(const Node& node, serialization::Scan* op) {
  op->set_function(static_cast<serialization::Scan::Function>(IntAttribute(node, "function")));
  op->set_dim(IntAttribute(node, "dim"));
  op->set_reverse(Flag(node, "reverse"));
  return absl::OkStatus();
}

absl::Status Fill(const Node& node, serialization::Sort* op) {
  op->set_dim(IntAttribute(node, "dim"));
  op->set_descending(Flag(node, "descending"));
  return absl::OkStatus();
}

absl::Status Fill(const Node& node, serialization::Concat* op) {
  op->set_dim(IntAttribute(node, "dim"));
  return absl::OkStatus();
}

absl::Status Fill(const Node& node, serialization::Attention* op) {
  op->set_is_causal(Flag(node, "is_causal"));
  op->set_scale(Attribute<double>(node, "scale"));
  return absl::OkStatus();
}

absl::Status Fill(const Node& node, serialization::Recurrent* op) {
  using serialization::Recurrent;
  COTAN_ASSIGN_OR_RETURN(const Recurrent::Cell cell, Named<Recurrent::Cell>(node, "cell",
                                                                            {{"lstm", Recurrent::LSTM},
                                                                             {"gru", Recurrent::GRU},
                                                                             {"rnn_relu", Recurrent::RNN_RELU},
                                                                             {"rnn_tanh", Recurrent::RNN_TANH}}));
  op->set_cell(cell);
  op->set_reverse(Flag(node, "reverse"));
  return absl::OkStatus();
}

absl::Status Fill(const Node& node, serialization::LinearAlgebra* op) {
  op->set_function(static_cast<serialization::LinearAlgebra::Function>(IntAttribute(node, "function")));
  op->set_upper(Flag(node, "upper"));
  op->set_transpose(Flag(node, "transpose"));
  op->set_unit_diagonal(Flag(node, "unit_diagonal"));
  op->set_full_matrices(Flag(node, "full_matrices"));
  return absl::OkStatus();
}

absl::Status Fill(const Node& node, serialization::Effect* op) {
  using serialization::Effect;
  COTAN_ASSIGN_OR_RETURN(
      const Effect::Kind kind,
      Named<Effect::Kind>(node, "kind",
                          {{"print", Effect::PRINT}, {"metric", Effect::METRIC}, {"assert", Effect::ASSERT}}));
  op->set_kind(kind);
  op->set_name(Attribute<std::string>(node, "name"));
  op->set_message(Attribute<std::string>(node, "message"));
  return absl::OkStatus();
}

// Set the attributes of view steps.

absl::Status FillStep(const Node& node, ViewStep::View* step) {
  AddTexts(List(node, "sizes"), step->mutable_sizes());
  return absl::OkStatus();
}

absl::Status FillStep(const Node& node, ViewStep::Permute* step) {
  AddInts(List(node, "dims"), step->mutable_dims());
  return absl::OkStatus();
}

absl::Status FillStep(const Node& node, ViewStep::Expand* step) {
  AddTexts(List(node, "sizes"), step->mutable_sizes());
  return absl::OkStatus();
}

absl::Status FillStep(const Node& node, ViewStep::Slice* step) {
  step->set_dim(Dim(node, "dim"));
  step->set_start(Text(node, "start"));
  step->set_end(Text(node, "end"));
  step->set_step(Text(node, "step"));
  return absl::OkStatus();
}

absl::Status FillStep(const Node& node, ViewStep::Select* step) {
  step->set_dim(Dim(node, "dim"));
  step->set_index(Text(node, "index"));
  return absl::OkStatus();
}

absl::Status FillStep(const Node& node, ViewStep::AsStrided* step) {
  AddTexts(List(node, "sizes"), step->mutable_sizes());
  AddTexts(List(node, "strides"), step->mutable_strides());
  step->set_offset(Text(node, "offset"));
  return absl::OkStatus();
}

absl::Status FillStep(const Node& node, ViewStep::Diagonal* step) {
  step->set_offset(IntAttribute(node, "offset"));
  step->set_dim1(Dim(node, "dim1"));
  step->set_dim2(Dim(node, "dim2"));
  return absl::OkStatus();
}

absl::Status FillStep(const Node& node, ViewStep::Unfold* step) {
  step->set_dim(Dim(node, "dim"));
  step->set_size(IntAttribute(node, "size"));
  step->set_step(IntAttribute(node, "step"));
  return absl::OkStatus();
}

absl::Status FillStep(const Node&, ViewStep::ViewAsReal*) { return absl::OkStatus(); }
absl::Status FillStep(const Node&, ViewStep::ViewAsComplex*) { return absl::OkStatus(); }
absl::Status FillStep(const Node& node, ViewStep::DTypeView* step) {
  step->set_dtype(static_cast<serialization::DTypeProto>(IntAttribute(node, "dtype")));
  return absl::OkStatus();
}

// Sets the kind of `op` and its attributes.
// Internal: the op is a view.
absl::Status EmitPrim(PrimOp prim, const Node& node, Op& op) {
  switch (prim) {
    case PrimOp::kCopy:
    case PrimOp::kToHost:
    case PrimOp::kFromHost:
      return Fill(node, op.mutable_copy());
    case PrimOp::kMatmulEpilogue:
    case PrimOp::kMatmul:
      return Fill(node, op.mutable_matmul());
    case PrimOp::kConvolution:
      return Fill(node, op.mutable_convolution());
    case PrimOp::kConvolutionBackwardInput:
      return Fill(node, op.mutable_convolution_backward_input()->mutable_forward());
    case PrimOp::kConvolutionBackwardWeight:
      return Fill(node, op.mutable_convolution_backward_weight()->mutable_forward());
    case PrimOp::kMaxPool:
      return Fill(node, op.mutable_max_pool());
    case PrimOp::kMaxPoolBackward:
      return Fill(node, op.mutable_max_pool_backward());
    case PrimOp::kAvgPool:
      return Fill(node, op.mutable_avg_pool());
    case PrimOp::kAvgPoolBackward:
      return Fill(node, op.mutable_avg_pool_backward());
    case PrimOp::kGather:
      return Fill(node, op.mutable_gather());
    case PrimOp::kScatterAdd:
      return Fill(node, op.mutable_scatter_add());
    case PrimOp::kCheckedIndex:
      return Fill(node, op.mutable_checked_index());
    case PrimOp::kScan:
      return Fill(node, op.mutable_scan());
    case PrimOp::kSort:
      return Fill(node, op.mutable_sort());
    case PrimOp::kConcat:
      return Fill(node, op.mutable_concat());
    case PrimOp::kAttention:
      return Fill(node, op.mutable_attention());
    case PrimOp::kAttentionBackward:
      return Fill(node, op.mutable_attention_backward());
    case PrimOp::kRecurrent:
      return Fill(node, op.mutable_recurrent());
    case PrimOp::kRecurrentBackward:
      return Fill(node, op.mutable_recurrent_backward());
    case PrimOp::kLinearAlgebra:
      return Fill(node, op.mutable_linear_algebra());
    case PrimOp::kEffect:
      return Fill(node, op.mutable_effect());
    case PrimOp::kView:
    case PrimOp::kPermute:
    case PrimOp::kExpand:
    case PrimOp::kSlice:
    case PrimOp::kSelect:
    case PrimOp::kAsStrided:
    case PrimOp::kDiagonal:
    case PrimOp::kUnfold:
    case PrimOp::kViewAsReal:
    case PrimOp::kViewAsComplex:
    case PrimOp::kViewDType:
    case PrimOp::kBarrier:
      break;
  }
  return absl::InternalError(absl::StrCat(node.op, " is a view, which has no kernel"));
}

// Sets the kind of `step` and its attributes.
// Internal: the op is not a view.
absl::Status EmitPrimView(PrimOp prim, const Node& node, ViewStep& step) {
  switch (prim) {
    case PrimOp::kView:
    case PrimOp::kBarrier:
      return FillStep(node, step.mutable_view());
    case PrimOp::kPermute:
      return FillStep(node, step.mutable_permute());
    case PrimOp::kExpand:
      return FillStep(node, step.mutable_expand());
    case PrimOp::kSlice:
      return FillStep(node, step.mutable_slice());
    case PrimOp::kSelect:
      return FillStep(node, step.mutable_select());
    case PrimOp::kAsStrided:
      return FillStep(node, step.mutable_as_strided());
    case PrimOp::kDiagonal:
      return FillStep(node, step.mutable_diagonal());
    case PrimOp::kUnfold:
      return FillStep(node, step.mutable_unfold());
    case PrimOp::kViewAsReal:
      return FillStep(node, step.mutable_view_as_real());
    case PrimOp::kViewAsComplex:
      return FillStep(node, step.mutable_view_as_complex());
    case PrimOp::kViewDType:
      return FillStep(node, step.mutable_dtype_view());
    case PrimOp::kCopy:
    case PrimOp::kToHost:
    case PrimOp::kFromHost:
    case PrimOp::kMatmulEpilogue:
    case PrimOp::kMatmul:
    case PrimOp::kConvolution:
    case PrimOp::kConvolutionBackwardInput:
    case PrimOp::kConvolutionBackwardWeight:
    case PrimOp::kMaxPool:
    case PrimOp::kMaxPoolBackward:
    case PrimOp::kAvgPool:
    case PrimOp::kAvgPoolBackward:
    case PrimOp::kGather:
    case PrimOp::kScatterAdd:
    case PrimOp::kCheckedIndex:
    case PrimOp::kScan:
    case PrimOp::kSort:
    case PrimOp::kConcat:
    case PrimOp::kAttention:
    case PrimOp::kAttentionBackward:
    case PrimOp::kRecurrent:
    case PrimOp::kRecurrentBackward:
    case PrimOp::kLinearAlgebra:
    case PrimOp::kEffect:
      break;
  }
  return absl::InternalError(absl::StrCat(node.op, " is not a view"));
}

}  // namespace

absl::Status EmitKernelOp(const Graph& graph, const Node& node, Op& op) {
  if (node.op == kExprOp) {
    *op.mutable_expr() = *node.expr;
    return absl::OkStatus();
  }
  if (node.op == kCallOp) {
    op.mutable_call()->set_block(static_cast<uint32_t>(std::get<SymInt>(node.arguments[1]).constant()));
    if (const SymInt& slice = std::get<SymInt>(node.arguments[2]); slice != SymInt(0)) {
      op.mutable_call()->set_slice(slice.ToString());
    }
    op.mutable_call()->set_path(std::get<std::string>(node.arguments[3]));
    return absl::OkStatus();
  }
  if (node.op == kCollectiveOp) {
    *op.mutable_collective() = CollectiveOf(node);
    return absl::OkStatus();
  }
  const std::optional<PrimOp> prim = PrimOpOf(node);
  if (!prim.has_value()) {
    return absl::InternalError(absl::StrCat("the runtime has no op for ", PrintNode(graph, node)));
  }
  return EmitPrim(*prim, node, op);
}

absl::Status EmitViewStep(const Node& node, ViewStep& step) {
  const std::optional<PrimOp> prim = PrimOpOf(node);
  if (!prim.has_value()) return absl::InternalError(absl::StrCat(node.op, " is not a view"));
  return EmitPrimView(*prim, node, step);
}

}  // namespace cotan::aot
