// SPDX-License-Identifier: Apache-2.0

#include "serialization/calls/op_window.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/sym_int.h"
#include "serialization/schema/tensor_type.h"

namespace cotan {
namespace {

using serialization::Expr;
using serialization::Method;
using serialization::Op;

constexpr absl::string_view kBackwardOf = "backward of ";

// Returns the expression program of an op; null if it has none.
const Expr* ExprOf(const Op& op) {
  if (op.has_expr()) return &op.expr();
  return op.has_matmul() && op.matmul().has_epilogue() ? &op.matmul().epilogue() : nullptr;
}

Expr* MutableExprOf(Op& op) {
  if (op.has_expr()) return op.mutable_expr();
  return op.has_matmul() && op.matmul().has_epilogue() ? op.mutable_matmul()->mutable_epilogue() : nullptr;
}

// Returns the random slices of an op in order: those of its program, or that of a call.
std::vector<std::string> SlicesOf(const Op& op) {
  std::vector<std::string> slices;
  if (op.has_call()) return {op.call().slice()};
  const Expr* expr = ExprOf(op);
  if (expr == nullptr) return slices;
  for (const serialization::ExprInstruction& instruction : expr->instructions()) {
    if (instruction.fn() == serialization::FN_RANDOM_UNIFORM) slices.push_back(instruction.slice());
  }
  return slices;
}

// Sets the random slices of an op.
void SetSlices(absl::Span<const std::string> slices, Op& op) {
  if (slices.empty()) return;
  if (op.has_call()) {
    op.mutable_call()->set_slice(slices[0]);
    return;
  }
  size_t next = 0;
  for (serialization::ExprInstruction& instruction : *MutableExprOf(op)->mutable_instructions()) {
    if (instruction.fn() == serialization::FN_RANDOM_UNIFORM) instruction.set_slice(slices[next++]);
  }
}

// Returns `slice` relative to `base`, such that InlineCalls() restores it.
std::optional<std::string> RelativeTo(const std::string& base, const std::string& slice) {
  const absl::StatusOr<SymInt> start = SymInt::Parse(base);
  const absl::StatusOr<SymInt> own = SymInt::Parse(slice);
  if (!start.ok() || !own.ok()) return std::nullopt;
  const SymInt relative = *own - *start;
  const absl::StatusOr<SymInt> parsed = SymInt::Parse(relative.ToString());
  if (!parsed.ok() || (*start + *parsed).ToString() != slice) return std::nullopt;
  return relative.ToString();
}

absl::string_view PathOf(absl::string_view source) {
  return absl::StartsWith(source, kBackwardOf) ? source.substr(kBackwardOf.size()) : source;
}

// Returns the names that two module paths begin with.
absl::string_view CommonPath(absl::string_view a, absl::string_view b) {
  size_t end = 0;
  for (size_t i = 0;; ++i) {
    const bool ends_a = i == a.size() || a[i] == '.', ends_b = i == b.size() || b[i] == '.';
    if (ends_a && ends_b) end = i;
    if (i == a.size() || i == b.size() || a[i] != b[i]) return a.substr(0, end);
  }
}

// Sets path and sources of a window.
void SetPath(absl::Span<const std::string> sources, OpWindow& window) {
  std::optional<absl::string_view> common;
  for (const std::string& source : sources) {
    if (source.empty()) continue;
    common = common.has_value() ? CommonPath(*common, PathOf(source)) : PathOf(source);
  }
  window.path = std::string(common.value_or(""));
  for (const std::string& source : sources) {
    absl::string_view below = PathOf(source);
    const bool is_backward = below.size() != source.size();
    if (!window.path.empty() && !source.empty()) below.remove_prefix(std::min(below.size(), window.path.size() + 1));
    // InlineCalls() makes the path alone of an empty source.
    window.sources.push_back(below.empty() ? "" : absl::StrCat(is_backward ? kBackwardOf : "", below));
  }
}

}  // namespace

int SymbolTable::SymbolOf(const Op& op, const Method& method) {
  Op anonymous = op;
  anonymous.clear_inputs();
  anonymous.clear_outputs();
  anonymous.clear_source();
  if (anonymous.has_call()) anonymous.mutable_call()->clear_path();
  const std::vector<std::string> slices(SlicesOf(op).size());
  SetSlices(slices, anonymous);
  std::string text = anonymous.SerializeAsString();
  for (const uint32_t index : op.inputs()) {
    const serialization::Value& value = method.values(static_cast<int>(index));
    absl::StrAppend(&text, ";", TensorTypeText(value.type()), value.on_host() ? " on host" : "");
  }
  for (const uint32_t index : op.outputs()) {
    const serialization::Value& value = method.values(static_cast<int>(index));
    absl::StrAppend(&text, value.on_host() ? ";on host=" : ";=", value.type().SerializeAsString());
  }
  return symbols_.try_emplace(std::move(text), static_cast<int>(symbols_.size())).first->second;
}

ValueUses::ValueUses(const Method& method) : method_(method), last_use_(static_cast<size_t>(method.values_size()), -1) {
  for (int i = 0; i < method.ops_size(); ++i) {
    for (const uint32_t value : method.ops(i).inputs()) last_use_[value] = i;
  }
  const int after = method.ops_size();
  for (const uint32_t value : method.inputs()) last_use_[value] = after;
  for (const uint32_t value : method.outputs()) last_use_[value] = after;
  for (const serialization::StateRead& read : method.state_reads()) last_use_[read.value()] = after;
  for (const serialization::StateUpdate& update : method.state_updates()) last_use_[update.value()] = after;
  for (const serialization::InputUpdate& update : method.input_updates()) last_use_[update.value()] = after;
}

std::optional<OpWindow> ValueUses::WindowOf(size_t start, size_t length, absl::Span<const int> symbols) const {
  OpWindow window;
  absl::flat_hash_map<uint32_t, size_t> numbers;  // in order of the first use
  std::vector<uint32_t> results;
  std::vector<std::string> sources;
  std::optional<std::string> base;
  const auto end = static_cast<int>(start + length);
  for (size_t i = start; i < start + length; ++i) {
    const Op& op = method_.ops(static_cast<int>(i));
    absl::StrAppend(&window.form, "\n", symbols[i]);
    for (const uint32_t value : op.inputs()) {
      const auto [entry, is_new] = numbers.try_emplace(value, numbers.size());
      if (is_new) window.inputs.push_back(value);
      absl::StrAppend(&window.form, " ", entry->second);
    }
    absl::StrAppend(&window.form, " =");
    for (const uint32_t value : op.outputs()) {
      absl::StrAppend(&window.form, " ", numbers.try_emplace(value, numbers.size()).first->second);
      results.push_back(value);
    }
    for (const std::string& slice : SlicesOf(op)) {
      const std::string own = slice.empty() ? "0" : slice;
      if (!base.has_value()) base = own;
      const std::optional<std::string> relative = RelativeTo(*base, own);
      if (!relative.has_value()) return std::nullopt;
      absl::StrAppend(&window.form, " @", *relative);
    }
    sources.push_back(op.has_call() ? op.call().path() : op.source());
  }
  for (const uint32_t value : results) {
    if (last_use_[value] < end) {
      window.inner.push_back(value);
      continue;
    }
    window.outputs.push_back(value);
    absl::StrAppend(&window.form, " >", numbers.at(value));
  }
  window.slice = base.value_or("");
  SetPath(sources, window);
  return window;
}

Method ValueUses::BlockOf(size_t start, size_t length, const OpWindow& window) const {
  Method block;
  std::vector<uint32_t> names(static_cast<size_t>(method_.values_size()), 0);
  const auto add = [&](uint32_t value) {
    names[value] = static_cast<uint32_t>(block.values_size());
    serialization::Value& copy = *block.add_values();
    *copy.mutable_type() = method_.values(static_cast<int>(value)).type();
    copy.set_on_host(method_.values(static_cast<int>(value)).on_host());
  };
  for (const uint32_t value : window.inputs) add(value);
  for (size_t i = start; i < start + length; ++i) {
    const Op& op = method_.ops(static_cast<int>(i));
    for (const uint32_t value : op.outputs()) add(value);
    Op& copy = *block.add_ops() = op;
    std::vector<std::string> slices = SlicesOf(op);
    for (std::string& slice : slices) slice = *RelativeTo(window.slice, slice.empty() ? "0" : slice);
    SetSlices(slices, copy);
    copy.clear_source();
    if (op.has_call()) {
      copy.mutable_call()->set_path(window.sources[i - start]);
    } else {
      copy.set_source(window.sources[i - start]);
    }
  }
  block.mutable_inputs()->Assign(window.inputs.begin(), window.inputs.end());
  block.mutable_outputs()->Assign(window.outputs.begin(), window.outputs.end());
  RenameValues(names, block);
  return block;
}

void RenameValues(absl::Span<const uint32_t> names, Method& method) {
  const auto rename = [&](google::protobuf::RepeatedField<uint32_t>& indexes) {
    for (uint32_t& index : indexes) index = names[index];
  };
  for (Op& op : *method.mutable_ops()) {
    rename(*op.mutable_inputs());
    rename(*op.mutable_outputs());
  }
  rename(*method.mutable_inputs());
  rename(*method.mutable_outputs());
  for (serialization::StateRead& read : *method.mutable_state_reads()) read.set_value(names[read.value()]);
  for (serialization::StateUpdate& update : *method.mutable_state_updates()) update.set_value(names[update.value()]);
  for (serialization::InputUpdate& update : *method.mutable_input_updates()) update.set_value(names[update.value()]);
}

}  // namespace cotan
