// SPDX-License-Identifier: Apache-2.0

#include "aot/ir/prim_verifier.h"

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace cotan::aot {
namespace {

bool IsTensor(const Argument& argument) {
  const Use* use = std::get_if<Use>(&argument);
  return use != nullptr && use->value != kNoValue;
}

bool IsTensorList(const Argument& argument) {
  const auto* uses = std::get_if<std::vector<Use>>(&argument);
  return uses != nullptr && std::all_of(uses->begin(), uses->end(), [](Use use) { return use.value != kNoValue; });
}

bool IsInt(const Argument& argument) {
  const SymInt* value = std::get_if<SymInt>(&argument);
  return value != nullptr && value->is_constant();
}

bool IsIntList(const Argument& argument) {
  const auto* values = std::get_if<std::vector<SymInt>>(&argument);
  return values != nullptr &&
         std::all_of(values->begin(), values->end(), [](const SymInt& value) { return value.is_constant(); });
}

bool IsOfKind(const Argument& argument, PrimParameterKind kind) {
  switch (kind) {
    case PrimParameterKind::kTensor:
    case PrimParameterKind::kTensors:
      return IsTensor(argument);
    case PrimParameterKind::kOptionalTensor:
      return IsTensor(argument) || std::holds_alternative<None>(argument);
    case PrimParameterKind::kTensorList:
      return IsTensorList(argument);
    case PrimParameterKind::kInt:
      return IsInt(argument);
    case PrimParameterKind::kOptionalInt:
      return IsInt(argument) || std::holds_alternative<None>(argument);
    case PrimParameterKind::kIntList:
      return IsIntList(argument);
    case PrimParameterKind::kSymInt:
      return std::holds_alternative<SymInt>(argument);
    case PrimParameterKind::kSymIntList:
      return std::holds_alternative<std::vector<SymInt>>(argument);
    case PrimParameterKind::kFloat:
      return std::holds_alternative<double>(argument);
    case PrimParameterKind::kBool:
      return std::holds_alternative<bool>(argument);
    case PrimParameterKind::kString:
      return std::holds_alternative<std::string>(argument);
  }
  return false;
}

absl::Status Violation(absl::string_view what, const PrimOpInfo& info) {
  return absl::InternalError(absl::StrCat(what, "; the op is ", info.name, info.signature));
}

}  // namespace

absl::Status VerifyPrim(PrimOp op, const Node& node) {
  const PrimOpInfo& info = PrimInfo(op);
  const absl::Span<const PrimParameter> parameters = info.Parameters();
  const bool is_variadic = parameters.back().kind == PrimParameterKind::kTensors;
  const size_t required = parameters.size() - (is_variadic ? 1 : 0);
  const size_t given = node.arguments.size();
  if (given < required || (given > required && !is_variadic)) {
    return Violation(absl::StrCat("the number of arguments is ", given, ", expected ", required), info);
  }
  for (size_t i = 0; i < given; ++i) {
    const PrimParameter& parameter = parameters[std::min(i, parameters.size() - 1)];
    if (IsOfKind(node.arguments[i], parameter.kind)) continue;
    return Violation(absl::StrCat("argument ", i, " is not a valid '", parameter.name, "'"), info);
  }
  const size_t results = node.outputs.size();
  if (results < info.min_results || results > info.max_results) {
    return Violation(absl::StrCat("the number of results is ", results), info);
  }
  return absl::OkStatus();
}

}  // namespace cotan::aot
