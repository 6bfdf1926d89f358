// SPDX-License-Identifier: Apache-2.0

// Constants of expression programs that depend on sizes.
#ifndef COTAN_AOT_DYNAMIC_NUMBER_EXPR_H_
#define COTAN_AOT_DYNAMIC_NUMBER_EXPR_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "aot/dynamic/size_fitter.h"
#include "serialization/schema/expr.pb.h"

namespace cotan::aot {

// Unifies the programs `exprs[k]`, compiled at point k of `fitter`: where constants differ, the
// first program computes them from sizes instead. The other programs become copies of it.
// InvalidArgument: the programs differ otherwise, or a number is not an expression of the sizes.
absl::Status UnifyExprs(absl::Span<serialization::Expr* const> exprs, SizeFitter& fitter);

}  // namespace cotan::aot

#endif  // COTAN_AOT_DYNAMIC_NUMBER_EXPR_H_
