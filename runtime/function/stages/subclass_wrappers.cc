// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/stages/subclass_wrappers.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/function/core/wrappers.h"

namespace cotan {

// --- arguments ---------------------------------------------------------------

std::unique_ptr<FlattenStage> FlattenStage::Create(const FunctionMetadata& function) {
  if (!function.wrappers.has_value()) return nullptr;
  return std::unique_ptr<FlattenStage>(new FlattenStage(function));
}

absl::Status FlattenStage::Run(CallContext& call) {
  const FunctionMetadata& function = call.function;
  if (call.wrapped_outputs == nullptr) {
    return Refuse(function, "has arguments or results of wrapper types: use CallWrapped()");
  }
  if (call.wrapped_arguments.size() != types_.arguments.size()) {
    return Refuse(function, "takes ", types_.arguments.size(), " arguments, got ", call.wrapped_arguments.size());
  }
  for (size_t i = 0; i < types_.arguments.size(); ++i) {
    const auto& [name, meta] = types_.arguments[i];
    const absl::Status status = FlattenAs(meta, call.wrapped_arguments[i], name, call.flat_arguments);
    if (!status.ok()) return Refuse(function, "argument ", status.message());
  }
  call.arguments = call.flat_arguments;
  return absl::OkStatus();
}

std::string FlattenStage::ToString() const {
  std::vector<std::string> parts;
  for (const auto& [name, meta] : types_.arguments) {
    if (!WrapperTypeName(meta).empty()) parts.push_back(absl::StrCat(name, " ", cotan::ToString(meta)));
  }
  return absl::StrJoin(parts, ", ");
}

// --- outputs -----------------------------------------------------------------

std::unique_ptr<RewrapStage> RewrapStage::Create(const FunctionMetadata& function) {
  if (!function.wrappers.has_value()) return nullptr;
  return std::unique_ptr<RewrapStage>(new RewrapStage(function));
}

absl::Status RewrapStage::Run(CallContext& call) {
  size_t next = 0;
  for (size_t i = 0; i < types_.outputs.size(); ++i) {
    const FlatMeta& meta = types_.outputs[i];
    WrappedResult& result = (*call.wrapped_outputs)[i];
    if (WrapperTypeName(meta).empty()) {
      result = PlainResult(std::move((*call.outputs)[next++]));
      continue;
    }
    for (int k = 0; k < FlatCount(meta); ++k) parts_.push_back(std::get<Variable>((*call.outputs)[next++]));
    result = RewrapAs(meta, parts_, call.symbols());
    parts_.clear();
  }
  return absl::OkStatus();
}

std::string RewrapStage::ToString() const {
  std::vector<std::string> parts;
  for (size_t i = 0; i < types_.outputs.size(); ++i) {
    const FlatMeta& meta = types_.outputs[i];
    if (!WrapperTypeName(meta).empty()) parts.push_back(absl::StrCat("output ", i, " ", cotan::ToString(meta)));
  }
  return absl::StrJoin(parts, ", ");
}

WrappedResult PlainResult(FunctionResult result) {
  if (auto* variable = std::get_if<Variable>(&result)) return WrappedVariable(std::move(*variable));
  if (const auto* value = std::get_if<bool>(&result)) return *value;
  if (const auto* value = std::get_if<int64_t>(&result)) return *value;
  if (const auto* value = std::get_if<double>(&result)) return *value;
  if (auto* value = std::get_if<std::string>(&result)) return std::move(*value);
  return NoneValue();
}

}  // namespace cotan
