// SPDX-License-Identifier: Apache-2.0

#include "serialization/text/text.h"

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "serialization/metadata/view_geometry.h"
#include "serialization/schema/op_kind.h"
#include "serialization/schema/tensor_type.h"

namespace cotan {
namespace {

using serialization::Artifact;
using serialization::Convolution;
using serialization::Expr;
using serialization::ExprInstruction;
using serialization::Method;
using serialization::Op;
using serialization::Pool;
using serialization::StateRead;
using serialization::StateUpdate;
using serialization::ViewStep;

std::string FnName(serialization::ScalarFn fn) {
  return absl::AsciiStrToLower(absl::StripPrefix(serialization::ScalarFn_Name(fn), "FN_"));
}

std::string InstructionText(const ExprInstruction& instruction) {
  std::string text = absl::StrCat(DTypeName(ToDType(instruction.dtype())), " = ", FnName(instruction.fn()));
  if (instruction.operands_size() != 0) absl::StrAppend(&text, " ", absl::StrJoin(instruction.operands(), ", "));
  switch (instruction.fn()) {
    case serialization::FN_INPUT:
    case serialization::FN_IOTA:
      absl::StrAppend(&text, " ", instruction.index());
      break;
    case serialization::FN_CONSTANT:
      if (IsFloatingPoint(ToDType(instruction.dtype()))) {
        absl::StrAppend(&text, " ", instruction.float_value());
      } else {
        absl::StrAppend(&text, " ", instruction.int_value());
      }
      break;
    case serialization::FN_SIZE:
      absl::StrAppend(&text, " ", instruction.size());
      break;
    case serialization::FN_RANDOM_UNIFORM:
      absl::StrAppend(&text, " ", instruction.index(), " slice ",
                      instruction.slice().empty() ? "0" : instruction.slice());
      break;
    default:
      break;
  }
  return text;
}

std::string ListText(absl::string_view name, const google::protobuf::RepeatedField<int64_t>& values) {
  return absl::StrCat(" ", name, "=[", absl::StrJoin(values, ","), "]");
}

std::string ConvolutionText(const Convolution& op) {
  std::string text = absl::StrCat(ListText("stride", op.stride()), ListText("padding", op.padding()),
                                  ListText("dilation", op.dilation()), " groups=", op.groups());
  if (op.transposed()) absl::StrAppend(&text, " transposed", ListText("output_padding", op.output_padding()));
  return text;
}

std::string PoolText(const Pool& op) {
  std::string text = absl::StrCat(ListText("kernel", op.kernel()), ListText("stride", op.stride()),
                                  ListText("padding", op.padding()), ListText("dilation", op.dilation()));
  if (op.ceil_mode()) absl::StrAppend(&text, " ceil_mode");
  if (op.count_include_pad()) absl::StrAppend(&text, " count_include_pad");
  if (op.divisor_override() != 0) absl::StrAppend(&text, " divisor=", op.divisor_override());
  return text;
}

std::string AttentionText(const serialization::Attention& op) {
  return absl::StrCat(" scale=", op.scale(), op.is_causal() ? " causal" : "");
}

std::string CheckedIndexText(const serialization::CheckedIndex& op) {
  std::string text = absl::StrCat(" below ", op.size());
  if (op.from_end()) absl::StrAppend(&text, " from_end");
  if (op.has_ignored()) absl::StrAppend(&text, " or ", op.ignored());
  return text;
}

std::string EffectText(const serialization::Effect& op) {
  return absl::StrCat(" ", absl::AsciiStrToLower(serialization::Effect::Kind_Name(op.kind())), " \"",
                      absl::CEscape(op.name()), "\"", op.message().empty() ? "" : ": ", absl::CEscape(op.message()));
}

std::string ScanText(const serialization::Scan& op) {
  return absl::StrCat(" ", absl::AsciiStrToLower(serialization::Scan::Function_Name(op.function())), " dim=", op.dim(),
                      op.reverse() ? " reverse" : "");
}

std::string RecurrentText(const serialization::Recurrent& op) {
  return absl::StrCat(" ", absl::AsciiStrToLower(serialization::Recurrent::Cell_Name(op.cell())),
                      op.reverse() ? " reverse" : "");
}

std::string LinearAlgebraText(const serialization::LinearAlgebra& op) {
  return absl::StrCat(" ", absl::AsciiStrToLower(serialization::LinearAlgebra::Function_Name(op.function())),
                      op.upper() ? " upper" : "", op.transpose() ? " transpose" : "",
                      op.unit_diagonal() ? " unit_diagonal" : "", op.full_matrices() ? " full_matrices" : "");
}

std::string CollectiveText(const serialization::Collective& op) {
  return absl::StrCat(" ", absl::AsciiStrToLower(serialization::Collective::Function_Name(op.function())),
                      op.mean() ? " mean" : "", op.ranks() == 0 ? "" : absl::StrCat(" ranks=", op.ranks()),
                      op.starts() ? " starts" : "");
}

std::string CallText(const serialization::Call& op) {
  return absl::StrCat(" block ", op.block(), op.slice().empty() ? "" : absl::StrCat(" slice ", op.slice()),
                      op.path().empty() ? "" : absl::StrCat(" in ", op.path()));
}

// Returns the text after the operands.
std::string AttributesText(const Op& op) {
  const auto append_step = [](std::string* out, const ViewStep& step) { absl::StrAppend(out, ViewStepText(step)); };
  switch (op.kind_case()) {
    case Op::kExpr: {
      std::string text = absl::StrCat(" over [", absl::StrJoin(op.expr().domain_sizes(), ","), "]");
      if (op.expr().reduce_dims_size() != 0) {
        absl::StrAppend(&text, " reduce {", absl::StrJoin(op.expr().reduce_dims(), ","), "}");
      }
      return text;
    }
    case Op::kView:
      return absl::StrCat(" ", absl::StrJoin(op.view().steps(), ".", append_step));
    case Op::kConvolution:
      return ConvolutionText(op.convolution());
    case Op::kConvolutionBackwardInput:
      return ConvolutionText(op.convolution_backward_input().forward());
    case Op::kConvolutionBackwardWeight:
      return ConvolutionText(op.convolution_backward_weight().forward());
    case Op::kMaxPool:
      return PoolText(op.max_pool());
    case Op::kMaxPoolBackward:
      return PoolText(op.max_pool_backward());
    case Op::kAvgPool:
      return PoolText(op.avg_pool());
    case Op::kAvgPoolBackward:
      return PoolText(op.avg_pool_backward());
    case Op::kGather:
      return absl::StrCat(" dim=", op.gather().dim());
    case Op::kScatterAdd:
      return absl::StrCat(" dim=", op.scatter_add().dim(), " padding_index=", op.scatter_add().padding_index());
    case Op::kConcat:
      return absl::StrCat(" dim=", op.concat().dim());
    case Op::kAttention:
      return AttentionText(op.attention());
    case Op::kAttentionBackward:
      return AttentionText(op.attention_backward());
    case Op::kCheckedIndex:
      return CheckedIndexText(op.checked_index());
    case Op::kEffect:
      return EffectText(op.effect());
    case Op::kScan:
      return ScanText(op.scan());
    case Op::kSort:
      return absl::StrCat(" dim=", op.sort().dim(), op.sort().descending() ? " descending" : "");
    case Op::kRecurrent:
      return RecurrentText(op.recurrent());
    case Op::kRecurrentBackward:
      return RecurrentText(op.recurrent_backward());
    case Op::kCall:
      return CallText(op.call());
    case Op::kLinearAlgebra:
      return LinearAlgebraText(op.linear_algebra());
    case Op::kCollective:
      return CollectiveText(op.collective());
    case Op::kMatmul:
      return op.matmul().has_epilogue() ? " with epilogue" : "";
    case Op::kCopy:
    case Op::KIND_NOT_SET:
      break;
  }
  return "";
}

std::string ValueText(const Method& method, uint32_t value) {
  const serialization::Value& described = method.values(static_cast<int>(value));
  return absl::StrCat("%", value, ": ", TensorTypeText(described.type()), described.on_host() ? " on host" : "");
}

std::string Quoted(absl::string_view name) { return absl::StrCat("\"", name, "\""); }

std::string OpText(const Method& method, const Op& op) {
  const auto append_result = [&](std::string* out, uint32_t value) { absl::StrAppend(out, ValueText(method, value)); };
  const auto append_operand = [](std::string* out, uint32_t value) { absl::StrAppend(out, "%", value); };
  std::string text =
      absl::StrCat("  ", absl::StrJoin(op.outputs(), ", ", append_result), op.outputs_size() == 0 ? "" : " = ",
                   OpKindName(op.kind_case()), "(", absl::StrJoin(op.inputs(), ", ", append_operand), ")",
                   AttributesText(op), op.source().empty() ? "" : "  // ", op.source(), "\n");
  if (op.has_expr()) absl::StrAppend(&text, ExprText(op.expr(), "    "));
  if (op.matmul().has_epilogue()) absl::StrAppend(&text, ExprText(op.matmul().epilogue(), "    "));
  return text;
}

// Returns the call with which a sizing method goes on: "  continue @step(%0, %1, %7[:%8])".
std::string ContinuationText(const Method& method) {
  if (!method.has_continuation()) return "";
  std::string text = absl::StrCat("  continue @", method.continuation().method(), "(");
  const auto output = [&method](uint32_t index) {
    return index < static_cast<uint32_t>(method.outputs_size()) ? method.outputs(static_cast<int>(index)) : 0;
  };
  for (int i = 0; i < method.continuation().inputs_size(); ++i) {
    const serialization::ContinuedInput& input = method.continuation().inputs(i);
    const bool is_input = input.from_inputs() && input.index() < static_cast<uint32_t>(method.inputs_size());
    absl::StrAppend(&text, i == 0 ? "%" : ", %",
                    is_input ? method.inputs(static_cast<int>(input.index())) : output(input.index()));
    if (input.count() != 0) absl::StrAppend(&text, "[:%", output(input.count() - 1), "]");
  }
  return absl::StrCat(text, ")\n");
}

}  // namespace

std::string ExprText(const Expr& expr, absl::string_view indent) {
  std::string text;
  for (int i = 0; i < expr.instructions_size(); ++i) {
    absl::StrAppend(&text, indent, i, ": ", InstructionText(expr.instructions(i)), "\n");
  }
  absl::StrAppend(&text, indent, "store ", absl::StrJoin(expr.outputs(), ", "), "\n");
  return text;
}

std::string MethodText(const Artifact& artifact, const Method& method) {
  std::string text = absl::StrCat("method @", method.name(), "(");
  for (int i = 0; i < method.inputs_size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", ValueText(method, method.inputs(i)));
    if (i < method.input_names_size()) absl::StrAppend(&text, " ", Quoted(method.input_names(i)));
  }
  absl::StrAppend(&text, ") {\n");
  const auto state_name = [&](uint32_t state) { return Quoted(artifact.states(static_cast<int>(state)).name()); };
  for (const StateRead& read : method.state_reads()) {
    absl::StrAppend(&text, "  ", ValueText(method, read.value()), " = state ", state_name(read.state()), "\n");
  }
  for (const Op& op : method.ops()) absl::StrAppend(&text, OpText(method, op));
  for (const StateUpdate& update : method.state_updates()) {
    absl::StrAppend(&text, "  state ", state_name(update.state()), " = %", update.value(), "\n");
  }
  absl::StrAppend(&text, "  return");
  const int num_results = method.outputs_size() - static_cast<int>(method.num_saved());
  for (int i = 0; i < method.outputs_size(); ++i) {
    absl::StrAppend(&text, i == 0 ? " %" : ", %", method.outputs(i));
    if (i < method.output_names_size()) absl::StrAppend(&text, " ", Quoted(method.output_names(i)));
    if (i >= num_results) absl::StrAppend(&text, " saved");
  }
  absl::StrAppend(&text, "\n", ContinuationText(method), "}\n");
  return text;
}

}  // namespace cotan
