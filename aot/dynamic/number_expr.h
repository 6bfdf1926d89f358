// Numbers in expression programs that depend on sizes.
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

// `exprs[k]`: one program as compiled at point k of `fitter`. Where constants
// differ, the first program computes them from sizes instead; the other
// programs become copies of it.
// InvalidArgument: the programs differ otherwise, or numbers are no functions of
// the sizes; the message is a sentence.
absl::Status UnifyExprs(absl::Span<serialization::Expr* const> exprs, SizeFitter& fitter);

}  // namespace cotan::aot

#endif  // COTAN_AOT_DYNAMIC_NUMBER_EXPR_H_
