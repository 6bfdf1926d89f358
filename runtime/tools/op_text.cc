// SPDX-License-Identifier: Apache-2.0

#include "runtime/tools/op_text.h"

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "serialization/text/text.h"

namespace cotan::tools {

using serialization::Method;
using serialization::Op;

std::string StableOpText(const Method& method, const Op& op) {
  Method single;
  absl::flat_hash_map<uint32_t, uint32_t> numbers;
  const auto number_of = [&](uint32_t value) {
    const auto [found, is_new] = numbers.emplace(value, static_cast<uint32_t>(numbers.size()));
    if (is_new) *single.add_values() = method.values(static_cast<int>(value));
    return found->second;
  };
  Op& copy = *single.add_ops() = op;
  for (uint32_t& input : *copy.mutable_inputs()) {
    const bool is_new = !numbers.contains(input);
    input = number_of(input);
    if (is_new) single.add_inputs(input);
  }
  for (uint32_t& output : *copy.mutable_outputs()) output = number_of(output);
  const std::string text = MethodText({}, single);
  absl::string_view line = text;
  absl::ConsumePrefix(&line, "method @");
  absl::ConsumeSuffix(&line, "  return\n}\n");
  return absl::StrReplaceAll(line, {{") {\n  ", ") "}});
}

}  // namespace cotan::tools
