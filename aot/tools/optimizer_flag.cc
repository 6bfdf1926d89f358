// SPDX-License-Identifier: Apache-2.0

#include "aot/tools/optimizer_flag.h"

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

// A key and the field that it sets.
struct Key {
  absl::string_view name;
  std::variant<double*, bool*> target;
};

std::vector<Key> KeysOf(SgdOptions& o) {
  return {{"lr", &o.lr},
          {"momentum", &o.momentum},
          {"dampening", &o.dampening},
          {"weight_decay", &o.weight_decay},
          {"nesterov", &o.nesterov},
          {"maximize", &o.maximize}};
}

std::vector<Key> KeysOf(AdamOptions& o) {
  return {{"lr", &o.lr},
          {"beta1", &o.beta1},
          {"beta2", &o.beta2},
          {"eps", &o.eps},
          {"weight_decay", &o.weight_decay},
          {"amsgrad", &o.amsgrad},
          {"maximize", &o.maximize}};
}

bool SetValue(absl::string_view text, double* target) { return absl::SimpleAtod(text, target); }
bool SetValue(absl::string_view text, bool* target) { return absl::SimpleAtob(text, target); }

absl::Status SetKey(absl::string_view setting, const std::vector<Key>& keys) {
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(setting, absl::MaxSplits('=', 1));
  const absl::string_view name = absl::StripAsciiWhitespace(parts.first);
  for (const Key& key : keys) {
    if (key.name != name) continue;
    const absl::string_view value = absl::StripAsciiWhitespace(parts.second);
    const bool set = std::visit([&](auto* target) { return SetValue(value, target); }, key.target);
    if (set) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("optimizer: '", value, "' is not a value for ", name));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "optimizer: there is no '", name, "'; known are ",
      absl::StrJoin(keys, ", ", [](std::string* out, const Key& key) { absl::StrAppend(out, key.name); })));
}

absl::Status SetKeys(absl::string_view settings, const std::vector<Key>& keys) {
  for (absl::string_view setting : absl::StrSplit(settings, ',', absl::SkipWhitespace())) {
    COTAN_RETURN_IF_ERROR(SetKey(setting, keys));
  }
  return absl::OkStatus();
}

absl::StatusOr<OptimizerOptions> DefaultOptions(absl::string_view name) {
  if (name == "sgd") return SgdOptions();
  if (name == "adam") return AdamOptions();
  if (name == "adamw") return AdamW();
  return absl::InvalidArgumentError(absl::StrCat("there is no optimizer '", name, "'; known are sgd, adam, adamw"));
}

}  // namespace

absl::StatusOr<OptimizerOptions> ParseOptimizer(absl::string_view text) {
  absl::string_view rest = absl::StripAsciiWhitespace(text);
  const size_t open = rest.find('(');
  COTAN_ASSIGN_OR_RETURN(OptimizerOptions options, DefaultOptions(absl::StripAsciiWhitespace(rest.substr(0, open))));
  if (open == absl::string_view::npos) return options;
  rest.remove_prefix(open + 1);
  if (!absl::ConsumeSuffix(&rest, ")")) {
    return absl::InvalidArgumentError(absl::StrCat("optimizer '", text, "': expected ')'"));
  }
  COTAN_RETURN_IF_ERROR(std::visit([&](auto& o) { return SetKeys(rest, KeysOf(o)); }, options));
  return options;
}

}  // namespace cotan::aot
