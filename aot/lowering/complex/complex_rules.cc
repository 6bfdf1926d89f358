// SPDX-License-Identifier: Apache-2.0

#include "aot/lowering/complex/complex_rules.h"

#include "absl/container/flat_hash_map.h"

namespace cotan::aot {

ComplexRule FindComplexRule(absl::string_view op) {
  static const auto* const kRules = [] {
    auto* rules = new absl::flat_hash_map<absl::string_view, ComplexRule>;
    for (const auto rows : {ArithmeticComplexRules, FunctionComplexRules, ViewComplexRules, PartwiseComplexRules}) {
      for (const ComplexRuleRow& row : rows()) rules->insert({row.op, row.rule});
    }
    return rules;
  }();
  const auto found = kRules->find(op);
  return found == kRules->end() ? nullptr : found->second;
}

}  // namespace cotan::aot
