// SPDX-License-Identifier: Apache-2.0

#include "runtime/execution/effects.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/execution/effect_kernel.h"
#include "runtime/tensor/scalar.h"

namespace cotan {

absl::string_view EffectKindName(EffectKind kind) {
  switch (kind) {
    case EffectKind::kPrint:
      return "print";
    case EffectKind::kMetric:
      return "metric";
    case EffectKind::kAssert:
      return "assert";
  }
  return "unknown";
}

EffectHandlers& EffectHandlers::Set(EffectKind kind, absl::string_view name, EffectHandler handler) {
  by_name_.insert_or_assign(std::make_pair(kind, std::string(name)), std::move(handler));
  return *this;
}

EffectHandlers& EffectHandlers::Set(EffectKind kind, EffectHandler handler) {
  by_kind_.insert_or_assign(kind, std::move(handler));
  return *this;
}

const EffectHandler* EffectHandlers::Find(EffectKind kind, absl::string_view name) const {
  const auto named = by_name_.find(std::make_pair(kind, std::string(name)));
  if (named != by_name_.end()) return &named->second;
  const auto any = by_kind_.find(kind);
  return any == by_kind_.end() ? nullptr : &any->second;
}

absl::Status EffectHandlers::Check(const Program& program) const {
  std::vector<std::string> missing;
  for (const serialization::Method& method : program.artifact().methods()) {
    for (const serialization::Op& op : method.ops()) {
      if (!op.has_effect()) continue;
      const EffectKind kind = KindOf(op.effect());
      if (kind == EffectKind::kAssert || Find(kind, op.effect().name()) != nullptr) continue;
      missing.push_back(
          absl::StrCat(EffectKindName(kind), " '", op.effect().name(), "' of method '", method.name(), "'"));
    }
  }
  if (missing.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("no handler for effects of the program: ", absl::StrJoin(missing, ", "),
                   "; set handlers in SessionOptions.effects (runtime/execution/effects.h)"));
}

std::string EffectText(const EffectEvent& event) {
  constexpr int64_t kShown = 8;
  const Tensor& value = event.value;
  const size_t size = ByteSize(value.dtype());
  const int64_t shown = std::min(value.num_elements(), kShown);
  std::string elements;
  for (int64_t i = 0; i < shown; ++i) {
    const char* const element = static_cast<const char*>(value.address()) + static_cast<size_t>(i) * size;
    const absl::StatusOr<double> number = DecodeScalar({element, size}, value.dtype());
    absl::StrAppend(&elements, i == 0 ? "" : ", ");
    if (number.ok()) absl::StrAppend(&elements, *number);
  }
  return absl::StrCat(EffectKindName(event.kind), " '", event.name, "'", event.message.empty() ? "" : " (",
                      event.message, event.message.empty() ? "" : ")", ": ", value.ToString(), " = [", elements,
                      shown < value.num_elements() ? ", ...]" : "]");
}

}  // namespace cotan
