// SPDX-License-Identifier: Apache-2.0

// Rules that replace ops on complex numbers by ops on real ones, one rule per op.
#ifndef COTAN_AOT_LOWERING_COMPLEX_COMPLEX_RULES_H_
#define COTAN_AOT_LOWERING_COMPLEX_COMPLEX_RULES_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "aot/lowering/complex/complex_node.h"

namespace cotan::aot {

// Emits the real form of a node and sets its results. Returns false if these arguments have no real
// form.
using ComplexRule = bool (*)(ComplexNode& n);

struct ComplexRuleRow {
  absl::string_view op;
  ComplexRule rule;
};

// Returns the rule of an op; null if it has no real form.
ComplexRule FindComplexRule(absl::string_view op);

// The table's parts.
absl::Span<const ComplexRuleRow> ArithmeticComplexRules();
absl::Span<const ComplexRuleRow> FunctionComplexRules();
absl::Span<const ComplexRuleRow> ViewComplexRules();
absl::Span<const ComplexRuleRow> PartwiseComplexRules();  // the same on both parts

}  // namespace cotan::aot

#endif  // COTAN_AOT_LOWERING_COMPLEX_COMPLEX_RULES_H_
