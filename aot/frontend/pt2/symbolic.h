// SPDX-License-Identifier: Apache-2.0

// Parses size expressions that torch.export writes.
#ifndef COTAN_AOT_FRONTEND_PT2_SYMBOLIC_H_
#define COTAN_AOT_FRONTEND_PT2_SYMBOLIC_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/sym_int.h"

namespace cotan::aot::pt2 {

// Parses the two forms of expressions, SymPy's srepr() "Mul(Integer(17), Symbol('s48',
// positive=True, integer=True))" and str() "17*s48". `symbol_index` returns the index of a symbol
// by its name.
// InvalidArgument: not an expression. Unimplemented: a function that SymInt does not have; the
// message has its name; or more than 2000 operands, or 10,000 nodes as a tree.
absl::StatusOr<SymInt> ParseSymbolic(absl::string_view text,
                                     absl::FunctionRef<int(absl::string_view name)> symbol_index);

}  // namespace cotan::aot::pt2

#endif  // COTAN_AOT_FRONTEND_PT2_SYMBOLIC_H_
