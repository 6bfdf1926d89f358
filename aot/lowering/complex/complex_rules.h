// The real forms of ops on complex numbers, one rule per op.
#ifndef COTAN_AOT_LOWERING_COMPLEX_COMPLEX_RULES_H_
#define COTAN_AOT_LOWERING_COMPLEX_COMPLEX_RULES_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "aot/lowering/complex/complex_node.h"

namespace cotan::aot {

// Emits the real form of a node and returns its results; false: for these
// arguments there is none.
using ComplexRule = bool (*)(ComplexNode& n);

struct ComplexRuleRow {
  absl::string_view op;
  ComplexRule rule;
};

// The rule of an op; nullptr: it has no real form.
ComplexRule FindComplexRule(absl::string_view op);

// The table's parts.
absl::Span<const ComplexRuleRow> ArithmeticComplexRules();
absl::Span<const ComplexRuleRow> FunctionComplexRules();
absl::Span<const ComplexRuleRow> ViewComplexRules();
absl::Span<const ComplexRuleRow> PartwiseComplexRules();  // the same on both parts

}  // namespace cotan::aot

#endif  // COTAN_AOT_LOWERING_COMPLEX_COMPLEX_RULES_H_
