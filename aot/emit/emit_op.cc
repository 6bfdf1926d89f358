// SPDX-License-Identifier: Apache-2.0

#include "aot/emit/emit_op.h"

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "aot/ir/text.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

using serialization::Op;
using serialization::ViewStep;

const std::vector<SymInt>& List(const Node& node, size_t i) { return std::get<std::vector<SymInt>>(node.arguments[i]); }
const SymInt& Size(const Node& node, size_t i) { return std::get<SymInt>(node.arguments[i]); }
int64_t Int(const Node& node, size_t i) { return Size(node, i).constant(); }
bool Flag(const Node& node, size_t i) { return std::get<bool>(node.arguments[i]); }
uint32_t Dim(const Node& node, size_t i) { return static_cast<uint32_t>(Int(node, i)); }

template <typename Field>
void AddTexts(const std::vector<SymInt>& values, Field* field) {
  for (const SymInt& value : values) *field->Add() = value.ToString();
}

template <typename Field>
void AddInts(const std::vector<SymInt>& values, Field* field) {
  for (const SymInt& value : values) field->Add(value.constant());
}

// Reads the attributes of Builder's ConvolutionConfig from argument `first` on.
void Fill(const Node& node, size_t first, serialization::Convolution* op) {
  AddInts(List(node, first), op->mutable_stride());
  AddInts(List(node, first + 1), op->mutable_padding());
  AddInts(List(node, first + 2), op->mutable_dilation());
  op->set_transposed(Flag(node, first + 3));
  AddInts(List(node, first + 4), op->mutable_output_padding());
  op->set_groups(Int(node, first + 5));
}

void Fill(const Node& node, size_t first, serialization::Pool* op) {
  AddInts(List(node, first), op->mutable_kernel());
  AddInts(List(node, first + 1), op->mutable_stride());
  AddInts(List(node, first + 2), op->mutable_padding());
  AddInts(List(node, first + 3), op->mutable_dilation());
  op->set_ceil_mode(Flag(node, first + 4));
  op->set_count_include_pad(Flag(node, first + 5));
  op->set_divisor_override(Int(node, first + 6));
}

void Fill(const Node& node, size_t first, serialization::Attention* op) {
  op->set_is_causal(Flag(node, first));
  op->set_scale(std::get<double>(node.arguments[first + 1]));
}

template <typename Enum>
using EnumNames = std::initializer_list<std::pair<absl::string_view, Enum>>;

// Returns the enumerator that argument `i` names.
template <typename Enum>
absl::StatusOr<Enum> Named(const Node& node, size_t i, EnumNames<Enum> names) {
  const auto& given = std::get<std::string>(node.arguments[i]);
  for (const auto& [name, value] : names) {
    if (name == given) return value;
  }
  return absl::InternalError(absl::StrCat(
      "argument ", i, " of ", node.op, " is '", given, "'; known are: ",
      absl::StrJoin(names, ", ", [](std::string* out, const auto& entry) { absl::StrAppend(out, entry.first); })));
}

absl::Status Fill(const Node& node, size_t first, serialization::Recurrent* op) {
  using serialization::Recurrent;
  COTAN_ASSIGN_OR_RETURN(const Recurrent::Cell cell, Named<Recurrent::Cell>(node, first,
                                                                            {{"lstm", Recurrent::LSTM},
                                                                             {"gru", Recurrent::GRU},
                                                                             {"rnn_relu", Recurrent::RNN_RELU},
                                                                             {"rnn_tanh", Recurrent::RNN_TANH}}));
  op->set_cell(cell);
  op->set_reverse(Flag(node, first + 1));
  return absl::OkStatus();
}

absl::Status Fill(const Node& node, serialization::Effect* op) {
  using serialization::Effect;
  COTAN_ASSIGN_OR_RETURN(
      const Effect::Kind kind,
      Named<Effect::Kind>(node, 2, {{"print", Effect::PRINT}, {"metric", Effect::METRIC}, {"assert", Effect::ASSERT}}));
  op->set_kind(kind);
  op->set_name(std::get<std::string>(node.arguments[3]));
  op->set_message(std::get<std::string>(node.arguments[4]));
  return absl::OkStatus();
}

using KernelFiller = void (*)(const Node& node, Op& op);
using NamedFiller = absl::Status (*)(const Node& node, Op& op);
using ViewFiller = void (*)(const Node& node, ViewStep& step);

const absl::flat_hash_map<absl::string_view, KernelFiller>& KernelFillers() {
  static const auto* const kFillers = new absl::flat_hash_map<absl::string_view, KernelFiller>({
      {"cotan.expr", [](const Node& node, Op& op) { *op.mutable_expr() = *node.expr; }},
      {"prim.copy", [](const Node& node, Op& op) { op.mutable_copy(); }},
      {"prim.matmul", [](const Node& node, Op& op) { op.mutable_matmul(); }},
      {"prim.matmul_epilogue",
       [](const Node& node, Op& op) { *op.mutable_matmul()->mutable_epilogue() = *node.expr; }},
      {"prim.convolution", [](const Node& node, Op& op) { Fill(node, 3, op.mutable_convolution()); }},
      {"prim.convolution_backward_input",
       [](const Node& node, Op& op) { Fill(node, 2, op.mutable_convolution_backward_input()->mutable_forward()); }},
      {"prim.convolution_backward_weight",
       [](const Node& node, Op& op) { Fill(node, 2, op.mutable_convolution_backward_weight()->mutable_forward()); }},
      {"prim.max_pool", [](const Node& node, Op& op) { Fill(node, 1, op.mutable_max_pool()); }},
      {"prim.max_pool_backward", [](const Node& node, Op& op) { Fill(node, 2, op.mutable_max_pool_backward()); }},
      {"prim.avg_pool", [](const Node& node, Op& op) { Fill(node, 1, op.mutable_avg_pool()); }},
      {"prim.avg_pool_backward", [](const Node& node, Op& op) { Fill(node, 1, op.mutable_avg_pool_backward()); }},
      {"prim.gather", [](const Node& node, Op& op) { op.mutable_gather()->set_dim(Int(node, 2)); }},
      {"prim.scatter_add",
       [](const Node& node, Op& op) {
         op.mutable_scatter_add()->set_dim(Int(node, 3));
         op.mutable_scatter_add()->set_padding_index(Int(node, 4));
       }},
      {"prim.checked_index",
       [](const Node& node, Op& op) {
         op.mutable_checked_index()->set_size(Size(node, 1).ToString());
         op.mutable_checked_index()->set_from_end(Flag(node, 2));
         if (std::holds_alternative<SymInt>(node.arguments[3])) op.mutable_checked_index()->set_ignored(Int(node, 3));
       }},
      {"prim.scan",
       [](const Node& node, Op& op) {
         op.mutable_scan()->set_function(static_cast<serialization::Scan::Function>(Int(node, 1)));
         op.mutable_scan()->set_dim(Int(node, 2));
         op.mutable_scan()->set_reverse(Flag(node, 3));
       }},
      {"prim.sort",
       [](const Node& node, Op& op) {
         op.mutable_sort()->set_dim(Int(node, 1));
         op.mutable_sort()->set_descending(Flag(node, 2));
       }},
      {"prim.concat", [](const Node& node, Op& op) { op.mutable_concat()->set_dim(Int(node, 1)); }},
      {"prim.attention", [](const Node& node, Op& op) { Fill(node, 4, op.mutable_attention()); }},
      {"prim.attention_backward", [](const Node& node, Op& op) { Fill(node, 7, op.mutable_attention_backward()); }},
  });
  return *kFillers;
}

// Fillers of ops with an argument that names an enumerator.
const absl::flat_hash_map<absl::string_view, NamedFiller>& NamedFillers() {
  static const auto* const kFillers = new absl::flat_hash_map<absl::string_view, NamedFiller>({
      {"prim.effect", [](const Node& node, Op& op) { return Fill(node, op.mutable_effect()); }},
      {"prim.recurrent", [](const Node& node, Op& op) { return Fill(node, 4, op.mutable_recurrent()); }},
      {"prim.recurrent_backward",
       [](const Node& node, Op& op) { return Fill(node, 8, op.mutable_recurrent_backward()); }},
  });
  return *kFillers;
}

const absl::flat_hash_map<absl::string_view, ViewFiller>& ViewFillers() {
  static const auto* const kFillers = new absl::flat_hash_map<absl::string_view, ViewFiller>({
      {"prim.view",
       [](const Node& node, ViewStep& step) { AddTexts(List(node, 1), step.mutable_view()->mutable_sizes()); }},
      {"prim.permute",
       [](const Node& node, ViewStep& step) { AddInts(List(node, 1), step.mutable_permute()->mutable_dims()); }},
      {"prim.expand",
       [](const Node& node, ViewStep& step) { AddTexts(List(node, 1), step.mutable_expand()->mutable_sizes()); }},
      {"prim.slice",
       [](const Node& node, ViewStep& step) {
         step.mutable_slice()->set_dim(Dim(node, 1));
         step.mutable_slice()->set_start(Size(node, 2).ToString());
         step.mutable_slice()->set_end(Size(node, 3).ToString());
         step.mutable_slice()->set_step(Size(node, 4).ToString());
       }},
      {"prim.select",
       [](const Node& node, ViewStep& step) {
         step.mutable_select()->set_dim(Dim(node, 1));
         step.mutable_select()->set_index(Size(node, 2).ToString());
       }},
      {"prim.as_strided",
       [](const Node& node, ViewStep& step) {
         AddTexts(List(node, 1), step.mutable_as_strided()->mutable_sizes());
         AddTexts(List(node, 2), step.mutable_as_strided()->mutable_strides());
         step.mutable_as_strided()->set_offset(Size(node, 3).ToString());
       }},
      {"prim.diagonal",
       [](const Node& node, ViewStep& step) {
         step.mutable_diagonal()->set_offset(Int(node, 1));
         step.mutable_diagonal()->set_dim1(Dim(node, 2));
         step.mutable_diagonal()->set_dim2(Dim(node, 3));
       }},
      {"prim.view_as_real", [](const Node&, ViewStep& step) { step.mutable_view_as_real(); }},
      {"prim.view_as_complex", [](const Node&, ViewStep& step) { step.mutable_view_as_complex(); }},
      {"prim.unfold",
       [](const Node& node, ViewStep& step) {
         step.mutable_unfold()->set_dim(Dim(node, 1));
         step.mutable_unfold()->set_size(Int(node, 2));
         step.mutable_unfold()->set_step(Int(node, 3));
       }},
  });
  return *kFillers;
}

}  // namespace

absl::Status EmitKernelOp(const Graph& graph, const Node& node, Op& op) {
  if (const auto named = NamedFillers().find(node.op); named != NamedFillers().end()) return named->second(node, op);
  const auto it = KernelFillers().find(node.op);
  if (it == KernelFillers().end()) {
    return absl::InternalError(absl::StrCat("the runtime has no op for ", PrintNode(graph, node)));
  }
  it->second(node, op);
  return absl::OkStatus();
}

absl::Status EmitViewStep(const Node& node, ViewStep& step) {
  const auto it = ViewFillers().find(node.op);
  if (it == ViewFillers().end()) return absl::InternalError(absl::StrCat(node.op, " is not a view"));
  it->second(node, step);
  return absl::OkStatus();
}

}  // namespace cotan::aot
