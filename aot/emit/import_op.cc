// SPDX-License-Identifier: Apache-2.0

#include "aot/emit/import_op.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "aot/ir/prim_node.h"
#include "aot/ir/prim_ops.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

using serialization::Op;

// Attributes by the names of the op's parameters (prim_ops.h).
using Attributes = std::vector<std::pair<absl::string_view, Argument>>;

template <typename Field>
std::vector<SymInt> List(const Field& values) {
  return {values.begin(), values.end()};
}

Attributes Of(const serialization::Convolution& op) {
  return {{"stride", List(op.stride())},
          {"padding", List(op.padding())},
          {"dilation", List(op.dilation())},
          {"transposed", op.transposed()},
          {"output_padding", List(op.output_padding())},
          {"groups", SymInt(op.groups())}};
}

Attributes Of(const serialization::Pool& op) {
  return {{"kernel", List(op.kernel())},
          {"stride", List(op.stride())},
          {"padding", List(op.padding())},
          {"dilation", List(op.dilation())},
          {"ceil_mode", op.ceil_mode()},
          {"count_include_pad", op.count_include_pad()},
          {"divisor_override", SymInt(op.divisor_override())}};
}

Attributes Of(const serialization::Attention& op) { return {{"is_causal", op.is_causal()}, {"scale", op.scale()}}; }

absl::StatusOr<Attributes> Of(const serialization::CheckedIndex& op) {
  COTAN_ASSIGN_OR_RETURN(SymInt size, SymInt::Parse(op.size()));
  Argument ignored = None{};
  if (op.has_ignored()) ignored = SymInt(op.ignored());
  return Attributes{{"size", std::move(size)}, {"from_end", op.from_end()}, {"ignored", std::move(ignored)}};
}

Attributes Of(const serialization::Recurrent& op) {
  std::string cell = "rnn_tanh";
  if (op.cell() == serialization::Recurrent::RNN_RELU) cell = "rnn_relu";
  if (op.cell() == serialization::Recurrent::LSTM) cell = "lstm";
  if (op.cell() == serialization::Recurrent::GRU) cell = "gru";
  return {{"cell", std::move(cell)}, {"reverse", op.reverse()}};
}

Attributes Of(const serialization::LinearAlgebra& op) {
  return {{"function", SymInt(static_cast<int64_t>(op.function()))},
          {"upper", op.upper()},
          {"transpose", op.transpose()},
          {"unit_diagonal", op.unit_diagonal()},
          {"full_matrices", op.full_matrices()}};
}

struct PrimAndAttributes {
  PrimOp prim = PrimOp::kCopy;
  Attributes attributes;
};

// Returns the prim op of an op other than an expression.
absl::StatusOr<PrimAndAttributes> PrimOf(const Op& op) {
  using Result = PrimAndAttributes;
  switch (op.kind_case()) {
    case Op::kCopy:
      return Result{PrimOp::kCopy, {}};
    case Op::kMatmul:
      return Result{op.matmul().has_epilogue() ? PrimOp::kMatmulEpilogue : PrimOp::kMatmul, {}};
    case Op::kConvolution:
      return Result{PrimOp::kConvolution, Of(op.convolution())};
    case Op::kConvolutionBackwardInput:
      return Result{PrimOp::kConvolutionBackwardInput, Of(op.convolution_backward_input().forward())};
    case Op::kConvolutionBackwardWeight:
      return Result{PrimOp::kConvolutionBackwardWeight, Of(op.convolution_backward_weight().forward())};
    case Op::kMaxPool:
      return Result{PrimOp::kMaxPool, Of(op.max_pool())};
    case Op::kMaxPoolBackward:
      return Result{PrimOp::kMaxPoolBackward, Of(op.max_pool_backward())};
    case Op::kAvgPool:
      return Result{PrimOp::kAvgPool, Of(op.avg_pool())};
    case Op::kAvgPoolBackward:
      return Result{PrimOp::kAvgPoolBackward, Of(op.avg_pool_backward())};
    case Op::kGather:
      return Result{PrimOp::kGather, {{"dim", SymInt(op.gather().dim())}}};
    case Op::kScatterAdd:
      return Result{
          PrimOp::kScatterAdd,
          {{"dim", SymInt(op.scatter_add().dim())}, {"padding_index", SymInt(op.scatter_add().padding_index())}}};
    case Op::kConcat:
      return Result{PrimOp::kConcat, {{"dim", SymInt(op.concat().dim())}}};
    case Op::kAttention:
      return Result{PrimOp::kAttention, Of(op.attention())};
    case Op::kAttentionBackward:
      return Result{PrimOp::kAttentionBackward, Of(op.attention_backward())};
    case Op::kCheckedIndex: {
      COTAN_ASSIGN_OR_RETURN(Attributes attributes, Of(op.checked_index()));
      return Result{PrimOp::kCheckedIndex, std::move(attributes)};
    }
    case Op::kScan:
      return Result{PrimOp::kScan,
                    {{"function", SymInt(static_cast<int64_t>(op.scan().function()))},
                     {"dim", SymInt(op.scan().dim())},
                     {"reverse", op.scan().reverse()}}};
    case Op::kSort:
      return Result{PrimOp::kSort, {{"dim", SymInt(op.sort().dim())}, {"descending", op.sort().descending()}}};
    case Op::kRecurrent:
      return Result{PrimOp::kRecurrent, Of(op.recurrent())};
    case Op::kRecurrentBackward:
      return Result{PrimOp::kRecurrentBackward, Of(op.recurrent_backward())};
    case Op::kLinearAlgebra:
      return Result{PrimOp::kLinearAlgebra, Of(op.linear_algebra())};
    default:
      return absl::UnimplementedError(absl::StrCat("an op of kind ", static_cast<int>(op.kind_case()), " from ",
                                                   op.source(), " cannot be imported"));
  }
}

// Returns the arguments in the order of the signature. Operands fill the tensor parameters in order; of the optional
// ones the last are None.
absl::StatusOr<std::vector<Argument>> Arguments(const PrimOpInfo& info, absl::Span<const ValueId> operands,
                                                const Attributes& attributes) {
  int64_t num_optional = static_cast<int64_t>(operands.size());
  for (const PrimParameter& parameter : info.Parameters()) num_optional -= parameter.kind == PrimParameterKind::kTensor;
  size_t next = 0;
  std::vector<Argument> arguments;
  const auto uses = [&] {
    std::vector<Use> rest;
    while (next < operands.size()) rest.push_back(Use{operands[next++]});
    return rest;
  };
  for (const PrimParameter& parameter : info.Parameters()) {
    switch (parameter.kind) {
      case PrimParameterKind::kOptionalTensor:
        if (num_optional-- <= 0) {
          arguments.emplace_back(None{});
          break;
        }
        [[fallthrough]];
      case PrimParameterKind::kTensor:
        if (next == operands.size())
          return absl::InvalidArgumentError(absl::StrCat(info.name, " has too few operands"));
        arguments.emplace_back(Use{operands[next++]});
        break;
      case PrimParameterKind::kTensorList:
        arguments.emplace_back(uses());
        break;
      case PrimParameterKind::kTensors:
        for (const Use use : uses()) arguments.emplace_back(use);
        break;
      default: {
        const auto named = [&](const auto& attribute) { return attribute.first == parameter.name; };
        const auto found = std::find_if(attributes.begin(), attributes.end(), named);
        if (found == attributes.end()) {
          return absl::InternalError(absl::StrCat(info.name, ": attribute '", parameter.name, "' is not imported"));
        }
        arguments.push_back(found->second);
      }
    }
  }
  return arguments;
}

}  // namespace

absl::StatusOr<ImportedOp> ImportKernelOp(const Op& op, absl::Span<const ValueId> operands) {
  ImportedOp imported;
  if (op.has_expr()) {
    imported.name = std::string(kExprOp);
    for (const ValueId id : operands) imported.arguments.emplace_back(Use{id});
    imported.expr = std::make_shared<serialization::Expr>(op.expr());
    return imported;
  }
  COTAN_ASSIGN_OR_RETURN(const PrimAndAttributes prim, PrimOf(op));
  imported.name = std::string(PrimName(prim.prim));
  COTAN_ASSIGN_OR_RETURN(imported.arguments, Arguments(PrimInfo(prim.prim), operands, prim.attributes));
  if (prim.prim == PrimOp::kMatmulEpilogue) {
    imported.expr = std::make_shared<serialization::Expr>(op.matmul().epilogue());
  }
  return imported;
}

absl::StatusOr<Tensor> AddView(Builder& builder, const ViewStep& step, const Tensor& source) {
  if (const auto* view = std::get_if<view::View>(&step)) return builder.View(source, view->sizes);
  if (const auto* view = std::get_if<view::Expand>(&step)) return builder.Expand(source, view->sizes);
  if (const auto* view = std::get_if<view::Permute>(&step)) {
    return builder.Permute(source, {view->dims.begin(), view->dims.end()});
  }
  if (const auto* view = std::get_if<view::Slice>(&step)) {
    return builder.Slice(source, view->dim, view->start, view->end, view->step);
  }
  if (const auto* view = std::get_if<view::Select>(&step)) return builder.SelectIndex(source, view->dim, view->index);
  if (const auto* view = std::get_if<view::AsStrided>(&step)) {
    return builder.AsStrided(source, view->sizes, view->strides, view->offset);
  }
  if (const auto* view = std::get_if<view::Diagonal>(&step)) {
    return builder.Diagonal(source, view->offset, view->dim1, view->dim2);
  }
  if (const auto* view = std::get_if<view::Unfold>(&step)) {
    return builder.Unfold(source, view->dim, view->size, view->step);
  }
  if (std::holds_alternative<view::ViewAsReal>(step)) return builder.ViewAsReal(source);
  if (std::holds_alternative<view::ViewAsComplex>(step)) return builder.ViewAsComplex(source);
  return absl::UnimplementedError(absl::StrCat("no prim op computes the view ", ToString(step)));
}

}  // namespace cotan::aot
