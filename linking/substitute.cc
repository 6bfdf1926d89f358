// SPDX-License-Identifier: Apache-2.0

#include "linking/substitute.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace cotan {
namespace {

using serialization::Expr;
using serialization::ExprInstruction;
using serialization::Op;
using serialization::ViewStep;

absl::Status SubstituteStep(absl::Span<const SymInt> symbols, ViewStep& step) {
  if (step.has_view()) return SubstituteTexts(symbols, *step.mutable_view()->mutable_sizes());
  if (step.has_expand()) return SubstituteTexts(symbols, *step.mutable_expand()->mutable_sizes());
  if (step.has_select()) return SubstituteText(symbols, *step.mutable_select()->mutable_index());
  if (step.has_slice()) {
    COTAN_RETURN_IF_ERROR(SubstituteText(symbols, *step.mutable_slice()->mutable_start()));
    COTAN_RETURN_IF_ERROR(SubstituteText(symbols, *step.mutable_slice()->mutable_end()));
    return SubstituteText(symbols, *step.mutable_slice()->mutable_step());
  }
  if (step.has_as_strided()) {
    COTAN_RETURN_IF_ERROR(SubstituteTexts(symbols, *step.mutable_as_strided()->mutable_sizes()));
    COTAN_RETURN_IF_ERROR(SubstituteTexts(symbols, *step.mutable_as_strided()->mutable_strides()));
    return SubstituteText(symbols, *step.mutable_as_strided()->mutable_offset());
  }
  return absl::OkStatus();
}

absl::Status SubstituteExpr(absl::Span<const SymInt> symbols, Expr& expr) {
  COTAN_RETURN_IF_ERROR(SubstituteTexts(symbols, *expr.mutable_domain_sizes()));
  for (ExprInstruction& instruction : *expr.mutable_instructions()) {
    if (!instruction.size().empty()) COTAN_RETURN_IF_ERROR(SubstituteText(symbols, *instruction.mutable_size()));
    if (!instruction.slice().empty()) COTAN_RETURN_IF_ERROR(SubstituteText(symbols, *instruction.mutable_slice()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SymInt> Substitute(const SymInt& value, absl::Span<const SymInt> symbols) {
  if (value.is_constant()) return value;
  if (value.kind() == SymInt::Kind::kSymbol) {
    const auto index = static_cast<size_t>(value.symbol());
    if (index < symbols.size()) return symbols[index];
    return absl::InvalidArgumentError(
        absl::StrCat("symbol s", index, " has no replacement: there are ", symbols.size()));
  }
  COTAN_ASSIGN_OR_RETURN(const SymInt lhs, Substitute(value.lhs(), symbols));
  COTAN_ASSIGN_OR_RETURN(const SymInt rhs, Substitute(value.rhs(), symbols));
  return SymInt::Binary(value.kind(), lhs, rhs);
}

absl::Status SubstituteText(absl::Span<const SymInt> symbols, std::string& text) {
  if (text.find('s') == std::string::npos) return absl::OkStatus();  // a number
  COTAN_ASSIGN_OR_RETURN(const SymInt value, SymInt::Parse(text));
  COTAN_ASSIGN_OR_RETURN(const SymInt replaced, Substitute(value, symbols));
  text = replaced.ToString();
  return absl::OkStatus();
}

absl::Status SubstituteTexts(absl::Span<const SymInt> symbols, google::protobuf::RepeatedPtrField<std::string>& texts) {
  for (std::string& text : texts) COTAN_RETURN_IF_ERROR(SubstituteText(symbols, text));
  return absl::OkStatus();
}

absl::Status SubstituteType(absl::Span<const SymInt> symbols, serialization::TensorType& type) {
  return SubstituteTexts(symbols, *type.mutable_sizes());
}

absl::Status SubstituteOp(absl::Span<const SymInt> symbols, Op& op) {
  if (op.has_expr()) return SubstituteExpr(symbols, *op.mutable_expr());
  if (op.has_matmul() && op.matmul().has_epilogue()) {
    return SubstituteExpr(symbols, *op.mutable_matmul()->mutable_epilogue());
  }
  if (op.has_view()) {
    for (ViewStep& step : *op.mutable_view()->mutable_steps()) COTAN_RETURN_IF_ERROR(SubstituteStep(symbols, step));
  }
  if (op.has_checked_index()) return SubstituteText(symbols, *op.mutable_checked_index()->mutable_size());
  return absl::OkStatus();
}

}  // namespace cotan
